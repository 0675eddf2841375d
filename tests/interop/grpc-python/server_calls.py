"""A plain gRPC client (C-core) of servers that are configured by xDS.

Runs in the virtual environment of `requirements-grpc.txt`. It obeys JSON commands on standard input:

    {"command": "calls", "calls": [CALL, ...]}                 made in parallel
                                        -> {"event": "calls", "outcomes": [OUTCOME, ...]}
    {"command": "watch", "name": NAME, "call": CALL}           a call that does not end
                                        -> {"event": "watch", "outcome": OUTCOME}
    {"command": "watched", "name": NAME}                       what became of it
                                        -> {"event": "watched", "outcome": OUTCOME}

A call has the `port` and `host` of the server, and may have `path`, `authority`, `metadata`, `source` (the address and
port that the server sees), `tls` (files with `roots`, `certificate` and `key`), and the name of a `channel` that is
kept.

An outcome is the name of the status, with the number of the connection if the channel is kept; or what becomes of
connections: REFUSED, CLOSED (before the server says anything), or SILENT.

The program ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

# Python that is isolated does not search the directory of the program.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from channel import say  # noqa: E402

_PATIENCE = 5.0
# How long a server may take to say something to a new connection.
_GREETING_PATIENCE = 1.0
_CHUNK = 64 << 10
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"

Call = dict[str, Any]


def _connect(call: Call) -> socket.socket:
    """A connection to the server, from the address that the call says."""
    connection = socket.socket()
    try:
        if source := call.get("source"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            connection.bind(tuple(source))
        connection.settimeout(_PATIENCE)
        connection.connect((call["host"], call["port"]))
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    return connection


class _Relay:
    """Connects to a server from the address that a call says, and counts connections."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = _connect(self._call)
            except OSError:
                near.close()
                continue
            self.connections += 1
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class _Channel:
    def __init__(self, call: Call) -> None:
        is_relayed = "source" in call or "channel" in call
        self.relay = _Relay(call) if is_relayed else None
        address = self.relay.address if self.relay else f"{call['host']}:{call['port']}"
        options: list[tuple[str, Any]] = [
            # Connections of its own, at once again after a failure, without retries of calls.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.enable_retries", 0),
            ("grpc.default_authority", call.get("authority", "shop")),
        ]
        if tls := call.get("tls"):
            options.append(("grpc.ssl_target_name_override", tls["name"]))
            credentials = grpc.ssl_channel_credentials(
                *(_read(tls.get(name)) for name in ("roots", "key", "certificate"))
            )
            self.channel = grpc.secure_channel(address, credentials, options)
        else:
            self.channel = grpc.insecure_channel(address, options)

    def close(self) -> None:
        self.channel.close()
        if self.relay:
            self.relay.close()


def _read(file: str | None) -> bytes | None:
    return Path(file).read_bytes() if file else None


class _Client:
    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        self._watches: dict[str, Any] = {}
        self._executor = futures.ThreadPoolExecutor(16)

    def calls(self, calls: list[Call]) -> None:
        say(event="calls", outcomes=list(self._executor.map(self._outcome, calls)))

    def watch(self, name: str, call: Call) -> None:
        channel = self._channel(call).channel
        responses = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        self._watches[name] = responses
        try:
            next(responses)
            say(event="watch", outcome="OK")
        except grpc.RpcError as error:
            say(event="watch", outcome=error.code().name)

    def watched(self, name: str) -> None:
        responses = self._watches[name]
        say(event="watched", outcome="OK" if responses.is_active() else responses.code().name)

    def _channel(self, call: Call) -> _Channel:
        name = call["channel"]
        if name not in self._channels:
            self._channels[name] = _Channel(call)
        return self._channels[name]

    def _outcome(self, call: Call) -> str:
        if "channel" in call:
            channel = self._channel(call)
            code = _made(channel, call)
            assert channel.relay is not None
            return f"{code} on connection {channel.relay.connections}"
        channel = _Channel(call)
        try:
            code = _made(channel, call)
        finally:
            channel.close()
        if code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            return code
        return _greeting(call) or code


def _made(channel: _Channel, call: Call) -> str:
    method = channel.channel.unary_unary(call.get("path", "/grpc.health.v1.Health/Check"))
    try:
        method(b"", timeout=_PATIENCE, metadata=_metadata(call))
        return "OK"
    except grpc.RpcError as error:
        print(f"{call}: {error.code().name}: {error.details()}", file=sys.stderr)
        return str(error.code().name)


def _metadata(call: Call) -> list[tuple[str, str | bytes]]:
    """The metadata of a call; binary values are hexadecimal there."""
    pairs = call.get("metadata", ())
    return [(name, bytes.fromhex(value) if name.endswith("-bin") else value) for name, value in pairs]


def _greeting(call: Call) -> str | None:
    """Why a server says nothing to a new connection; `None` if it does."""
    try:
        connection = _connect(call)
        connection.settimeout(_GREETING_PATIENCE)
        if tls := call.get("tls"):
            context = ssl.create_default_context(cafile=tls["roots"])
            context.set_alpn_protocols(["h2"])
            if "certificate" in tls:
                context.load_cert_chain(tls["certificate"], tls["key"])
            connection = context.wrap_socket(connection, server_hostname=tls["name"])
        connection.sendall(_PREFACE)
        # Its settings; anything else is an alert of TLS.
        return None if connection.recv(_CHUNK)[3:4] == b"\x04" else "CLOSED"
    except ConnectionRefusedError:
        return "REFUSED"
    except TimeoutError:
        return "SILENT"
    except OSError:
        return "CLOSED"


def main() -> None:
    client = _Client()
    say(event="ready", version=grpc.__version__)
    for line in sys.stdin:
        words = json.loads(line)
        getattr(client, words.pop("command"))(**words)
    # Not a normal end: C-core's threads may hold that up for seconds.
    os._exit(0)


if __name__ == "__main__":
    main()
