"""A well-behaved client in a process of its own, which measures how fast the server answers it.

`python -m suite.canary TARGET KINDS COUNT` prints `ready`, then measures COUNT times, or until its standard
input is closed if COUNT is 0, and prints one JSON object.

`grpc` opens a connection, subscribes to all clusters and measures the time to the first response.
`named` does the same with one cluster. `rest` does the same with a POST request over REST-JSON. `follower` keeps one subscription, ACKs each
response, and reports when the name of each edit of the directory arrived.
"""

from __future__ import annotations

import itertools
import json
import re
import select
import socket
import ssl
import sys
import time
from contextlib import suppress
from typing import cast
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from suite import messages
from suite.directory import EDIT_NAME, EDITED
from suite.target import Target

NODE = "canary"
TIMEOUT = 5.0
"""Seconds after which an unanswered request counts as failed."""
_PAUSE = 0.02


class NotAnswered(Exception):
    """The server refused the request, ended the connection, or did not answer in time."""


class Subscription:
    """A new connection with one subscription, to all clusters if no name is given."""

    def __init__(self, target: Target, *names: str) -> None:
        self._deadline = time.monotonic() + TIMEOUT
        self._socket = target.connect(TIMEOUT)
        self._messages = messages.Messages()
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(1 << 24)
        self._stream = self._h2.get_next_available_stream_id()
        headers = {
            ":method": "POST",
            ":scheme": target.scheme,
            ":path": messages.SOTW,
            ":authority": "localhost",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        self._h2.send_headers(self._stream, list(headers.items()))
        self._send(messages.sotw_request(messages.CLUSTER, node=NODE, names=names))

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def _send(self, message: bytes) -> None:
        self._h2.send_data(self._stream, messages.grpc(message))
        self._socket.sendall(self._h2.data_to_send())

    def next(self) -> messages.Response:
        """The next response; it is ACKed."""
        while not (complete := self.receive()):
            pass
        return complete[0]

    def receive(self) -> list[messages.Response]:
        """The responses that the next bytes complete; they are ACKed."""
        self._socket.settimeout(max(0.001, self._deadline - time.monotonic()))
        data = self._socket.recv(1 << 16)
        if not data:
            raise NotAnswered("connection closed")
        complete: list[messages.Response] = []
        for event in self._h2.receive_data(data):
            match event:
                case h2.events.DataReceived():
                    self._h2.acknowledge_received_data(event.flow_controlled_length, self._stream)
                    complete += map(messages.parse_response, self._messages.feed(event.data))
                case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                    headers = cast(dict[str, str], dict(event.headers))
                    if "grpc-status" in headers:
                        reason = unquote(headers.get("grpc-message", ""))
                        raise NotAnswered(f"gRPC status {headers['grpc-status']}: {reason}")
                case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                    raise NotAnswered(f"{type(event).__name__} {event.error_code}")
        for response in complete:
            ack = messages.sotw_request(response.type_url, version=response.version, nonce=response.nonce)
            self._send(ack)
        self._socket.sendall(self._h2.data_to_send())
        return complete

    def wait_forever(self) -> None:
        """Lets responses take as long as they like."""
        self._deadline = time.monotonic() + 3_600

    def close(self) -> None:
        """Ends the connection as a client does that ends its only call."""
        with suppress(OSError, h2.exceptions.ProtocolError):
            self._h2.end_stream(self._stream)
            self._h2.close_connection()
            self._socket.sendall(self._h2.data_to_send())
        self._socket.close()


def grpc(target: Target, *names: str) -> None:
    """One try of the kind `grpc`, or `named`, until the first response."""
    subscription = Subscription(target, *names)
    try:
        subscription.next()
    finally:
        subscription.close()


def named(target: Target) -> None:
    """One try of the kind `named`."""
    grpc(target, EDITED)


def rest(target: Target) -> None:
    """One try of the kind `rest`."""
    with target.tcp(target.rest_port, TIMEOUT) as connection:
        body = b'{"node": {"id": "%s"}}' % NODE.encode()
        head = "POST /v3/discovery:clusters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        answer = b""
        while data := connection.recv(1 << 16):
            answer += data
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise NotAnswered(answer[:40].decode(errors="replace") or "connection closed")


def is_over() -> bool:
    """Whether the standard input is closed."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def measure(target: Target, kinds: list[str], count: int) -> dict[str, object]:
    """Latencies of the tries in milliseconds, and the reasons of those that failed."""
    latencies: list[float] = []
    failures: list[str] = []
    for turn in itertools.count():
        if turn >= count if count else is_over():
            return {"latencies": latencies, "failures": failures}
        started = time.monotonic()
        try:
            {"grpc": grpc, "named": named, "rest": rest}[kinds[turn % len(kinds)]](target)
            latencies.append((time.monotonic() - started) * 1_000)
        except TimeoutError:
            failures.append(f"no answer in {TIMEOUT:g} s")
        except (NotAnswered, OSError, ssl.SSLError) as why:
            failures.append(str(why))
        time.sleep(_PAUSE)
    raise AssertionError("unreachable")


def follow(subscription: Subscription) -> dict[str, object]:
    """When each edit arrived, by its name."""
    arrivals: dict[str, float] = {}
    failures: list[str] = []
    while True:
        ready, _, _ = select.select([sys.stdin, subscription], [], [])
        if sys.stdin in ready:
            return {"arrivals": arrivals, "failures": failures}
        try:
            for response in subscription.receive():
                for name in re.findall(EDIT_NAME, b"".join(response.resources)):
                    arrivals.setdefault(name.decode(), time.monotonic())
        except (NotAnswered, OSError) as why:
            return {"arrivals": arrivals, "failures": [str(why)]}


def main() -> None:
    target, kinds, count = Target.parse(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
    socket.setdefaulttimeout(TIMEOUT)
    if kinds == ["follower"]:
        subscription = Subscription(target)
        subscription.next()
        subscription.wait_forever()
        print("ready", flush=True)
        print(json.dumps(follow(subscription)), flush=True)
    else:
        print("ready", flush=True)
        print(json.dumps(measure(target, kinds, count)), flush=True)


if __name__ == "__main__":
    main()
