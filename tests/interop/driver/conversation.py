"""Judges what a client said on its streams, from the journal of the server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from driver.processes import Event


def faults(events: Iterable[Event], node: str) -> list[str]:
    """Everything that a correct client which rejects nothing would not have said.

    Such a client sends one request of each type to subscribe, then exactly one ACK for each
    response: same type, its nonce and its version, no error. Only the first message of a stream
    has the node.
    """
    found: list[str] = []
    streams: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event["event"] in ("request", "response"):
            streams[event["stream"]].append(event)
    for stream, messages in streams.items():
        found += (f"stream {stream}: {fault}" for fault in _faults_of_stream(messages, node))
    return found


def _faults_of_stream(messages: list[Event], node: str) -> list[str]:
    found: list[str] = []
    requests = [message for message in messages if message["event"] == "request"]
    if requests and requests[0]["node"] != node:
        found.append(f"the first message has the node {requests[0]['node']}")
    for request in requests[1:]:
        if request["node"] is not None:
            found.append(f"the node was sent again: {request}")
    for type_url in sorted({message["type_url"] for message in messages}):
        found += _faults_of_type([message for message in messages if message["type_url"] == type_url])
    return found


def _faults_of_type(messages: list[Event]) -> list[str]:
    found: list[str] = []
    subscribed: list[str] | None = None
    unacknowledged: list[Event] = []
    for message in messages:
        if message["event"] == "response":
            unacknowledged.append(message)
            continue
        names = sorted(message["names"])
        if message["error_detail"] is not None:
            found.append(f"a response was rejected: {message}")
        if subscribed is None:
            subscribed = names
            if message["nonce"]:
                found.append(f"the first request has a nonce: {message}")
        elif names != subscribed:
            found.append(f"the subscription changed: {message}")
        elif unacknowledged and _key(message) == _key(unacknowledged[0]):
            unacknowledged.pop(0)
        else:
            found.append(
                f"a request without a cause, or an ACK that is not of the oldest response: {message}"
            )
    found += [f"a response was not acknowledged: {response}" for response in unacknowledged]
    return found


def _key(message: Event) -> tuple[str, str]:
    return message["nonce"], message["version"]


def delta_faults(events: Iterable[Event], node: str) -> list[str]:
    """The same for incremental streams of a client whose interest does not change.

    Its first request of each type has no nonce and alone states what is held; every other one is the
    ACK of a response, in order, and says nothing else.
    """
    found: list[str] = []
    streams: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event["event"] in ("delta_request", "delta_response"):
            streams[event["stream"]].append(event)
    for stream, messages in streams.items():
        requests = [message for message in messages if message["event"] == "delta_request"]
        if requests and requests[0]["node"] != node:
            found.append(f"stream {stream}: the first message has the node {requests[0]['node']}")
        found += (
            f"stream {stream}: the node was sent again: {request}"
            for request in requests[1:]
            if request["node"] is not None
        )
        for type_url in sorted({message["type_url"] for message in messages}):
            of_type = [message for message in messages if message["type_url"] == type_url]
            found += (f"stream {stream}: {fault}" for fault in _delta_faults_of_type(of_type))
    return found


def _delta_faults_of_type(messages: list[Event]) -> list[str]:
    found: list[str] = []
    is_first = True
    unacknowledged: list[str] = []
    for message in messages:
        if message["event"] == "delta_response":
            unacknowledged.append(message["nonce"])
            continue
        if message["error_detail"] is not None:
            found.append(f"a response was rejected: {message}")
        if message["unsubscribe"]:
            found.append(f"something was given up: {message}")
        if is_first:
            is_first = False
            if message["nonce"]:
                found.append(f"the first request has a nonce: {message}")
        elif message["held"] or message["subscribe"]:
            found.append(f"more than an ACK: {message}")
        elif unacknowledged and message["nonce"] == unacknowledged[0]:
            unacknowledged.pop(0)
        else:
            found.append(f"an ACK that is not of the oldest response: {message}")
    found += [f"a response was not acknowledged: {nonce}" for nonce in unacknowledged]
    return found
