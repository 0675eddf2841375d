"""Two clients on one script, in lockstep.

A step waits until both have said what it must make them say, so nothing depends on how fast either is.
What a step must *not* make them say shows at the end of the scene: a stream keeps order, so an answer
to a later response comes behind whatever was said before.
"""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario
from driver.differential.compare import Transcript, transcript
from driver.differential.resources import Resource
from driver.processes import Argv, Event, EventProcess
from driver.tls import CertificateFiles
from driver.waiting import eventually, expect, stays
from driver.xds import TYPE_URLS

# C-core waits a second between two streams, and up to twenty until it dials a server again.
_RETURN_PATIENCE = 60.0
# For a thousand calls on a busy machine.
_CALLS_PATIENCE = 120.0
# How long a client that has stopped reading is given to say something after all.
_SILENCE = 1.0


class Side(enum.Enum):
    """Which of the two clients."""

    OURS = "ours"
    CORE = "core"


BOTH = (Side.OURS, Side.CORE)
Sides = Sequence[Side]


class Stage:
    """A scripted server for each client; the names `a` and `b` are servers that both have."""

    def __init__(self, scenario: Scenario, python: Path, client: Path, core: str = "channel.py") -> None:
        programs = workspace.INTEROP / "grpc-python"
        # Isolated, so that nothing of this driver's path gets into the peer.
        isolated: Argv = [python, "-I", "-B"]
        self._servers = scenario.spawn(
            EventProcess, "scripted-server", [*isolated, programs / "scripted_server.py"]
        )
        self._clients = {
            Side.OURS: scenario.spawn(EventProcess, "ours", [client]),
            Side.CORE: scenario.spawn(EventProcess, "c-core", [*isolated, programs / core]),
        }
        self._wanted: dict[str, list[str]] = {}
        self._latest: dict[str, list[Resource]] = {}
        self._nonces: dict[str, int] = dict.fromkeys(TYPE_URLS, 0)
        self._closed: set[tuple[str, int]] = set()
        # How many events there had been at the end of each step of the script.
        self._steps: dict[Side, set[int]] = {side: set() for side in BOTH}
        ready = {
            side: client.wait_event("ready", lambda event: event["event"] == "ready")
            for side, client in self._clients.items()
        }
        self.versions = {side: str(event["version"]) for side, event in ready.items()}
        # The ports of C-core's backends, where it has some.
        self.backends: list[int] = ready[Side.CORE].get("backends", [])

    # What the clients do of themselves.

    def open(
        self, servers: str = "a", away: str = "", providers: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        """Both clients start, with these servers in this order, and want the listener `svc`.

        Some of the servers may be away for now. With instances of certificate providers, each with the files that
        it watches, both secure what clusters ask to be secured.
        """
        for side, client in self._clients.items():
            addresses = [self._listen(side, server) for server in servers]
            for server in away:
                self._shut(side, server)
            _tell(client, command="open", servers=addresses, node="node-1", providers=providers or {})
        present = next(server for server in servers if server not in away)
        self.want(lds=["svc"], server=present)

    def want(self, server: str = "a", **names: Sequence[str]) -> None:
        """Ours subscribes to exactly these names of these types; C-core does as the resources tell it.

        Returns when the newest requests to a server list these names.
        """
        self._wanted |= {type_name: sorted(wanted) for type_name, wanted in names.items()}
        wanted_urls = {TYPE_URLS[type_name]: list(wanted) for type_name, wanted in names.items()}
        _tell(self._clients[Side.OURS], command="want", names=wanted_urls)
        for side in BOTH:
            self._wait_subscribed(side, server, *names)
        self._end_step()

    def close(self) -> None:
        """The applications close what they have: C-core its stream as well, ours only what it watches."""
        for client in self._clients.values():
            _tell(client, command="close")
        self._wanted = {type_name: [] for type_name in self._wanted}
        self._wait_subscribed(Side.OURS, "a", *self._wanted)
        self.wait_end(Side.CORE)

    def follow(self) -> None:
        """Ours follows the target by itself from now on, as C-core's channel does."""
        _tell(self._clients[Side.OURS], command="follow", authority="svc")

    def calls(self, side: Side, calls: Sequence[object]) -> list[Event]:
        """What becomes of these calls of a client: the port of the backend that answers each, or the code it
        fails with."""
        client = self._clients[side]
        mark = len(client.events)
        _tell(client, command="calls", calls=calls)
        done = client.wait_event("calls", lambda event: event["event"] == "calls", mark, _CALLS_PATIENCE)
        return list(done["outcomes"])

    def secure(self, files: CertificateFiles, clients: CertificateFiles | None = None) -> int:
        """The port of one more backend, which speaks TLS, and wants this certificate of its clients if it is stated."""
        client = self._clients[Side.CORE]
        mark = len(client.events)
        paths = {"certificate": str(files.certificate), "key": str(files.key)}
        _tell(client, command="secure", clients=str(clients.certificate) if clients else None, **paths)
        secured = client.wait_event("secured", lambda event: event["event"] == "secured", mark)
        return int(secured["port"])

    def metrics(self, side: Side) -> list[dict[str, Any]]:
        """The metrics that a client has of its calls: points with a name, labels, a count and a sum."""
        client = self._clients[side]
        mark = len(client.events)
        _tell(client, command="metrics")
        told = client.wait_event("metrics", lambda event: event["event"] == "metrics", mark)
        return list(told["points"])

    def reports(self, side: Side, server: str = "a") -> list[Event]:
        """The messages of a client on its streams of load reports."""
        self._servers.expect_running()
        name = f"{side.value}/{server}"
        return [event for event in self._servers.events if event["event"] == "load" and event["server"] == name]

    def load(self, utilizations: Sequence[float]) -> None:
        """The backends report these utilizations on streams from now on."""
        _tell(self._clients[Side.CORE], command="load", utilizations=list(utilizations))

    # What the servers do.

    def respond(
        self,
        type_name: str,
        version: str,
        *resources: Resource,
        nonce: str | None = None,
        server: str = "a",
        answered: Sides = BOTH,
    ) -> None:
        """A response to both, and the wait for the answers of those that do answer."""
        self._end_step()
        if nonce is None:
            self._nonces[type_name] += 1
            nonce = f"{type_name}-{self._nonces[type_name]}"
        self._latest[type_name] = list(resources)
        answers = {side: self._answers(side, server, type_name, nonce) for side in BOTH}
        for side in BOTH:
            self._command(
                "respond",
                side,
                server,
                type_url=TYPE_URLS[type_name],
                version=version,
                nonce=nonce,
                resources=resources,
            )
        for side in answered:
            eventually(
                f"the answer of {side.value} to {nonce!r}",
                lambda side=side: self._answers(side, server, type_name, nonce) > answers[side],
            )

    def respond_of_type(self, type_url: str) -> None:
        """An empty response of any type to both, which neither has to answer."""
        words = {"type_url": type_url, "version": "1", "nonce": "other-1", "resources": []}
        for side in BOTH:
            self._command("respond", side, "a", **words)

    def send_frame(self, frame: bytes) -> None:
        """Any bytes in the place of a response, to both."""
        for side in BOTH:
            self._command("send", side, "a", frame=base64.b64encode(frame).decode())

    def flush(self, type_name: str = "lds", server: str = "a") -> None:
        """A response that both answer and that changes nothing else: what came before has been said."""
        self.respond(type_name, "flushed", *self._latest[type_name], server=server)

    def end_stream(self, code: str = "OK", sides: Sides = BOTH) -> None:
        """The server ends the stream; returns when the clients are back on a new one."""
        for side in sides:
            stream = self._newest_stream(side, "a")
            self._closed.add((f"{side.value}/a", stream))
            self._command("close", side, "a", code=code)
            self.wait_return(side, stream)
        self._end_step()

    def restart_server(self) -> None:
        """The server goes away with all connections and comes back at its port."""
        for side in BOTH:
            stream = self._newest_stream(side, "a")
            self._shut(side, "a")
            self._listen(side, "a")
            self.wait_return(side, stream)
        self._end_step()

    def shut(self, server: str) -> None:
        """A server goes away with all connections."""
        for side in BOTH:
            self._shut(side, server)

    def listen(self, server: str) -> None:
        """A server that went away is back at its port."""
        for side in BOTH:
            self._listen(side, server)

    # Waiting.

    def wait_return(self, side: Side, stream: int) -> None:
        """Waits for a newer stream than this one, with all subscriptions."""
        eventually(
            f"{side.value} on a new stream",
            lambda: self._newest_stream(side, "a") > stream,
            _RETURN_PATIENCE,
        )
        self._wait_subscribed(side, "a", *self._wanted)

    def wait_subscriptions(self, server: str) -> None:
        """Waits until a server knows everything that is wanted."""
        for side in BOTH:
            self._wait_subscribed(side, server, *self._wanted)
        self._end_step()

    def wait_end(self, side: Side, server: str = "a") -> None:
        """Waits until a client has ended its stream to a server."""
        name = f"{side.value}/{server}"
        eventually(
            f"the end of the stream of {name}",
            lambda: any((event["event"], event["server"]) == ("end", name) for event in self._events(side)),
            _RETURN_PATIENCE,
        )

    def stays_silent(self, side: Side) -> None:
        """Fails if a client says anything for a moment."""
        stays(f"what {side.value} says", lambda: len(self._events(side)), _SILENCE)

    def _wait_subscribed(self, side: Side, server: str, *types: str) -> None:
        """Waits until the newest requests of these types on the newest stream list what is wanted."""

        def probe() -> bool:
            names = self._subscribed(side, server)
            for type_name in types:
                # A type of which nothing is wanted need not be mentioned at all.
                told, wanted = names.get(type_name, []), self._wanted[type_name]
                expect(told == wanted, f"{type_name}: {told} instead of {wanted}")
            return True

        eventually(f"the subscriptions of {side.value}", probe, _RETURN_PATIENCE)

    def rejection(self, side: Side, type_name: str) -> str | None:
        """Why a client rejected the latest response of a type that it answered; `None` if it did not."""
        url, nonce = TYPE_URLS[type_name], f"{type_name}-{self._nonces[type_name]}"
        answers = [
            event for event in self._requests(side, "a") if (event["type_url"], event["nonce"]) == (url, nonce)
        ]
        error = answers[0]["error_detail"]
        return None if error is None else str(error["message"])

    def transcripts(self) -> dict[Side, Transcript]:
        """What each client has said until now."""
        return {
            side: transcript(self._events(side), self._steps[side], fold=side is Side.CORE) for side in BOTH
        }

    def _end_step(self) -> None:
        for side in BOTH:
            self._steps[side].add(len(self._events(side)))

    def _events(self, side: Side) -> list[Event]:
        self._clients[side].expect_running()
        self._servers.expect_running()
        prefix = f"{side.value}/"
        return [
            event
            for event in self._servers.events
            if event["event"] in ("request", "end")
            and event["server"].startswith(prefix)
            # What the script ended, no client has.
            and (event["event"] == "request" or (event["server"], event["stream"]) not in self._closed)
        ]

    def _requests(self, side: Side, server: str) -> list[Event]:
        name = f"{side.value}/{server}"
        return [
            event for event in self._events(side) if event["event"] == "request" and event["server"] == name
        ]

    def _answers(self, side: Side, server: str, type_name: str, nonce: str) -> int:
        key = TYPE_URLS[type_name], nonce
        return sum((event["type_url"], event["nonce"]) == key for event in self._requests(side, server))

    def _newest_stream(self, side: Side, server: str) -> int:
        return max((event["stream"] for event in self._requests(side, server)), default=0)

    def _subscribed(self, side: Side, server: str) -> dict[str, list[str]]:
        newest = self._newest_stream(side, server)
        urls = {url: name for name, url in TYPE_URLS.items()}
        return {
            urls[event["type_url"]]: sorted(event["names"])
            for event in self._requests(side, server)
            if event["stream"] == newest
        }

    def _shut(self, side: Side, server: str) -> None:
        self._closed.add((f"{side.value}/{server}", self._newest_stream(side, server)))
        mark = len(self._servers.events)
        self._command("shut", side, server)
        self._servers.wait_event("shut", lambda event: event["event"] == "shut", mark)

    def _listen(self, side: Side, server: str) -> str:
        mark = len(self._servers.events)
        self._command("listen", side, server)
        listening = self._servers.wait_event("listening", lambda event: event["event"] == "listening", mark)
        return f"127.0.0.1:{listening['port']}"

    def _command(self, command: str, side: Side, server: str, **words: object) -> None:
        _tell(self._servers, command=command, server=f"{side.value}/{server}", **words)


def _tell(process: EventProcess, **words: object) -> None:
    process.tell(json.dumps(words))
