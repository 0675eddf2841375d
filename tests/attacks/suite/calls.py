"""Calls of the health service, of client status and of unknown services, and calls with large headers."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from suite import frames, messages
from suite.attack import Attack, Outcome, Setup
from suite.connection import Connection, drive, every, stream_statuses
from suite.target import Target

_HEALTH = "/grpc.health.v1.Health/"
_CSDS = "/envoy.service.status.v3.ClientStatusDiscoveryService/"
_LARGEST = 16 << 20
_SECONDS = 2.0
# The limit of the server for the header list of a call, which counts 32 bytes more for each header.
_HEADER_BYTES = 16 << 10
_MATCHERS = 64
_NODE_BYTES = 1_000


def _partial(target: Target, until: float, paths: Sequence[str], limit: int, connections: int) -> Outcome:
    """Begins a message on 100 streams of each connection and completes none.

    Of ten messages, nine have the largest accepted length and lack the last byte. The tenth claims more.
    """
    current = [Connection(target) for _ in range(connections)]
    path = itertools.cycle(paths)
    # Slices of it are no copies.
    body = memoryview(bytes(limit))
    sent = 0
    for connection in current:
        for number in range(100):
            claimed, length = (_LARGEST, limit) if number % 10 == 9 else (limit, limit - 1)
            stream = connection.open(next(path))
            connection.send(stream, messages.grpc_prefix(claimed))
            connection.send(stream, body[:length])
            sent += length
    drive(current, until)
    sent -= sum(it.unsent() for it in current)
    return Outcome(f"{sent >> 20} MiB on {len(current) * 100:,} streams", stream_statuses(current))


def partial_health(target: Target, until: float) -> Outcome:
    """Begins requests to the health service."""
    return _partial(target, until, [_HEALTH + "Check", _HEALTH + "Watch"], 1 << 10, 50)


def partial_status(target: Target, until: float) -> Outcome:
    """Begins requests for client status."""
    return _partial(
        target.csds(), until, [_CSDS + "FetchClientStatus", _CSDS + "StreamClientStatus"], 64 << 10, 20
    )


def _matcher(text: str) -> bytes:
    """A field with a node matcher that ignores the case and whose node id contains a text."""
    ignores_case = b"\x30\x01"
    return messages.field(1, messages.field(1, ignores_case + messages.field(7, text)))


def status_matchers(target: Target, until: float) -> Outcome:
    """Requests client status with as many matchers as fit into a request, and with as many as are allowed.

    There are clients whose node ids are long and almost match.
    """
    nodes = [Connection(target) for _ in range(4)]
    for number, connection in itertools.product(range(100), nodes):
        node = f"{number:03}" + "x" * (_NODE_BYTES - 3)
        request = messages.sotw_request(messages.CLUSTER, node=node, names=["no-such"])
        connection.send(connection.open(), messages.grpc(request))
    callers = [Connection(target.csds()) for _ in range(4)]
    too_many = messages.field(1, b"") * ((64 << 10) // 2)
    allowed = b"".join(_matcher("x" * 900 + f"{number:02}") for number in range(_MATCHERS))
    requests = itertools.cycle([too_many, allowed])

    def begin(connection: Connection) -> None:
        stream = connection.open(_CSDS + "FetchClientStatus")
        connection.send(stream, messages.grpc(next(requests)), ends=True)

    count, statuses = _call_again([*callers, *nodes], callers, 20, begin, until)
    return Outcome(f"{count:,} requests", statuses)


def _call_again(
    connections: Sequence[Connection],
    callers: Sequence[Connection],
    calls: int,
    begin: Callable[[Connection], object],
    until: float,
) -> tuple[int, Counter[str]]:
    """Keeps a number of calls on each connection, and begins a new one when one has ended."""
    statuses = Counter[str]()
    count = 0

    def again() -> None:
        nonlocal count
        for connection in callers:
            for stream in [it for it, status in connection.streams.items() if status != "open"]:
                statuses[connection.streams[stream]] += 1
                connection.forget(stream)
            while not connection.ended and len(connection.streams) < calls:
                begin(connection)
                count += 1

    drive(connections, until, turn=every(0, again))
    return count, statuses + stream_statuses(callers)


def unknown_methods(target: Target, until: float) -> Outcome:
    """Calls ever new methods and services, and known ones with other content types and HTTP methods."""
    numbers = itertools.count()
    post, get = b"\x83", b"\x82"

    def blocks() -> bytes:
        number = next(numbers)
        known = frames.call_headers(messages.SOTW, target.scheme)
        return (
            frames.call_headers(f"/no.such.Service{number}/Method", target.scheme),
            frames.call_headers(f"{_HEALTH}Method{number}", target.scheme),
            frames.call_headers(f"/{'x' * 100}{number}", target.scheme),
            frames.call_headers(messages.SOTW, target.scheme, f"application/x{number}"),
            known.replace(post, get, 1),
        )[number % 5]

    def begin(connection: Connection) -> None:
        connection.open_with(blocks(), flags=frames.END_STREAM)

    callers = [Connection(target) for _ in range(2)]
    count, statuses = _call_again(callers, callers, 100, begin, until)
    return Outcome(f"{count:,} calls", statuses)


def large_headers(target: Target, until: float) -> Outcome:
    """Begins calls whose headers have almost the largest size, or more, and consist of very short ones."""
    fields = [b"\x00" + frames.text(f"x{number:x}") + b"\x00" for number in range(2 * _HEADER_BYTES // 36)]
    base = frames.call_headers(messages.SOTW, target.scheme)
    fits, exceeds = (base + b"".join(fields[:count]) for count in (440, len(fields)))
    connections = [Connection(target) for _ in range(5)]
    for connection in connections:
        for number in range(100):
            stream = connection.open_with(exceeds if number % 10 == 9 else fits)
            if number % 2 == 0:
                request = messages.sotw_request(messages.CLUSTER, node=f"headers-{number}")
                connection.send(stream, messages.grpc(request))
    drive(connections, until)
    return Outcome("500 calls with 440 or 910 headers", stream_statuses(connections))


ATTACKS = (
    Attack(
        "partial-health",
        "begins requests to the health service on 5,000 streams and completes none",
        partial_health,
        ("stream open", "gRPC RESOURCE_EXHAUSTED"),
        seconds=_SECONDS,
    ),
    Attack(
        "partial-status",
        "begins requests of 64 KiB for client status (CSDS) on 2,000 streams and completes none",
        partial_status,
        ("stream open", "gRPC RESOURCE_EXHAUSTED"),
        seconds=_SECONDS,
        setup=Setup.CSDS,
    ),
    Attack(
        "status-matchers",
        "requests client status with 32,768 matchers, or with 64 of 900 bytes that almost match 400 clients",
        status_matchers,
        ("stream open", "gRPC OK", "gRPC INVALID_ARGUMENT", "gRPC RESOURCE_EXHAUSTED"),
        seconds=_SECONDS,
        setup=Setup.CSDS,
    ),
    Attack(
        "unknown-methods",
        "calls ever new methods, and known ones with other content types or with GET",
        unknown_methods,
        ("stream open", "gRPC UNIMPLEMENTED", "gRPC OK", "gRPC INVALID_ARGUMENT", "HTTP 4"),
        seconds=_SECONDS,
    ),
    Attack(
        "large-headers",
        "begins 500 calls with 440 headers, the most that 16 KiB allow, or with more",
        large_headers,
        ("stream open", "gRPC RESOURCE_EXHAUSTED", "HTTP 431", "RST_STREAM"),
        seconds=_SECONDS,
    ),
)
