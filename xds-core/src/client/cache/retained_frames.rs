//! Received frames that cached resources are slices of.
//!
//! If the new resources make up most of a large response, they are not copied. Each retained frame
//! counts the bytes in use. When less than half is in use, the remaining resources are copied and
//! the frame is freed, so that a cache never pins more than twice its size.

use alloc::vec::Vec;

use crate::slab::{Slab, Slot};

/// Minimum size of a retained frame in bytes. Resources in smaller frames are copied.
const MIN_RETAINED_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct RetainedFrames {
    frames: Slab<RetainedFrame>,
}

#[derive(Debug)]
struct RetainedFrame {
    bytes: usize,
    in_use: usize,
    /// All entries ever accepted from the frame.
    members: Vec<Slot>,
}

/// Returns whether `survivors` bytes of accepted resources should stay in a frame of `frame` bytes.
pub(crate) fn is_worth_retaining(frame: usize, survivors: usize) -> bool {
    frame >= MIN_RETAINED_BYTES && survivors >= frame / 2
}

impl RetainedFrames {
    /// Retains a frame of `bytes` bytes for entries that are about to be accepted.
    pub(crate) fn retain(&mut self, bytes: usize) -> Slot {
        self.frames
            .push_back(RetainedFrame { bytes, in_use: 0, members: Vec::new() })
            .map_or(Slot::NONE, |key| key.slot())
    }

    /// Notes that the resource of `entry` is a slice of the frame.
    pub(crate) fn add_member(&mut self, frame: Slot, entry: Slot, bytes: usize) {
        if let Some(frame) = self.frames.at_mut(frame) {
            frame.in_use += bytes;
            frame.members.push(entry);
        }
    }

    /// Notes that a resource in the frame is no longer in use. Returns whether the frame should be
    /// released.
    pub(crate) fn remove_member(&mut self, frame: Slot, bytes: usize) -> bool {
        self.frames.at_mut(frame).is_some_and(|frame| {
            frame.in_use = frame.in_use.saturating_sub(bytes);
            frame.in_use < frame.bytes / 2
        })
    }

    /// Releases the frame. The caller must copy the resources of the returned entries that still
    /// use it.
    pub(crate) fn release(&mut self, frame: Slot) -> Vec<Slot> {
        self.frames.remove(frame).map(|frame| frame.members).unwrap_or_default()
    }
}
