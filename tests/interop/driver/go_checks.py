"""go-control-plane as the management server of `xds watch`."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path

from driver import conversation, workspace
from driver.checks import PeerReport, Scenario, play
from driver.processes import Argv, Event, EventProcess
from driver.waiting import SILENCE, eventually, expect, settled, stays
from driver.xds import TYPE_URLS, XdsWatch

NAME = "go"

_NODE = "test-id"
_CONFIG = workspace.CONFIG / "go-control-plane"
# All endpoints of all snapshots: a server for aggregated streams answers a request for some of its
# endpoints only when it names all of them.
_SUBSCRIPTIONS = ("cds", "lds", "rds:routes", "eds:blue", "eds:green", "eds:yellow")
# What each snapshot changes for somebody who has the one before: (event, type, name). An endpoint
# assignment that is absent from a response is not gone; a listener or a cluster is.
_CHANGES = {
    1: {
        ("changed", "cds", "blue"),
        ("changed", "cds", "green"),
        ("changed", "lds", "ingress"),
        ("changed", "rds", "routes"),
        ("changed", "eds", "blue"),
        ("changed", "eds", "green"),
    },
    # The listener is the same as before under a new version.
    2: {
        ("changed", "cds", "blue"),
        ("removed", "cds", "green"),
        ("changed", "cds", "yellow"),
        ("changed", "rds", "routes"),
        ("changed", "eds", "blue"),
        ("changed", "eds", "yellow"),
    },
    # Blue's cluster and green's endpoints are the same as the client has them already.
    3: {
        ("changed", "cds", "green"),
        ("removed", "cds", "yellow"),
        ("changed", "lds", "egress"),
        ("removed", "lds", "ingress"),
        ("changed", "rds", "routes"),
        ("changed", "eds", "blue"),
    },
}
_RECONNECT_PATIENCE = 30.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Builds the server and plays its scenarios."""
    peer = _GoPeer(workspace.go_server(), workspace.xds_binary(), report)
    play(
        report,
        run_dir,
        {
            "go-control-plane: xds watch follows three snapshots": peer.follows_snapshots,
            "go-control-plane: the server is killed and started again": peer.reconnects,
        },
    )


class _Server:
    """The program of `go/`."""

    def __init__(self, scenario: Scenario, binary: Path, listen: str = "127.0.0.1:0") -> None:
        argv: Argv = [binary, "-listen", listen, "-node", _NODE]
        self._process = scenario.spawn(EventProcess, "go-control-plane", argv)
        listening = self._process.wait_event("listening", lambda event: event["event"] == "listening")
        self.address: str = listening["address"]
        self.version: str = f"{listening['version']} ({listening['go']})"

    def serve(self, snapshot: int) -> None:
        """Serves a snapshot from now on."""
        before = len(self._process.events)
        self._process.tell(f"snapshot {snapshot} {_CONFIG / f'snapshot-{snapshot}'}")
        self._process.wait_event("snapshot", lambda event: event["event"] == "snapshot", before)

    @property
    def journal(self) -> list[Event]:
        """What its callbacks saw until now."""
        return self._process.events

    def requests(self) -> list[Event]:
        """The requests until now."""
        return [event for event in self.journal if event["event"] == "request"]

    def wait_acknowledged(self, version: str) -> None:
        """Waits until each of the four types was acknowledged at a version."""

        def probe() -> bool:
            acks = {
                request["type_url"]
                for request in self.requests()
                if request["version"] == version and request["nonce"]
            }
            expect(acks == set(TYPE_URLS.values()), f"acknowledged: {sorted(acks)}")
            return True

        eventually(f"every type acknowledged at version {version}", probe, _RECONNECT_PATIENCE)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._process.stop(signal.SIGKILL)


@dataclass(frozen=True)
class _World:
    server: _Server
    watch: XdsWatch


class _GoPeer:
    def __init__(self, server: Path, xds: Path, report: PeerReport) -> None:
        self._server = server
        self._xds = xds
        self._report = report

    def follows_snapshots(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        server, watch = world.server, world.watch
        self._report.version = f"go-control-plane {server.version}"

        with scenario.check("xds watch prints every resource of the first snapshot once"):
            _wait_changes(watch, 0, snapshot=1)
            first = {(event["type"], event["name"]): event["resource"] for event in watch.changes(0)}
            expect(first["cds", "blue"]["type"] == "EDS", f"blue: {first['cds', 'blue']}")
            expect("10002" in json.dumps(first["eds", "green"]), f"green: {first['eds', 'green']}")
        with scenario.check("it subscribes with one request of each type, wildcards without names"):
            server.wait_acknowledged("1")
            subscriptions = {
                request["type_url"]: (sorted(request["names"]), request["version"])
                for request in server.requests()
                if not request["nonce"]
            }
            expected = {
                TYPE_URLS["lds"]: ([], ""),
                TYPE_URLS["rds"]: (["routes"], ""),
                TYPE_URLS["cds"]: ([], ""),
                TYPE_URLS["eds"]: (["blue", "green", "yellow"], ""),
            }
            expect(subscriptions == expected, str(subscriptions))
        _check_conversation(scenario, world, "the first snapshot")

        for snapshot, title in (
            (2, "the second snapshot: what was added, changed and removed, and not the unchanged listener"),
            (3, "the third snapshot: what comes back, and what the client has had all along is not repeated"),
        ):
            before = watch.mark()
            with scenario.check(f"xds watch prints {title}"):
                server.serve(snapshot)
                _wait_changes(watch, before, snapshot)
                server.wait_acknowledged(str(snapshot))
            _check_conversation(scenario, world, f"snapshot {snapshot}")

        with scenario.check("xds watch tells of no error, since there was none"):
            errors = [event for event in watch.events if event["event"] in ("ambient", "error")]
            expect(not errors, str(errors))
        with scenario.check("xds watch ends with exit code 0 when interrupted"):
            watch.stop_cleanly()

    def reconnects(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        old, watch = world.server, world.watch
        _wait_changes(watch, 0, snapshot=1)
        old.wait_acknowledged("1")
        before = watch.mark()
        old.kill()
        server = _Server(scenario, self._server, old.address)
        server.serve(1)

        with scenario.check("the client connects again by itself and subscribes to the same as before"):
            eventually("four requests", lambda: len(server.requests()) >= 4, _RECONNECT_PATIENCE)
            names = {request["type_url"]: sorted(request["names"]) for request in server.requests()[:4]}
            expected = {request["type_url"]: sorted(request["names"]) for request in old.requests()}
            expect(names == expected, f"subscriptions: {names}, before: {expected}")
        with scenario.check("its first requests have the last version and no nonce"):
            first = [(request["version"], request["nonce"]) for request in server.requests()[:4]]
            expect(first == [("1", "")] * 4, f"versions and nonces: {first}")
        with scenario.check("what the server sends again is acknowledged, but not printed again"):
            # To this server no version counts that it has not told on the same stream.
            server.wait_acknowledged("1")
            settled("the journal of the server", lambda: server.journal, SILENCE)
            expect(not watch.changes(before), str(watch.changes(before)))
        with scenario.check("the next snapshot arrives on the new stream"):
            server.serve(2)
            _wait_changes(watch, before, snapshot=2)
            server.wait_acknowledged("2")
        _check_conversation(scenario, _World(server, watch), "the new stream")

    def _world(self, scenario: Scenario) -> _World:
        """The server with its first snapshot, and our client that watches it."""
        server = _Server(scenario, self._server)
        server.serve(1)
        return _World(server, XdsWatch(scenario, self._xds, server.address, _NODE, _SUBSCRIPTIONS))


def _wait_changes(watch: XdsWatch, after: int, snapshot: int) -> None:
    """Waits until exactly the changes of a snapshot are printed, each once and at its version."""
    expected = _CHANGES[snapshot]

    def printed() -> list[Event]:
        events = watch.changes(after)
        seen = {(event["event"], event["type"], event["name"]) for event in events}
        expect(seen >= expected, f"missing: {sorted(expected - seen)}")
        return events

    events = eventually(f"the changes of snapshot {snapshot}", printed, _RECONNECT_PATIENCE)
    keys = [(event["event"], event["type"], event["name"]) for event in events]
    expect(sorted(keys) == sorted(expected), f"printed: {keys}")
    for event in events:
        if event["event"] == "changed":
            expect(event["version"] == str(snapshot), f"not at version {snapshot}: {event}")


def _check_conversation(scenario: Scenario, world: _World, about: str) -> None:
    with scenario.check(f"{about}: exactly one ACK for each response, nothing else, and silence afterwards"):
        before = world.watch.mark()
        journal = stays("the journal of the server", lambda: world.server.journal, SILENCE)
        found = conversation.faults(journal, _NODE)
        expect(not found, "\n".join(found))
        late = world.watch.events[before:]
        expect(not late, f"printed although nothing happened: {late}")
