"""Discovery requests and responses, encoded by hand, and their gRPC framing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SOTW = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
DELTA = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

_INVALID_ARGUMENT = 3
_LENGTH_DELIMITED = 2


def varint(value: int) -> bytes:
    """A number as protobuf encodes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: str | bytes) -> bytes:
    """A string, bytes or message field."""
    encoded = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(encoded)) + encoded


def grpc_prefix(length: int) -> bytes:
    """The prefix of a message without compression."""
    return b"\0" + length.to_bytes(4, "big")


def grpc(message: bytes) -> bytes:
    """A message with its prefix."""
    return grpc_prefix(len(message)) + message


def _status(reason: str) -> bytes:
    return varint(1 << 3) + varint(_INVALID_ARGUMENT) + field(2, reason)


def sotw_request(
    type_url: str,
    *,
    node: str = "",
    names: Iterable[str] = (),
    version: str = "",
    nonce: str = "",
    error: str = "",
) -> bytes:
    """A DiscoveryRequest."""
    parts = [field(1, version)] if version else []
    if node:
        parts.append(field(2, field(1, node) + field(2, "attacks")))
    parts += [field(3, name) for name in names]
    parts.append(field(4, type_url))
    if nonce:
        parts.append(field(5, nonce))
    if error:
        parts.append(field(6, _status(error)))
    return b"".join(parts)


def delta_request(type_url: str, *, node: str = "", subscribe: Iterable[str] = (), nonce: str = "") -> bytes:
    """A DeltaDiscoveryRequest."""
    parts = [field(1, field(1, node) + field(2, "attacks"))] if node else []
    parts.append(field(2, type_url))
    parts += [field(3, name) for name in subscribe]
    if nonce:
        parts.append(field(6, nonce))
    return b"".join(parts)


@dataclass(frozen=True)
class Response:
    """The fields of a discovery response that an ACK or NACK repeats, and its resources, encoded."""

    version: str
    type_url: str
    nonce: str
    resources: tuple[bytes, ...]


def parse_response(message: bytes) -> Response:
    """Reads a response of either variant: both use the same numbers for these fields.

    Names of removed resources, which may be many, are behind them and not read.
    """
    text = {1: "", 4: "", 5: ""}
    resources = []
    for number, value in _fields(message):
        if number in text:
            text[number] = value.decode()
        elif number == 2:
            resources.append(value)
        elif number > 5:
            break
    return Response(text[1], text[4], text[5], tuple(resources))


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message; the responses have no others that matter."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        if key & 7 != _LENGTH_DELIMITED:
            raise ValueError(f"wire type {key & 7} in a discovery response")
        length, at = _read_varint(message, at)
        yield key >> 3, message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


class Messages:
    """Cuts the bytes of a stream into gRPC messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that these bytes complete."""
        self._bytes += data
        complete = []
        while len(self._bytes) >= 5:
            end = 5 + int.from_bytes(self._bytes[1:5], "big")
            if len(self._bytes) < end:
                break
            complete.append(bytes(self._bytes[5:end]))
            del self._bytes[:end]
        return complete
