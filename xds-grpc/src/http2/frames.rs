//! Parser of the frame headers of a server.

/// Length of a frame header in bytes.
const HEADER: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;

/// Flag of DATA and HEADERS: last frame of the stream in this direction.
pub(super) const END_STREAM: u8 = 1;
/// Flag of SETTINGS: acknowledges the other side's settings.
const ACK: u8 = 1;

/// Parser of frame boundaries.
#[derive(Debug)]
pub(super) struct Frames {
    state: FrameState,
    pub(super) settings: Settings,
    /// Whether a GOAWAY frame was read.
    pub(super) has_go_away: bool,
}

#[derive(Clone, Copy, Debug)]
enum FrameState {
    /// Partial frame header and its number of bytes.
    Header([u8; HEADER], usize),
    /// Number of payload bytes that are left in the frame.
    Payload(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settings {
    Missing,
    /// The header of the SETTINGS frame was read.
    Begun,
    Read,
}

/// Error: the first bytes, which do not begin a SETTINGS frame.
pub(super) struct NoSettings(pub(super) Vec<u8>);

impl Frames {
    pub(super) const fn new() -> Self {
        let state = FrameState::Header([0; HEADER], 0);
        Self { state, settings: Settings::Missing, has_go_away: false }
    }

    /// Parses the bytes that were read. Returns whether they end a stream.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<bool, NoSettings> {
        let mut has_end = false;
        while !bytes.is_empty() {
            match &mut self.state {
                FrameState::Header(header, filled) => {
                    let taken = bytes.len().min(HEADER.saturating_sub(*filled));
                    let (own, rest) = bytes.split_at(taken);
                    for (to, from) in header.iter_mut().skip(*filled).zip(own) {
                        *to = *from;
                    }
                    *filled += taken;
                    bytes = rest;
                    let (header, filled) = (*header, *filled);
                    self.check_first(header, filled)?;
                    if filled == HEADER {
                        has_end |= self.begin_frame(header);
                    }
                }
                FrameState::Payload(left) => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    bytes = bytes.get(taken..).unwrap_or_default();
                    if *left == 0 {
                        self.end_frame();
                    }
                }
            }
        }
        Ok(has_end)
    }

    /// Checks that the first frame is SETTINGS. It has at most 16384 bytes, so its first byte is
    /// zero.
    fn check_first(&self, header: [u8; HEADER], filled: usize) -> Result<(), NoSettings> {
        if self.settings != Settings::Missing {
            return Ok(());
        }
        let read = header.get(..filled).unwrap_or_default();
        let is_wrong = match header {
            // Receivers ignore undefined flags of a frame and the reserved bit (RFC 9113, section
            // 4.1).
            [_, _, _, kind, flags, reserved, stream @ ..] if filled == HEADER => {
                kind != SETTINGS || flags & ACK != 0 || reserved & 0x7f != 0 || stream != [0; 3]
            }
            _ => is_tls(read),
        };
        if is_wrong { Err(NoSettings(read.to_vec())) } else { Ok(()) }
    }

    fn begin_frame(&mut self, header: [u8; HEADER]) -> bool {
        let [a, b, c, kind, flags, ..] = header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.state = FrameState::Payload(length);
        if self.settings == Settings::Missing {
            self.settings = Settings::Begun;
        }
        if length == 0 {
            self.end_frame();
        }
        self.has_go_away |= kind == GOAWAY;
        match kind {
            DATA | HEADERS => flags & END_STREAM != 0,
            RST_STREAM => true,
            _ => false,
        }
    }

    fn end_frame(&mut self) {
        self.state = FrameState::Header([0; HEADER], 0);
        if self.settings == Settings::Begun {
            self.settings = Settings::Read;
        }
    }

    /// Returns the partial frame header.
    pub(super) fn rest(&self) -> &[u8] {
        match &self.state {
            FrameState::Header(header, filled) => header.get(..*filled).unwrap_or_default(),
            FrameState::Payload(_) => &[],
        }
    }
}

/// Returns whether the bytes begin a TLS record: its type, and a version of SSL 3 or TLS.
pub(crate) fn is_tls(first: &[u8]) -> bool {
    matches!(first, [0x14..=0x17, 0x03, ..])
}
