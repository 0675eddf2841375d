"""HTTP/2 connections of an attacker: frames as the attack wants them, and what the server answers."""

from __future__ import annotations

import select
import ssl
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import hpack

from suite import frames
from suite.messages import SOTW, Messages
from suite.target import Target

GRPC_CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)

# A flood refills the buffer of a connection when less than this waits to be written.
OUTBOX_BYTES = 256 << 10
_DEFAULT_WINDOW = 65_535
_WIDE_WINDOW = 1 << 30
_READ_BYTES = 256 << 10


class Connection:
    """One connection. Nothing blocks after the connection is established; `drive` does the work.

    `window` is the receive window of each stream; without one, windows are large and refilled.
    A connection that does not read leaves the server's frames in the socket until `collect`.
    """

    def __init__(self, target: Target, *, window: int | None = None, reads: bool = True) -> None:
        self._target = target
        self._socket = target.connect()
        self._socket.setblocking(False)
        self._reads = reads
        self._refills = window is None
        self._reader = frames.FrameReader()
        self._hpack = hpack.Decoder()
        self._headers: dict[str, bytes] = {}
        self._block = bytearray()
        self._next_stream = 1
        self._window = self._initial_window = _DEFAULT_WINDOW
        self._windows: dict[int, int] = {}
        self._bodies: dict[int, deque[bytes | memoryview]] = {}
        self._ending = set[int]()
        self._messages: dict[int, Messages] = {}
        self.outbox = bytearray()
        self.ended = ""
        """How the connection ended; empty while it is open."""
        self.streams: dict[int, str] = {}
        """Each stream with how it ended, or `open`."""
        self.on_message: Callable[[Connection, int, bytes], None] | None = None
        self.received = Counter[int]()
        """Received frames by kind."""
        window = _WIDE_WINDOW if window is None else window
        self.outbox += frames.PREFACE + frames.settings({frames.INITIAL_WINDOW_SIZE: window})
        if self._refills:
            self.outbox += frames.window_update(0, _WIDE_WINDOW)

    @property
    def is_hungry(self) -> bool:
        """Whether a flood should write more to the outbox."""
        return not self.ended and len(self.outbox) < OUTBOX_BYTES

    def new_stream(self) -> int:
        """The id of the next stream."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        return stream

    def open(self, path: str = SOTW) -> int:
        """Starts a gRPC call."""
        stream, block = self.new_stream(), self._headers.get(path)
        if block is None:
            block = self._headers[path] = frames.call_headers(path, self._target.scheme)
        return self.open_with(block, stream)

    def open_with(self, block: bytes, stream: int = 0, *, flags: int = 0) -> int:
        """Starts a call with a header block."""
        stream = stream or self.new_stream()
        self.outbox += frames.frame(frames.HEADERS, frames.END_HEADERS | flags, stream, block)
        self.streams[stream] = "open"
        self._windows[stream] = self._initial_window
        return stream

    def send(self, stream: int, data: bytes | memoryview, *, ends: bool = False) -> None:
        """Sends bytes of a call, in DATA frames, as far as the windows allow and later the rest.

        `ends` is whether they are the last ones.
        """
        if ends:
            self._ending.add(stream)
        self._bodies.setdefault(stream, deque()).append(data)
        self._fill(stream)

    def unsent(self) -> int:
        """Bytes that wait for a window or for the socket."""
        return len(self.outbox) + sum(len(it) for parts in self._bodies.values() for it in parts)

    def room(self, stream: int) -> int:
        """Bytes that may be sent on a stream now."""
        return min(self._window, self._windows.get(stream, 0))

    def spend(self, streams: Sequence[int]) -> None:
        """Subtracts a byte of each stream, which was put into the outbox, from the windows."""
        self._window -= len(streams)
        for stream in streams:
            if stream in self._windows:
                self._windows[stream] -= 1

    def _fill(self, stream: int) -> None:
        parts = self._bodies.get(stream)
        while parts and (room := self.room(stream)) > 0:
            part = parts.popleft()
            cut = min(room, frames.MAX_FRAME_BYTES, len(part))
            if cut < len(part):
                parts.appendleft(part[cut:])
            is_last = not parts and stream in self._ending
            self.outbox += frames.frame(frames.DATA, frames.END_STREAM if is_last else 0, stream, part[:cut])
            self._window -= cut
            self._windows[stream] -= cut
        if not parts:
            self._bodies.pop(stream, None)

    def fileno(self) -> int:
        """For `poll`."""
        return self._socket.fileno()

    def wants(self) -> int:
        """The events to wait for."""
        reads = select.POLLIN if self._reads else 0
        return reads | (select.POLLOUT if self.outbox else 0)

    def step(self) -> None:
        """Writes and reads what is possible without waiting."""
        if not self.ended:
            self._write()
        if not self.ended and self._reads:
            self._read()

    def _write(self) -> None:
        try:
            while self.outbox:
                sent = self._socket.send(bytes(self.outbox[:_READ_BYTES]))
                del self.outbox[:sent]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            # The server may have sent the reason before.
            self._read()
            self.ended = self.ended or _closed(error)

    def _read(self, seconds: float = 0.05) -> None:
        until = time.monotonic() + seconds
        try:
            while not self.ended.startswith("connection") and time.monotonic() < until:
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    self.ended = self.ended or "connection closed"
                    return
                for received in self._reader.feed(data):
                    self._handle(*received)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self.ended = self.ended or _closed(error)

    def _handle(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.received[kind] += 1
        if kind == frames.DATA:
            self._handle_data(stream, payload)
        elif kind in (frames.HEADERS, frames.CONTINUATION):
            self._block += payload
            if flags & frames.END_HEADERS:
                headers = cast(dict[str, str], dict(self._hpack.decode(bytes(self._block))))
                self._block.clear()
                if (status := headers.get("grpc-status")) is not None:
                    self._end(stream, f"gRPC {GRPC_CODES[int(status)]}")
                elif (status := headers.get(":status", "200")) != "200":
                    self._end(stream, f"HTTP {status}")
        elif kind == frames.RST_STREAM:
            self._end(stream, f"RST_STREAM {frames.error_name(int.from_bytes(payload[:4], 'big'))}")
        elif kind == frames.GOAWAY:
            self.ended = f"GOAWAY {frames.error_name(int.from_bytes(payload[4:8], 'big'))}"
        elif kind == frames.PING and not flags & frames.ACK:
            self.outbox += frames.frame(frames.PING, frames.ACK, 0, payload)
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            self._handle_settings(payload)
        elif kind == frames.WINDOW_UPDATE:
            (increment,) = struct.unpack(">I", payload)
            if stream == 0:
                self._window += increment
                for waiting in list(self._bodies):
                    self._fill(waiting)
            elif stream in self._windows:
                self._windows[stream] += increment
                self._fill(stream)

    def _handle_data(self, stream: int, payload: bytes) -> None:
        if self._refills and payload:
            for each in (0, stream):
                self.outbox += frames.window_update(each, len(payload))
        if self.on_message:
            for message in self._messages.setdefault(stream, Messages()).feed(payload):
                self.on_message(self, stream, message)

    def _handle_settings(self, payload: bytes) -> None:
        for key, value in struct.iter_unpack(">HI", payload):
            if key == frames.INITIAL_WINDOW_SIZE:
                for stream in self._windows:
                    self._windows[stream] += value - self._initial_window
                self._initial_window = value
        self.outbox += frames.frame(frames.SETTINGS, frames.ACK, 0)
        for waiting in list(self._bodies):
            self._fill(waiting)

    def _end(self, stream: int, status: str) -> None:
        if self.streams.get(stream) == "open":
            self.streams[stream] = status
        self._windows.pop(stream, None)
        self._bodies.pop(stream, None)

    def forget(self, stream: int) -> None:
        """Drops the state of a stream that the attacker has reset."""
        for states in (self.streams, self._windows, self._bodies, self._messages):
            states.pop(stream, None)
        self._ending.discard(stream)

    def collect(self) -> None:
        """Reads what the server has sent until now, also if the connection does not read otherwise.

        Then closes the connection.
        """
        if not self.ended:
            self._read(seconds=0.5)
        with suppress(OSError):
            self._socket.close()


def _closed(error: OSError) -> str:
    return "connection reset" if isinstance(error, ConnectionError) else f"connection failed: {error}"


def drive(
    connections: Sequence[Connection],
    until: float,
    flood: Callable[[Connection], None] | None = None,
    turn: Callable[[], bool] | None = None,
) -> None:
    """Works on the connections until a time, or until all have ended.

    `flood` is called for each connection whose outbox is short. `turn` is called again and again, at least
    fifty times a second, and ends the work by returning `False`.
    """
    poll = select.poll()
    while time.monotonic() < until and (turn is None or turn()):
        alive = [it for it in connections if not it.ended]
        if not alive:
            return
        for connection in alive:
            while flood and connection.is_hungry:
                flood(connection)
            poll.register(connection, connection.wants())
        poll.poll(20)
        for connection in alive:
            poll.unregister(connection)
            connection.step()


def every(seconds: float, action: Callable[[], object]) -> Callable[[], bool]:
    """A turn of `drive` that acts at intervals and never ends the work."""
    due = time.monotonic()

    def turn() -> bool:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + seconds
            action()
        return True

    return turn


def connection_statuses(connections: Sequence[Connection]) -> Counter[str]:
    """How each connection ended."""
    for connection in connections:
        connection.collect()
    return Counter(it.ended or "connection open" for it in connections)


def stream_statuses(connections: Sequence[Connection]) -> Counter[str]:
    """How each stream ended, and each connection that ended with its streams."""
    statuses = Counter[str]()
    for connection in connections:
        connection.collect()
        if connection.ended:
            statuses[connection.ended] += 1
        for status in connection.streams.values():
            if not (connection.ended and status == "open"):
                statuses["stream open" if status == "open" else status] += 1
    return statuses
