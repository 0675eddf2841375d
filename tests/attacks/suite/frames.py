"""HTTP/2 frames, encoded by hand, so that an attacker can send what a library refuses to send."""

from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
PRIORITY_FRAME = 2

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED, PRIORITY = 0x8, 0x20

INITIAL_WINDOW_SIZE = 4
MAX_FRAME_BYTES = 16_384

CANCEL = 8
ERRORS = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)


def error_name(code: int) -> str:
    """The name of an error code."""
    return ERRORS[code] if code < len(ERRORS) else f"error {code}"


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """One frame."""
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *it) for it in values.items()))


def window_update(stream: int, increment: int) -> bytes:
    """A WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def rst_stream(stream: int, code: int = CANCEL) -> bytes:
    """An RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def text(value: str) -> bytes:
    """A short string in a header block."""
    assert len(value) < 0x7F
    return bytes([len(value)]) + value.encode()


def call_headers(path: str, scheme: str, content_type: str = "application/grpc") -> bytes:
    """The header block of a gRPC call. It leaves the dynamic table of HPACK unchanged."""

    return b"".join(
        (
            b"\x83",  # :method: POST
            b"\x87" if scheme == "https" else b"\x86",
            b"\x04" + text(path),
            b"\x01" + text("localhost"),
            b"\x0f\x10" + text(content_type),  # content-type
            b"\x00" + text("te") + text("trailers"),
        )
    )


class FrameReader:
    """Cuts received bytes into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of the frames that these bytes complete."""
        self._bytes += data
        complete, at = [], 0
        while len(self._bytes) - at >= 9:
            length_and_kind, flags, stream = struct.unpack_from(">IBI", self._bytes, at)
            end = at + 9 + (length_and_kind >> 8)
            if len(self._bytes) < end:
                break
            kind, stream = length_and_kind & 0xFF, stream & 0x7FFF_FFFF
            complete.append((kind, flags, stream, bytes(self._bytes[at + 9 : end])))
            at = end
        del self._bytes[:at]
        return complete
