"""What two clients said to the same script, compared field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

from driver.processes import Event
from driver.xds import TYPE_URLS

_SHORT_NAMES = {url: name for name, url in TYPE_URLS.items()}


@dataclass(frozen=True)
class Request:
    """A `DiscoveryRequest`, as far as it is compared."""

    type_url: str
    version_info: str
    resource_names: tuple[str, ...]
    response_nonce: str
    node_id: str | None
    client_features: tuple[str, ...] | None
    error_code: int | None
    error_message: str | None

    @classmethod
    def parse(cls, event: Event) -> Request:
        node, error = event["node"], event["error_detail"]
        return cls(
            type_url=event["type_url"],
            version_info=event["version"],
            # A set: its order on the wire means nothing.
            resource_names=tuple(sorted(event["names"])),
            response_nonce=event["nonce"],
            node_id=node and node["id"],
            client_features=node and tuple(sorted(node["client_features"])),
            error_code=error and error["code"],
            # Its words are each client's own.
            error_message=error and ("given" if error["message"] else "empty"),
        )


FIELDS = tuple(field.name for field in fields(Request))
# Beside the fields: whether there is such a request at all, and which one comes at this point.
SENT = "sent"
ORDER = "order"

# Requests by their places (stream, type, nonce), in order; `None` where the client ended a stream.
Transcript = dict[str, Request | None]


@dataclass(frozen=True)
class Difference:
    """One field in which the two clients differ."""

    scene: str
    # Server and stream, type and nonce, as in `a1/cds/cds-2`.
    place: str
    field: str
    ours: object
    core: object

    def __str__(self) -> str:
        return f"{self.scene}: {self.place}: {self.field}: ours {self.ours!r}, C-core {self.core!r}"


@dataclass(frozen=True)
class Comparison:
    """How much was compared, and what differs."""

    requests: int
    fields: int
    differences: list[Difference]


def transcript(events: Sequence[Event], steps: Collection[int], *, fold: bool) -> Transcript:
    """The transcript of one client, stream by stream.

    `steps` are the numbers of events that there had been at the end of each step of the script. What a client does of its
    own accord within one step it may do in any order of the types, so here they stand in the order of
    their names: C-core keeps them by their addresses in memory. It may also need several requests, as
    its first one takes what has changed until then (D23); with `fold`, only the last one of each type
    counts. Answers to responses keep their place.
    """
    runs: dict[str, list[_Run]] = {}
    answered: set[tuple[str, str, str]] = set()
    for number, event in enumerate(events):
        stream = f"{event['server'].rpartition('/')[2]}{event['stream']}"
        of_stream = runs.setdefault(stream, [])
        if event["event"] == "end":
            of_stream.append(_Run(number, is_spontaneous=False, requests=[None]))
            continue
        request = Request.parse(event)
        key = stream, request.type_url, request.response_nonce
        is_spontaneous = not request.response_nonce or key in answered
        answered.add(key)
        step = sum(end <= number for end in steps)
        if is_spontaneous and of_stream and of_stream[-1].is_spontaneous and of_stream[-1].step == step:
            of_stream[-1].requests.append(request)
        else:
            of_stream.append(_Run(step, is_spontaneous, [request]))
    said: Transcript = {}
    times: Counter[str] = Counter()
    for stream, of_stream in sorted(runs.items()):
        for request in (request for run in of_stream for request in run.in_order(fold)):
            if request is None:
                said[f"{stream}/end"] = None
                continue
            type_name = _SHORT_NAMES.get(request.type_url, request.type_url)
            place = f"{stream}/{type_name}/{request.response_nonce or 'first'}"
            times[place] += 1
            said[place if times[place] == 1 else f"{place}#{times[place]}"] = request
    return said


@dataclass(frozen=True)
class _Run:
    """An answer, or what a client sent of its own accord in one go; `None` ends the stream."""

    step: int
    is_spontaneous: bool
    requests: list[Request | None]

    def in_order(self, fold: bool) -> list[Request | None]:
        requests = [request for request in self.requests if request is not None]
        if not self.is_spontaneous or not requests:
            return self.requests
        # The node belongs to the first message, whichever that is; if another has one, all others do.
        first, *others = ((request.node_id, request.client_features) for request in requests)
        other = next((node for node in others if node != (None, None)), (None, None))
        if fold:
            requests = list({request.type_url: request for request in requests}.values())
        requests.sort(key=lambda request: request.type_url)
        nodes = [first] + [other] * (len(requests) - 1)
        return [
            replace(request, node_id=node_id, client_features=features)
            for request, (node_id, features) in zip(requests, nodes)
        ]


def compare(scene: str, ours: Transcript, core: Transcript) -> Comparison:
    """Every difference between two transcripts of one scene."""
    found: list[Difference] = []
    common = [place for place in ours if place in core]
    for place in [*ours, *(place for place in core if place not in ours)]:
        if place not in common:
            found.append(Difference(scene, place, SENT, place in ours, place in core))
            continue
        for field in FIELDS:
            values = getattr(ours[place], field, None), getattr(core[place], field, None)
            if values[0] != values[1]:
                found.append(Difference(scene, place, field, *values))
    for ours_next, core_next in zip(common, (place for place in core if place in ours)):
        if ours_next != core_next:
            found.append(Difference(scene, ours_next, ORDER, ours_next, core_next))
            break
    return Comparison(len(common), len(common) * len(FIELDS), found)
