"""Calls whose messages are announced, begun or sent slowly, or whose responses are not received."""

from __future__ import annotations

import itertools
import time
from collections import Counter

from suite import frames, messages
from suite.attack import Attack, Outcome
from suite.connection import Connection, drive, every, stream_statuses
from suite.directory import cluster_name
from suite.target import Target

_LARGEST = 16 << 20
# The suite must not exhaust the memory of the machine.
_MOST_BYTES = 512 << 20
_CHUNK = bytes(256 << 10)
_UNREAD_CLUSTERS = 100
# Between two connections, so that the attack is not a flood of connections.
_RECONNECT_PAUSE = 0.01


def claimed_lengths(target: Target, until: float) -> Outcome:
    """Announces messages of 16 MiB on 100 streams of each of three connections, and sends 1 KiB."""
    connections = [Connection(target) for _ in range(3)]
    for connection in connections:
        for _ in range(100):
            connection.send(connection.open(), messages.grpc_prefix(_LARGEST) + bytes(1 << 10))
    drive(connections, until)
    return Outcome("300 prefixes", stream_statuses(connections))


def partial_messages(target: Target, until: float) -> Outcome:
    """Sends as much as the server takes of messages that it never completes."""
    connections = [Connection(target) for _ in range(2)]
    streams = [(it, it.open()) for it in connections for _ in range(100)]
    for connection, stream in streams:
        connection.send(stream, messages.grpc_prefix(_LARGEST))
    left = dict.fromkeys(((id(it), stream) for it, stream in streams), _LARGEST - len(_CHUNK))
    sent = 0

    def send_more() -> None:
        nonlocal sent
        for connection, stream in streams:
            key = (id(connection), stream)
            is_idle = connection.unsent() < 4 * len(_CHUNK) and connection.room(stream) > 0
            if is_idle and sent < _MOST_BYTES and left[key] >= len(_CHUNK):
                connection.send(stream, _CHUNK)
                left[key] -= len(_CHUNK)
                sent += len(_CHUNK)

    drive(connections, until, turn=every(0, send_more))
    taken = sent - sum(it.unsent() for it in connections)
    return Outcome(f"{taken >> 20} MiB on 200 streams", stream_statuses(connections))


def slow_messages(target: Target, until: float) -> Outcome:
    """Sends a request on each of 1,000 streams, one byte at a time."""
    connections = [Connection(target) for _ in range(4)]
    streams = [(it, it.open()) for it in connections for _ in range(250)]
    request = messages.grpc(messages.sotw_request(messages.CLUSTER, node="slow" * 100))
    bytes_left = iter(request[:-1])
    count = 0

    def send_byte() -> None:
        nonlocal count
        byte = next(bytes_left, None)
        for connection, stream in streams:
            if byte is not None and connection.streams[stream] == "open":
                connection.send(stream, bytes([byte]))
                count += 1

    drive(connections, until, turn=every(0.1, send_byte))
    return Outcome(f"{count:,} bytes", stream_statuses(connections))


def one_byte_windows(target: Target, until: float) -> Outcome:
    """Subscribes to everything on 1,000 streams with windows of one byte, and opens half of them slowly."""
    connections = [Connection(target, window=1) for _ in range(4)]
    streams = []
    for number in range(1_000):
        connection = connections[number % len(connections)]
        stream = connection.open()
        request = messages.sotw_request(messages.CLUSTER, node=f"narrow-{number}")
        connection.send(stream, messages.grpc(request))
        streams.append((connection, stream))
    opening = itertools.cycle(streams[::2])

    def open_some() -> None:
        for connection, stream in itertools.islice(opening, 100):
            connection.outbox += frames.window_update(stream, 1)

    drive(connections, until, turn=every(0.1, open_some))
    received = sum(it.received[frames.DATA] for it in connections)
    return Outcome(f"1,000 subscriptions, received {received:,} frames", stream_statuses(connections))


def unread_responses(target: Target, until: float) -> Outcome:
    """Subscribes by name to all clusters on 100 streams of each of 20 connections, with windows of 0."""
    names = [cluster_name(number) for number in range(_UNREAD_CLUSTERS - 1)]
    request = messages.grpc(messages.sotw_request(messages.CLUSTER, node="unread", names=names))
    statuses = Counter[str]()
    count = 0

    def connect() -> Connection:
        nonlocal count
        connection = Connection(target, window=0)
        for _ in range(100):
            count += 1
            connection.send(connection.open(), request)
        return connection

    current = [connect() for _ in range(20)]
    while time.monotonic() < until:
        drive(current, until, turn=lambda: not any(it.ended for it in current))
        for at, connection in enumerate(current):
            if connection.ended:
                statuses += stream_statuses([connection])
                time.sleep(_RECONNECT_PAUSE)
                current[at] = connect()
    return Outcome(f"{count:,} subscriptions", statuses + stream_statuses(current))


_REFUSED = ("gRPC RESOURCE_EXHAUSTED", "gRPC DEADLINE_EXCEEDED", "GOAWAY ENHANCE_YOUR_CALM", "RST_STREAM")
# A stream may stay open until the limit of its first request, which is a minute.
_BOUNDED = ("stream open", *_REFUSED)

ATTACKS = (
    Attack(
        "claimed-lengths",
        "announces 16 MiB on each of 300 streams and sends 1 KiB",
        claimed_lengths,
        _BOUNDED,
    ),
    Attack(
        "partial-messages",
        "begins messages of 16 MiB on 200 streams and completes none",
        partial_messages,
        _BOUNDED,
    ),
    Attack(
        "slow-messages",
        "sends requests on 1,000 streams one byte at a time",
        slow_messages,
        _BOUNDED,
    ),
    Attack(
        "one-byte-windows",
        "subscribes to 2,000 clusters on 1,000 streams with windows of one byte while they change",
        one_byte_windows,
        _BOUNDED,
        clusters=2_000,
        edit_every=0.5,
    ),
    Attack(
        "unread-responses",
        "subscribes to 4 MiB by name on 2,000 streams with windows of 0, and again when a connection ends",
        unread_responses,
        (*_BOUNDED, "connection closed", "connection reset"),
        clusters=_UNREAD_CLUSTERS,
        cluster_bytes=40 << 10,
        canaries=("named",),
    ),
)
