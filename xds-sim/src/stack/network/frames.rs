//! Description of the bytes of a connection for the trace: HTTP/2 frames with the xDS messages in
//! them, TLS records, or HTTP/1.

use std::collections::BTreeMap;

use bytes::{Buf as _, Bytes, BytesMut};
use prost::Message as _;
use xds_core::proto::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Status,
};

use super::wire::StreamUnit;
use crate::trace::{Description, EventKind};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER: usize = 9;
const TLS_HEADER: usize = 5;
const GRPC_HEADER: usize = 5;

/// Protocol of the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Unknown,
    Http2,
    Tls,
    Other,
}

/// Sender of the bytes of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Client,
    Server,
}

/// Reader of one direction.
#[derive(Debug)]
pub(super) struct FrameReader {
    sender: Sender,
    protocol: Protocol,
    buffer: BytesMut,
    /// Incomplete messages by stream.
    messages: BTreeMap<u32, BytesMut>,
}

/// Variant of the discovery protocol of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamVariant {
    StateOfTheWorld,
    Incremental,
}

/// Frame, record or message of a connection.
#[derive(Debug)]
pub(super) struct WireUnit {
    pub(super) description: Description,
    /// Content, with its stream, if the unit is a message or ends a stream.
    pub(super) content: Option<(u32, StreamUnit)>,
    /// Number of bytes that were written after it, in the same write.
    pub(super) after: usize,
}

impl WireUnit {
    const fn new(description: Description) -> Self {
        Self { description, content: None, after: 0 }
    }
}

/// Variants of the streams of a connection, learned from their requests.
pub(super) type Variants = BTreeMap<u32, StreamVariant>;

impl FrameReader {
    pub(super) fn new(sender: Sender) -> Self {
        Self {
            sender,
            protocol: Protocol::Unknown,
            buffer: BytesMut::new(),
            messages: BTreeMap::new(),
        }
    }

    /// Whether the last frame is complete.
    pub(super) fn is_between_frames(&self) -> bool {
        self.protocol == Protocol::Http2 && self.buffer.is_empty()
    }

    /// Reads bytes, and returns the units that they complete.
    pub(super) fn read(&mut self, bytes: &[u8], variants: &mut Variants) -> Vec<WireUnit> {
        self.buffer.extend_from_slice(bytes);
        let mut units = Vec::new();
        while let Some(read) = self.unit(variants) {
            let after = self.buffer.len();
            units.extend(read.into_iter().map(|unit| WireUnit { after, ..unit }));
        }
        units
    }

    /// Takes the next unit from the buffer, if it is complete.
    fn unit(&mut self, variants: &mut Variants) -> Option<Vec<WireUnit>> {
        let transport =
            |text: String| vec![WireUnit::new(Description::new(EventKind::Transport, text))];
        match self.protocol {
            Protocol::Unknown => {
                let first = *self.buffer.first()?;
                let length = self.buffer.len().min(PREFACE.len());
                if self.buffer[..length] == PREFACE[..length] {
                    if length < PREFACE.len() {
                        return None;
                    }
                    self.protocol = Protocol::Http2;
                    self.buffer.advance(PREFACE.len());
                    return Some(transport("HTTP/2 preface".into()));
                }
                if self.buffer.len() < FRAME_HEADER {
                    return None;
                }
                // A server begins with SETTINGS on stream 0, a TLS peer with a handshake record.
                self.protocol = match (first, self.buffer[1], self.buffer[3]) {
                    (0x14..=0x17, 3, _) => Protocol::Tls,
                    (0, _, 4) => Protocol::Http2,
                    _ => Protocol::Other,
                };
                Some(Vec::new())
            }
            Protocol::Http2 => self.http2_frame(variants),
            Protocol::Tls => {
                let header = self.buffer.get(..TLS_HEADER)?;
                let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
                let kind = header[0];
                if self.buffer.len() < TLS_HEADER + length {
                    return None;
                }
                self.buffer.advance(TLS_HEADER + length);
                let kind = match kind {
                    0x14 => "change of the cipher",
                    0x15 => "alert",
                    0x16 => "handshake",
                    _ => "data",
                };
                Some(transport(format!("TLS {kind}, {length} bytes")))
            }
            Protocol::Other => {
                if self.buffer.is_empty() {
                    return None;
                }
                let bytes = self.buffer.split();
                let line = bytes[..].split(|byte| *byte == b'\r').next().unwrap_or_default();
                let text = match core::str::from_utf8(line) {
                    Ok(line) if line.contains("HTTP/1") => line.to_owned(),
                    _ => format!("{} bytes", bytes.len()),
                };
                Some(transport(text))
            }
        }
    }

    fn http2_frame(&mut self, variants: &mut Variants) -> Option<Vec<WireUnit>> {
        let header = self.buffer.get(..FRAME_HEADER)?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let (kind, flags) = (header[3], header[4]);
        let stream =
            u32::from_be_bytes([header[5], header[6], header[7], header[8]]) & (u32::MAX >> 1);
        if self.buffer.len() < FRAME_HEADER + length {
            return None;
        }
        self.buffer.advance(FRAME_HEADER);
        let payload = self.buffer.split_to(length);
        let is_end = matches!(kind, 0 | 1) && flags & 1 != 0;
        let end = if is_end { ", end of the stream" } else { "" };
        let acknowledged = if matches!(kind, 4 | 6) && flags & 1 != 0 { " ACK" } else { "" };
        let code = |at: usize| payload.get(at..at + 4).map_or(0, |mut code| code.get_u32());
        let text = match kind {
            0 => format!("DATA stream {stream}, {length} bytes{end}"),
            1 => format!("HEADERS stream {stream}{end}"),
            3 => format!("RST_STREAM stream {stream}, code {}", code(0)),
            4 => format!("SETTINGS{acknowledged}"),
            6 => format!("PING{acknowledged}"),
            7 => format!("GOAWAY, last stream {}, code {}", code(0), code(4)),
            8 => format!("WINDOW_UPDATE stream {stream}, {} bytes", code(0)),
            other => format!("frame of type {other} on stream {stream}, {length} bytes"),
        };
        let mut units = vec![WireUnit::new(Description::new(EventKind::Transport, text))];
        if kind == 0 {
            let message = self.messages.entry(stream).or_default();
            message.extend_from_slice(&payload);
            while let Some(message) = take_message(message) {
                let message = message.freeze();
                let described = match self.sender {
                    Sender::Client => describe_request(&message, stream, variants),
                    Sender::Server => describe_response(&message, stream, variants),
                };
                let description = described.unwrap_or_else(|| {
                    let text = format!("stream {stream}: message of {} bytes", message.len());
                    Description::new(EventKind::Transport, text)
                });
                let content = Some((stream, StreamUnit::Message(message)));
                units.push(WireUnit { content, ..WireUnit::new(description) });
            }
        }
        // A reset ends both directions.
        if (is_end || kind == 3)
            && let Some(last) = units.last_mut()
        {
            match last.content {
                None => last.content = Some((stream, StreamUnit::End)),
                Some(_) => {
                    let text = format!("stream {stream}: end");
                    let description = Description::new(EventKind::Transport, text);
                    let content = Some((stream, StreamUnit::End));
                    units.push(WireUnit { content, ..WireUnit::new(description) });
                }
            }
        }
        Some(units)
    }
}

/// Takes a complete gRPC message from the bytes of a stream.
fn take_message(bytes: &mut BytesMut) -> Option<BytesMut> {
    let header = bytes.get(..GRPC_HEADER)?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if bytes.len() < GRPC_HEADER + length {
        return None;
    }
    bytes.advance(GRPC_HEADER);
    Some(bytes.split_to(length))
}

const TYPE_PREFIX: &str = "type.googleapis.com/";

/// Describes a message of a client. The fields of requests of both variants differ in type, so a
/// request tells the variant of its stream.
fn describe_request(message: &Bytes, stream: u32, variants: &mut Variants) -> Option<Description> {
    let is_known = variants.get(&stream) == Some(&StreamVariant::Incremental);
    if let Ok(it) = DiscoveryRequest::decode(message.clone())
        && it.type_url.starts_with(TYPE_PREFIX)
        && !is_known
    {
        variants.insert(stream, StreamVariant::StateOfTheWorld);
        let text = format!(
            "stream {stream}: {} version {:?}, nonce {:?}, names [{}]{}",
            short(&it.type_url),
            it.version_info,
            it.response_nonce,
            it.resource_names.join(", "),
            error(it.error_detail.as_ref()),
        );
        let kind = answer_kind(&it.response_nonce, it.error_detail.is_some());
        return Some(Description::new(kind, text).about(it.resource_names));
    }
    let it = DeltaDiscoveryRequest::decode(message.clone()).ok()?;
    variants.insert(stream, StreamVariant::Incremental);
    let text = format!(
        "stream {stream}: {} nonce {:?}, subscribes [{}], unsubscribes [{}], has {}{}",
        short(&it.type_url),
        it.response_nonce,
        it.resource_names_subscribe.join(", "),
        it.resource_names_unsubscribe.join(", "),
        it.initial_resource_versions.len(),
        error(it.error_detail.as_ref()),
    );
    let kind = answer_kind(&it.response_nonce, it.error_detail.is_some());
    let names = it.resource_names_subscribe.into_iter().chain(it.resource_names_unsubscribe);
    Some(Description::new(kind, text).about(names))
}

/// Describes a message of a server.
fn describe_response(message: &Bytes, stream: u32, variants: &Variants) -> Option<Description> {
    match variants.get(&stream)? {
        StreamVariant::StateOfTheWorld => {
            let it = DiscoveryResponse::decode(message.clone()).ok()?;
            let text = format!(
                "stream {stream}: {} version {:?}, nonce {:?}, {} resources",
                short(&it.type_url),
                it.version_info,
                it.nonce,
                it.resources.len(),
            );
            Some(Description::new(EventKind::Response, text))
        }
        StreamVariant::Incremental => {
            let it = DeltaDiscoveryResponse::decode(message.clone()).ok()?;
            let set: Vec<String> = it.resources.into_iter().map(|it| it.name).collect();
            let text = format!(
                "stream {stream}: {} nonce {:?}, sets [{}], removes [{}]",
                short(&it.type_url),
                it.nonce,
                set.join(", "),
                it.removed_resources.join(", "),
            );
            let kind = if set.is_empty() { EventKind::Removal } else { EventKind::Response };
            Some(Description::new(kind, text).about(set.into_iter().chain(it.removed_resources)))
        }
    }
}

/// Formats the reason of a rejection, as the end of a description.
fn error(detail: Option<&Status>) -> String {
    detail.map(|it| format!(", error {} {:?}", it.code, it.message)).unwrap_or_default()
}

fn short(type_url: &str) -> &str {
    type_url.rsplit(['.', '/']).next().unwrap_or_default()
}

const fn answer_kind(nonce: &str, is_rejection: bool) -> EventKind {
    match (nonce.is_empty(), is_rejection) {
        (_, true) => EventKind::Nack,
        (true, false) => EventKind::Request,
        (false, false) => EventKind::Ack,
    }
}
