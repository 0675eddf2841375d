"""Floods of HTTP/1 on the address for REST-JSON. An offender whose connection ends opens another one."""

from __future__ import annotations

import itertools
import select
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from suite.attack import Attack, Outcome, Setup
from suite.silence import Silent
from suite.target import Target

_MAX_CONNECTIONS = 2_000
_WRITE_BYTES = 64 << 10
# Between two connections, so that the attack is a flood of requests and not of connections.
_RECONNECT_PAUSE = 0.002
_SECONDS = 2.0
_POST = b"POST /v3/discovery:clusters HTTP/1.1\r\nHost: localhost\r\n"


def _flood(
    target: Target,
    until: float,
    connections: int,
    source: Callable[[], Callable[[], bytes]],
    *,
    reads: bool = True,
) -> tuple[int, Counter[str]]:
    """Sends what a new source returns on each connection, for as long as the connection takes it.

    Returns the number of bytes and the statuses, which a connection that does not read learns at the end.
    """
    statuses = Counter[str]()
    poll = select.poll()
    current: dict[int, tuple[Silent, Callable[[], bytes], bytearray]] = {}
    sent = 0

    def connect() -> None:
        silent = Silent(target.tcp(target.rest_port))
        current[silent.socket.fileno()] = (silent, source(), bytearray())
        poll.register(silent.socket, select.POLLOUT | (select.POLLIN if reads else 0))

    def end(file: int) -> None:
        silent, _, _ = current.pop(file)
        poll.unregister(file)
        silent.read()
        statuses[silent.status] += 1
        silent.socket.close()

    for _ in range(connections):
        connect()
    while time.monotonic() < until:
        for file, events in poll.poll(20):
            silent, more, unsent = current[file]
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR) and silent.read():
                end(file)
                if statuses.total() < _MAX_CONNECTIONS:
                    time.sleep(_RECONNECT_PAUSE)
                    connect()
                continue
            if len(unsent) < _WRITE_BYTES:
                unsent += more()
            with suppress(OSError):
                count = silent.socket.send(unsent[:_WRITE_BYTES])
                del unsent[:count]
                sent += count
    for file in list(current):
        end(file)
    return sent, statuses


def _endless(first: bytes, parts: Callable[[int], bytes]) -> Callable[[], Callable[[], bytes]]:
    """A source of some bytes, and then of ever new parts."""

    def source() -> Callable[[], bytes]:
        numbers = itertools.count()
        return lambda: first if (number := next(numbers)) == 0 else parts(number)

    return source


def tiny_chunks(target: Target, until: float) -> Outcome:
    """Sends bodies in chunks of one byte."""
    chunks = b"1\r\n \r\n" * 10_000
    head = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
    sent, statuses = _flood(target, until, 20, _endless(head, lambda _: chunks))
    return Outcome(f"{sent // 6:,} chunks", statuses)


def header_flood(target: Target, until: float) -> Outcome:
    """Sends heads that never end: with ever more headers, or with one that is ever longer."""
    turns = itertools.count()

    def source() -> Callable[[], bytes]:
        if next(turns) % 2:
            return _endless(_POST + b"X: ", lambda _: b"x" * 4_096)()
        return _endless(_POST, lambda number: b"".join(b"X%d-%d:\r\n" % (number, it) for it in range(400)))()

    sent, statuses = _flood(target, until, 20, source)
    return Outcome(f"{sent >> 20} MiB", statuses)


def _pipelined(target: Target, until: float, *, reads: bool) -> tuple[int, Counter[str]]:
    body = b'{"node": {"id": "pipelined"}}'
    post = _POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    unknown = b"GET /no-such-path HTTP/1.1\r\nHost: localhost\r\n\r\n"
    return _flood(target, until, 20, _endless(post, lambda _: (post + unknown * 3) * 50), reads=reads)


def pipelined_rest(target: Target, until: float) -> Outcome:
    """Sends requests without waiting for responses, and first reads them and then does not."""
    middle = (time.monotonic() + until) / 2
    first, statuses = _pipelined(target, middle, reads=True)
    second, more = _pipelined(target, until, reads=False)
    return Outcome(f"{first + second >> 10:,} KiB of requests", statuses + more)


_ENDED = ("connection closed", "connection reset")

ATTACKS = (
    Attack(
        "tiny-chunks",
        "sends bodies to REST-JSON in chunks of one byte",
        tiny_chunks,
        ("connection open", *_ENDED, "HTTP 4"),
        seconds=_SECONDS,
        setup=Setup.REST,
        canaries=("rest", "grpc"),
    ),
    Attack(
        "header-flood",
        "sends request heads to REST-JSON that never end",
        header_flood,
        ("connection open", *_ENDED, "HTTP 431", "HTTP 400"),
        seconds=_SECONDS,
        setup=Setup.REST,
        canaries=("rest", "grpc"),
    ),
    Attack(
        "pipelined-rest",
        "sends REST-JSON requests without waiting for the responses, and reads these or does not",
        pipelined_rest,
        ("connection open", *_ENDED, "HTTP 200", "HTTP 404"),
        seconds=_SECONDS,
        setup=Setup.REST,
        canaries=("rest", "grpc"),
    ),
)
