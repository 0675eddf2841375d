"""Connections that send nothing, or too slowly."""

from __future__ import annotations

import select
import socket
import time
from collections import Counter
from contextlib import suppress

from suite.attack import Attack, Outcome, Setup
from suite.directory import cluster_name
from suite.target import Target

_CONNECTIONS = 1_100
# The beginning of a ClientHello of 512 bytes.
_HALF_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(32)

_HEAD = b"POST /v3/discovery:clusters HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
_CHUNK = 64 << 10
_CLUSTERS = 100
_UNREAD = 90


class Silent:
    """A connection on which nothing is expected but its end."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.status = "connection open"
        self._received = b""

    def read_status(self) -> None:
        """Notes the status of HTTP/1, or that the connection ended, and reads no more than that."""
        try:
            first = self.socket.recv(12)
            self.status = f"HTTP {first[9:12].decode()}" if first else "connection closed"
        except BlockingIOError:
            pass
        except OSError:
            self.status = "connection reset"

    def first_byte(self) -> bytes:
        """The first byte that the server sent; empty if the connection ended without one."""
        try:
            return self.socket.recv(1)
        except OSError:
            return b""

    def read(self) -> bool:
        """Notes how the connection ended, and the status of HTTP/1. Returns whether it has ended."""
        try:
            while data := self.socket.recv(1 << 16):
                self._received = (self._received + data)[:64]
                if self._received.startswith(b"HTTP/1.1 ") and len(self._received) >= 12:
                    self.status = f"HTTP {self._received[9:12].decode()}"
            if self.status == "connection open":
                self.status = "connection closed"
        except BlockingIOError:
            return False
        except OSError:
            if self.status == "connection open":
                self.status = "connection reset"
        return True


def _open(target: Target, port: int, count: int, first: bytes, until: float) -> list[Silent]:
    """Opens connections and sends `first` on each of them; it stops when none is accepted any more."""
    connections = []
    for _ in range(count):
        try:
            connection = target.tcp(port, timeout=1.0)
            if first:
                connection.sendall(first)
        except OSError:
            break
        connections.append(Silent(connection))
        if time.monotonic() > until:
            break
    return connections


def _wait(connections: list[Silent], until: float, drip: bytes = b"") -> Outcome:
    """Waits until all connections have ended; sends one byte of `drip` on each once a second."""
    poll = select.poll()
    by_file = {it.socket.fileno(): it for it in connections}
    for file in by_file:
        poll.register(file, select.POLLIN)
    due, at = time.monotonic() + 1, 0
    while by_file and (now := time.monotonic()) < until:
        for file, _ in poll.poll(100):
            by_file[file].read()
            if by_file[file].status != "connection open":
                poll.unregister(file)
                del by_file[file]
        if drip and now >= due and at < len(drip):
            for connection in by_file.values():
                with suppress(OSError):
                    connection.socket.send(drip[at : at + 1])
            due, at = now + 1, at + 1
    statuses = Counter(it.status for it in connections)
    return Outcome(f"{len(connections):,} connections", statuses)


def silent_tcp(target: Target, until: float) -> Outcome:
    """Opens connections and sends nothing."""
    return _wait(_open(target, target.port, _CONNECTIONS, b"", until), until)


def _half_silent(target: Target, port: int, first: bytes, until: float) -> Outcome:
    half = _CONNECTIONS // 2
    connections = _open(target, port, half, b"", until) + _open(target, port, half, first, until)
    return _wait(connections, until)


def silent_tls(target: Target, until: float) -> Outcome:
    """Opens connections that send nothing, and others that send the beginning of a ClientHello."""
    return _half_silent(target, target.port, _HALF_HELLO, until)


def silent_rest(target: Target, until: float) -> Outcome:
    """Opens connections to REST-JSON that send nothing, and others that send half of a head."""
    return _half_silent(target, target.rest_port, _HEAD[:40], until)


def slow_rest(target: Target, until: float) -> Outcome:
    """Sends the head of a request, and one byte of its body a second."""
    body = b'{"node": {"id": "slow"}, "resource_names": []}'
    return _wait(_open(target, target.rest_port, 500, _HEAD % len(body), until), until, body)


def partial_rest(target: Target, until: float) -> Outcome:
    """Sends bodies of almost 4 MiB, the largest that are accepted, and completes none."""
    length = 4 << 20
    connections = _open(target, target.rest_port, 100, _HEAD % length, until)
    left = dict.fromkeys(range(len(connections)), length - _CHUNK)
    while time.monotonic() < until:
        for at, connection in enumerate(connections):
            if left[at] > 0:
                with suppress(OSError):
                    left[at] -= connection.socket.send(bytes(min(_CHUNK, left[at])))
        time.sleep(0.005)
    for connection in connections:
        connection.read()
    sent = sum(length - _CHUNK - it for it in left.values()) >> 20
    statuses = Counter(it.status for it in connections)
    return Outcome(f"{sent} MiB on {len(connections)} connections", statuses)


def unread_rest(target: Target, until: float) -> Outcome:
    """Requests all clusters but one by name on 90 connections, and never reads the responses."""
    requests = []
    for missing in range(_UNREAD):
        names = ", ".join(f'"{cluster_name(number)}"' for number in range(_CLUSTERS) if number != missing)
        body = b'{"node": {"id": "unread"}, "resource_names": [%s]}' % names.encode()
        requests.append(_HEAD % len(body) + body)
    connections = []
    for request in requests:
        if time.monotonic() > until:
            break
        connections += _open(target, target.rest_port, 1, request, until)
    time.sleep(max(0.0, until - time.monotonic()))
    for connection in connections:
        connection.read_status()
    statuses = Counter(it.status for it in connections)
    return Outcome(f"{len(connections)} requests", statuses)


_ENDED = ("connection closed", "connection reset")
# The server gives a handshake ten seconds.
_UNTIL_CLOSED = 12.0

ATTACKS = (
    Attack(
        "silent-tcp",
        "opens 1,100 connections and sends nothing",
        silent_tcp,
        _ENDED,
        seconds=_UNTIL_CLOSED,
        waits=True,
    ),
    Attack(
        "silent-tls",
        "opens 1,100 connections with no or half a ClientHello",
        silent_tls,
        _ENDED,
        seconds=_UNTIL_CLOSED,
        waits=True,
        setup=Setup.TLS,
    ),
    Attack(
        "silent-rest",
        "opens 1,100 connections to REST-JSON with no or half a request head",
        silent_rest,
        (*_ENDED, "HTTP 408"),
        seconds=_UNTIL_CLOSED,
        waits=True,
        setup=Setup.REST,
        canaries=("rest", "grpc"),
    ),
    Attack(
        "slow-rest",
        "sends 500 bodies to REST-JSON, one byte a second",
        slow_rest,
        (*_ENDED, "HTTP 408"),
        seconds=_UNTIL_CLOSED,
        waits=True,
        setup=Setup.REST,
        canaries=("rest", "grpc"),
    ),
    Attack(
        "partial-rest",
        "begins bodies of 4 MiB on 100 connections to REST-JSON and completes none",
        partial_rest,
        ("connection open", *_ENDED, "HTTP 4", "HTTP 503"),
        setup=Setup.REST,
        canaries=("rest", "grpc"),
    ),
    Attack(
        "unread-rest",
        "requests 4 MiB by name over REST-JSON on 90 connections, each time others, and reads nothing",
        unread_rest,
        ("connection open", *_ENDED, "HTTP 200", "HTTP 503"),
        setup=Setup.REST,
        clusters=_CLUSTERS,
        cluster_bytes=40 << 10,
        canaries=("named",),
    ),
    Attack(
        "few-files",
        "opens 1,100 connections to a server with 1,024 file descriptors while a file changes",
        silent_tcp,
        ("connection open", *_ENDED),
        seconds=6.0,
        waits=True,
        setup=Setup.FEW_FILES,
        canaries=("follower",),
        edit_every=0.6,
    ),
)
