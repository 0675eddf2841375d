"""Clients that subscribe to too much, reject everything, or use the node id of another client."""

from __future__ import annotations

import itertools
import time
from collections import Counter

from suite import canary, frames, messages
from suite.attack import Attack, Outcome, Setup
from suite.connection import Connection, drive, every, stream_statuses
from suite.directory import EDITED
from suite.target import Target

_MILLION = 1_000_000
# Time for which subscriptions are kept after the attack.
_KEPT = 1.5
# New subscriptions in 20 ms, so that the output and not the load is the attack.
_NEW_IN_A_TURN = 5


def million_names(target: Target, until: float) -> Outcome:
    """Names a million resources in one request, of which one exists."""
    missing = (f"n{number:06}" for number in range(_MILLION - 1))
    names = itertools.chain(missing, [EDITED])
    request = messages.sotw_request(messages.CLUSTER, node="greedy", names=names)
    connection = Connection(target)
    answers = Counter[str]()
    connection.on_message = lambda *_: answers.update(["answered"])
    stream = connection.open()
    connection.send(stream, messages.grpc(request))
    drive([connection], until, turn=lambda: not answers and connection.streams[stream] == "open")
    # The names are kept after the answer.
    drive([connection], time.monotonic() + _KEPT)
    return Outcome(f"{len(request) >> 20} MiB", answers + stream_statuses([connection]))


def million_subscriptions(target: Target, until: float) -> Outcome:
    """Subscribes to a million resources that do not exist, a thousand in each request."""
    connection = Connection(target)
    answers = Counter[str]()

    def ack(connection: Connection, stream: int, message: bytes) -> None:
        answers["answered"] += 1
        response = messages.parse_response(message)
        request = messages.delta_request(response.type_url, nonce=response.nonce)
        connection.send(stream, messages.grpc(request))

    connection.on_message = ack
    streams = [connection.open(messages.DELTA) for _ in range(20)]
    sent = 0

    def subscribe() -> bool:
        nonlocal sent
        while connection.unsent() < 1 << 20 and sent < _MILLION:
            names = (f"n{number:06}" for number in range(sent, sent + 1_000))
            request = messages.delta_request(messages.CLUSTER, node="greedy", subscribe=names)
            alive = [it for it in streams if connection.streams[it] == "open"]
            if not alive:
                return False
            connection.send(alive[sent // 1_000 % len(alive)], messages.grpc(request))
            sent += 1_000
        return sent < _MILLION or connection.unsent() > 0

    drive([connection], until, turn=subscribe)
    drive([connection], time.monotonic() + _KEPT)
    return Outcome(f"{sent:,} names", answers + stream_statuses([connection]))


def _subscribe(target: Target, streams: int, per_connection: int, node: str) -> list[Connection]:
    """Connections with streams that subscribe to all clusters; `{}` in the node id is the number."""
    connections: list[Connection] = []
    for number in range(streams):
        if number % per_connection == 0:
            connections.append(Connection(target))
        request = messages.sotw_request(messages.CLUSTER, node=node.format(number))
        connections[-1].send(connections[-1].open(), messages.grpc(request))
    return connections


def nack_everything(target: Target, until: float) -> Outcome:
    """Rejects every response on 1,000 streams of as many nodes."""
    connections = _subscribe(target, 1_000, 250, "rejecting-{}")
    nacks = Counter[str]()

    def nack(connection: Connection, stream: int, message: bytes) -> None:
        nacks["NACK"] += 1
        response = messages.parse_response(message)
        reason = f"rejected {nacks['NACK']}: " + "x" * 1_000
        request = messages.sotw_request(response.type_url, nonce=response.nonce, error=reason)
        connection.send(stream, messages.grpc(request))

    for connection in connections:
        connection.on_message = nack
    drive(connections, until)
    return Outcome(f"{nacks['NACK']:,} NACKs", stream_statuses(connections))


def stolen_node(target: Target, until: float) -> Outcome:
    """Keeps 1,100 streams with the node id of the canary and the certificate of another client."""
    connections = _subscribe(target, 1_100, 550, canary.NODE)
    refused = Counter[str]()
    request = messages.grpc(messages.sotw_request(messages.CLUSTER, node=canary.NODE))

    def open_again() -> bool:
        for connection in connections:
            for stream in [it for it, status in connection.streams.items() if status != "open"]:
                refused[connection.streams[stream]] += 1
                connection.forget(stream)
                connection.send(connection.open(), request)
        return True

    drive(connections, until, turn=open_again)
    return Outcome(f"{1_100 + refused.total():,} streams", refused + stream_statuses(connections))


def unread_output(target: Target, until: float) -> Outcome:
    """Subscribes with ever new node ids, which the server reports and logs."""
    connection = Connection(target)
    count = answered = 0

    def reset(connection: Connection, stream: int, message: bytes) -> None:
        nonlocal answered
        del message
        answered += 1
        connection.outbox += frames.rst_stream(stream)
        connection.forget(stream)

    connection.on_message = reset

    def subscribe() -> None:
        nonlocal count
        for _ in range(min(_NEW_IN_A_TURN, 50 - len(connection.streams))):
            count += 1
            request = messages.sotw_request(messages.CLUSTER, node=f"node-{count}")
            connection.send(connection.open(), messages.grpc(request))

    drive([connection], until, turn=every(0.02, subscribe))
    statuses = stream_statuses([connection]) + Counter(answered=answered)
    return Outcome(f"{count:,} subscriptions", statuses)


ATTACKS = (
    Attack(
        "million-names",
        "names a million resources in one request",
        million_names,
        ("answered", "stream open", "gRPC RESOURCE_EXHAUSTED", "gRPC INVALID_ARGUMENT"),
        seconds=10.0,
    ),
    Attack(
        "million-subscriptions",
        "subscribes to a million resources in 1,000 requests on 20 streams",
        million_subscriptions,
        ("answered", "stream open", "gRPC RESOURCE_EXHAUSTED"),
        seconds=10.0,
    ),
    Attack(
        "nack-everything",
        "rejects each response on 1,000 streams while the clusters change",
        nack_everything,
        ("stream open", "gRPC RESOURCE_EXHAUSTED", "RST_STREAM REFUSED_STREAM"),
        edit_every=0.5,
    ),
    Attack(
        "stolen-node",
        "keeps 1,100 streams with the node id of the canary and another certificate",
        stolen_node,
        (
            "stream open",
            "gRPC RESOURCE_EXHAUSTED",
            "gRPC PERMISSION_DENIED",
            "RST_STREAM REFUSED_STREAM",
            "GOAWAY ENHANCE_YOUR_CALM",
        ),
        setup=Setup.MUTUAL_TLS,
    ),
    Attack(
        "unread-output",
        "subscribes with ever new nodes while nobody reads the pipes of `-o ndjson -vv`",
        unread_output,
        ("answered", "stream open"),
        setup=Setup.UNREAD_OUTPUT,
        edit_every=0.3,
    ),
)
