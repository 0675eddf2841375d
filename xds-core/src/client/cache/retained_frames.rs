//! Received frames that resources still lie in.
//!
//! Resources that make up most of a large response are not copied out of it. Each such frame counts
//! the bytes in use; when they fall below half, the rest is copied out and the frame is let go, so
//! that a cache never pins more than twice what it holds.

use alloc::vec::Vec;

use crate::slab::{Slab, Slot};

/// Smaller frames are not worth keeping: their resources are copied out one by one.
const WORTH_KEEPING: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct HeldFrames {
    frames: Slab<HeldFrame>,
}

#[derive(Debug)]
struct HeldFrame {
    bytes: usize,
    in_use: usize,
    /// Every entry that was ever accepted out of the frame.
    members: Vec<Slot>,
}

/// Whether resources of `survivors` bytes in all stay where they lie in a frame of `frame` bytes.
pub(crate) fn worth_keeping(frame: usize, survivors: usize) -> bool {
    frame >= WORTH_KEEPING && survivors >= frame / 2
}

impl HeldFrames {
    /// Holds a frame of `bytes` bytes for entries that are about to join it.
    pub(crate) fn hold(&mut self, bytes: usize) -> Slot {
        self.frames
            .push_back(HeldFrame { bytes, in_use: 0, members: Vec::new() })
            .map_or(Slot::NONE, |key| key.slot())
    }

    /// Notes that the resource of `entry` lies in the frame.
    pub(crate) fn join(&mut self, frame: Slot, entry: Slot, bytes: usize) {
        if let Some(frame) = self.frames.at_mut(frame) {
            frame.in_use += bytes;
            frame.members.push(entry);
        }
    }

    /// Notes that a resource in the frame is no longer in use. True if the frame should be released.
    pub(crate) fn leave(&mut self, frame: Slot, bytes: usize) -> bool {
        self.frames.at_mut(frame).is_some_and(|frame| {
            frame.in_use = frame.in_use.saturating_sub(bytes);
            frame.in_use < frame.bytes / 2
        })
    }

    /// Lets the frame go; the entries that may still lie in it are the caller's to copy out.
    pub(crate) fn release(&mut self, frame: Slot) -> Vec<Slot> {
        self.frames.remove(frame).map(|frame| frame.members).unwrap_or_default()
    }
}
