"""go-control-plane as the management server of `xds watch`."""

from __future__ import annotations

import json
import signal
import subprocess
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
# What the third snapshot changes for somebody who has the first.
_FROM_1_TO_3 = {
    ("changed", "cds", "blue"),
    ("changed", "lds", "egress"),
    ("removed", "lds", "ingress"),
    ("changed", "rds", "routes"),
}
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
# In the incremental variant the endpoints that a snapshot lacks are said to be gone.
_DELTA_CHANGES = {
    1: _CHANGES[1],
    2: _CHANGES[2] | {("removed", "eds", "green")},
    3: _CHANGES[3] | {("changed", "eds", "green"), ("removed", "eds", "yellow")},
}
_RECONNECT_PATIENCE = 30.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Builds the server and plays its scenarios."""
    peer = _GoPeer(workspace.go_server(), workspace.xds_binary(), report)
    version_2 = _Version2(workspace.go_version_2(), workspace.example("interop-version2"))
    play(
        report,
        run_dir,
        {
            "go-control-plane: xds watch follows three snapshots": peer.follows_snapshots,
            "go-control-plane: the server is killed and started again": peer.reconnects,
            "go-control-plane, incremental: xds watch --delta follows three snapshots": peer.follows_delta,
            "go-control-plane, incremental: the server is killed and started again": peer.reconnects_delta,
            "go-control-plane, one stream a type: xds watch --per-type": peer.follows_per_type,
            "go-control-plane, one incremental stream a type: the same with --delta": peer.follows_delta_per_type,
            "go-control-plane, one stream a type: the server is killed and started again": peer.reconnects_per_type,
            "go-control-plane, one incremental stream a type: killed and started again": peer.reconnects_delta_per_type,
            "go-control-plane: another server serves while the first is away": peer.falls_back,
            "go-control-plane, one stream a type: another server serves while the first is away": peer.falls_back_per_type,
            "go-control-plane, incremental: another server serves while the first is away": peer.falls_back_delta,
            "go-control-plane: nobody is turned to while everything is known": peer.stays_with_what_it_has,
            "go-control-plane: a name that is unknown when the server dies": peer.turns_for_what_it_lacks,
            "go-control-plane, REST-JSON: xds watch --poll follows three snapshots": peer.follows_over_rest,
            "go-control-plane: version 2 of the API as it was published": version_2.agrees,
        },
    )


class _Version2:
    """What we have of version 2 of the API, against the descriptors of a release that had it."""

    def __init__(self, published: Path, compare: Path) -> None:
        self._published = published
        self._compare = compare

    def agrees(self, scenario: Scenario) -> None:
        descriptors = scenario.directory / "version-2.binpb"
        with descriptors.open("wb") as out:
            subprocess.run([self._published], stdout=out, stdin=subprocess.DEVNULL, check=True, timeout=60.0)
        compare = [self._compare, descriptors, workspace.CHECKOUT / "proto"]
        said = subprocess.run(compare, capture_output=True, text=True, check=True, timeout=60.0)
        found = json.loads(said.stdout)
        with scenario.check("every field, number, type and path of our schema of version 2 is the published one"):
            expect(len(found["compared"]) > 20, f"compared: {found['compared']}")
            expect(found["breaks"] == [], "\n".join(found["breaks"]))
        with scenario.check("what a client takes to be gone in version 3 is what its descriptors lack"):
            known = (workspace.CHECKOUT / "xds-core" / "tests" / "older-fields.txt").read_text().splitlines()
            differences = sorted(set(found["removed"]) ^ set(known))
            expect(found["removed"] == known, f"differ in {differences}")


class _Server:
    """The program of `go/`."""

    def __init__(self, scenario: Scenario, binary: Path, listen: str = "127.0.0.1:0") -> None:
        argv: Argv = [binary, "-listen", listen, "-node", _NODE]
        self._process = scenario.spawn(EventProcess, "go-control-plane", argv)
        listening = self._process.wait_event("listening", lambda event: event["event"] == "listening")
        self.address: str = listening["address"]
        self.rest: str = listening["rest"]
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
        self._reconnect(scenario)

    def reconnects_per_type(self, scenario: Scenario) -> None:
        server = self._reconnect(scenario, "--per-type")
        with scenario.check("each type has a stream of its own again"):
            _expect_stream_per_type(server)

    def _reconnect(self, scenario: Scenario, *options: str) -> _Server:
        world = self._world(scenario, *options)
        old, watch = world.server, world.watch
        _wait_changes(watch, 0, snapshot=1)
        old.wait_acknowledged("1")
        before = watch.mark()
        old.kill()
        server = _Server(scenario, self._server, old.address)
        server.serve(1)

        with scenario.check("the client connects again by itself and subscribes to the same as before"):
            eventually("a request of each type", lambda: len(_first_requests(server)) >= 4, _RECONNECT_PATIENCE)
            first = _first_requests(server)
            names = {type_url: sorted(request["names"]) for type_url, request in first.items()}
            expected = {request["type_url"]: sorted(request["names"]) for request in old.requests()}
            expect(names == expected, f"subscriptions: {names}, before: {expected}")
        with scenario.check("its first requests have the last version and no nonce"):
            stated = [(request["version"], request["nonce"]) for request in first.values()]
            expect(stated == [("1", "")] * 4, f"versions and nonces: {stated}")
        with scenario.check("what the server sends again is acknowledged, but not printed again"):
            # To this server no version counts that it has not told on the same stream.
            server.wait_acknowledged("1")
            settled("the journal of the server", lambda: server.journal, SILENCE)
            _expect_no_resource(watch, before)
        before = watch.mark()
        with scenario.check("the next snapshot arrives on the new stream"):
            server.serve(2)
            _wait_changes(watch, before, snapshot=2)
            server.wait_acknowledged("2")
        _check_conversation(scenario, _World(server, watch), "since then")
        return server

    def follows_delta(self, scenario: Scenario) -> None:
        self._follow_delta(scenario, "--delta")

    def follows_delta_per_type(self, scenario: Scenario) -> None:
        world = self._follow_delta(scenario, "--delta", "--per-type")
        with scenario.check("each type had a stream of its own"):
            _expect_stream_per_type(world.server)

    def _follow_delta(self, scenario: Scenario, *options: str) -> _World:
        world = self._world(scenario, *options)
        server, watch = world.server, world.watch
        for snapshot in (1, 2, 3):
            before = watch.mark() if snapshot > 1 else 0
            with scenario.check(f"xds watch prints exactly what snapshot {snapshot} changes"):
                if snapshot > 1:
                    server.serve(snapshot)
                _wait_keys(watch, before, _DELTA_CHANGES[snapshot])
            with scenario.check(f"snapshot {snapshot}: one ACK for each response, and nothing else"):
                journal = settled("the journal of the server", lambda: server.journal, SILENCE)
                found = conversation.delta_faults(journal, _NODE)
                expect(not found, "\n".join(found))
        return world

    def reconnects_delta(self, scenario: Scenario) -> None:
        self._reconnect_delta(scenario, "--delta")

    def reconnects_delta_per_type(self, scenario: Scenario) -> None:
        server = self._reconnect_delta(scenario, "--delta", "--per-type")
        with scenario.check("each type has a stream of its own again"):
            _expect_stream_per_type(server)

    def _reconnect_delta(self, scenario: Scenario, *options: str) -> _Server:
        world = self._world(scenario, *options)
        old, watch = world.server, world.watch
        _wait_keys(watch, 0, _DELTA_CHANGES[1])
        settled("the journal of the server", lambda: old.journal, SILENCE)
        held = _held_after(old.journal)
        before = watch.mark()
        old.kill()
        server = _Server(scenario, self._server, old.address)
        server.serve(1)
        with scenario.check("the first request of each type states what is held, later ones nothing"):
            eventually("four requests", lambda: len(_delta_requests(server)) >= 4, _RECONNECT_PATIENCE)
            journal = settled("the journal of the server", lambda: server.journal, SILENCE)
            stated = {event["type_url"]: event["held"] for event in _delta_requests(server) if event["held"]}
            expect(stated == held, f"stated: {stated}, held: {held}")
            found = conversation.delta_faults(journal, _NODE)
            expect(not found, "\n".join(found))
        with scenario.check("the server sends nothing again that the client has, and nothing is printed"):
            sent = [event["resources"] for event in server.journal if event["event"] == "delta_response"]
            expect(not any(sent), f"sent: {sent}")
            _expect_no_resource(watch, before)
        before = watch.mark()
        with scenario.check("the next snapshot arrives on the new stream"):
            server.serve(2)
            _wait_keys(watch, before, _DELTA_CHANGES[2])
        return server

    def follows_per_type(self, scenario: Scenario) -> None:
        world = self._world(scenario, "--per-type")
        server, watch = world.server, world.watch
        with scenario.check("xds watch prints the first snapshot"):
            _wait_changes(watch, 0, snapshot=1)
            server.wait_acknowledged("1")
        with scenario.check("each type has a stream of its own, with a node of its own"):
            _expect_stream_per_type(server)
        _check_conversation(scenario, world, "one stream a type")
        before = watch.mark()
        with scenario.check("the second snapshot arrives"):
            server.serve(2)
            _wait_changes(watch, before, snapshot=2)
            server.wait_acknowledged("2")
        _check_conversation(scenario, world, "one stream a type, second snapshot")

    def falls_back(self, scenario: Scenario) -> None:
        self._fall_back(scenario)

    def falls_back_per_type(self, scenario: Scenario) -> None:
        self._fall_back(scenario, "--per-type")

    def _fall_back(self, scenario: Scenario, *others: str) -> None:
        first = _Server(scenario, self._server)
        second = _Server(scenario, self._server)
        second.serve(1)
        first.kill()
        options = ("--fallback", second.address, *others)
        watch = XdsWatch(scenario, self._xds, first.address, _NODE, _SUBSCRIPTIONS, options)
        with scenario.check("with the first server away the second one serves, and no error is told"):
            _wait_changes(watch, 0, snapshot=1)
            second.wait_acknowledged("1")
            errors = [event for event in watch.events if event["event"] in ("ambient", "error")]
            expect(not errors, str(errors))
        before = watch.mark()
        back = _Server(scenario, self._server, first.address)
        back.serve(2)
        with scenario.check("when the first one answers, it serves, and the stream to the second one ends"):
            _wait_changes(watch, before, snapshot=2)
            back.wait_acknowledged("2")
            eventually("the end of the stream", lambda: _expect_closed(second), _RECONNECT_PATIENCE)
        before = watch.mark()
        with scenario.check("what the second one has to say then reaches nobody"):
            second.serve(3)
            late = stays("the events of xds watch", lambda: watch.events[before:], SILENCE)
            expect(not late, str(late))

    def falls_back_delta(self, scenario: Scenario) -> None:
        first = _Server(scenario, self._server)
        second = _Server(scenario, self._server)
        second.serve(1)
        first.kill()
        options = ("--delta", "--fallback", second.address)
        watch = XdsWatch(scenario, self._xds, first.address, _NODE, _SUBSCRIPTIONS, options)
        with scenario.check("with the first server away the second one serves, and no error is told"):
            _wait_keys(watch, 0, _DELTA_CHANGES[1])
            settled("the journal of the second server", lambda: second.journal, SILENCE)
            errors = [event for event in watch.events if event["event"] in ("ambient", "error")]
            expect(not errors, str(errors))
        before = watch.mark()
        back = _Server(scenario, self._server, first.address)
        back.serve(2)
        with scenario.check("when the first one answers, it is told nothing of what the second one gave"):
            eventually("four requests", lambda: len(_delta_requests(back)) >= 4, _RECONNECT_PATIENCE)
            journal = settled("the journal of the first server", lambda: back.journal, SILENCE)
            stated = [event["held"] for event in _delta_requests(back) if event["held"]]
            expect(not stated, f"versions that are not its own: {stated}")
            found = conversation.delta_faults(journal, _NODE)
            expect(not found, "\n".join(found))
        with scenario.check("it serves, and the stream to the second one ends"):
            changed = {key for key in _DELTA_CHANGES[2] if key[0] == "changed"}
            # Of a name that it lacks, and never had on this stream, the server says nothing.
            possible = _DELTA_CHANGES[2] - {("removed", "eds", "green")}
            _wait_keys_among(watch, before, changed, possible)
            eventually("the end of the stream", lambda: _expect_closed(second), _RECONNECT_PATIENCE)
        with scenario.check("what only the second one had of a wildcard goes in time"):
            _wait_keys(watch, before, possible)
        before = watch.mark()
        with scenario.check("what the second one has to say then reaches nobody"):
            second.serve(3)
            late = stays("the events of xds watch", lambda: watch.events[before:], SILENCE)
            expect(not late, str(late))

    def stays_with_what_it_has(self, scenario: Scenario) -> None:
        first = _Server(scenario, self._server)
        second = _Server(scenario, self._server)
        first.serve(1)
        second.serve(2)
        known = [name for name in _SUBSCRIPTIONS if name != "eds:yellow"]
        watch = XdsWatch(scenario, self._xds, first.address, _NODE, known, ("--fallback", second.address))
        with scenario.check("the first server serves"):
            _wait_changes(watch, 0, snapshot=1)
            first.wait_acknowledged("1")
        before = watch.mark()
        first.kill()
        with scenario.check("it dies: that is told beside what is in use, and nothing is asked of the second one"):
            eventually("word of it", lambda: _expect_ambient(watch, before), _RECONNECT_PATIENCE)
            settled("the journal of the second server", lambda: second.journal, SILENCE)
            opened = [event for event in second.journal if event["event"] == "stream_open"]
            expect(not opened, str(opened))
            _expect_no_resource(watch, before)
        before = watch.mark()
        back = _Server(scenario, self._server, first.address)
        back.serve(3)
        with scenario.check("it comes back, and the client goes on with it"):
            _wait_keys(watch, before, _FROM_1_TO_3)
            back.wait_acknowledged("3")

    def turns_for_what_it_lacks(self, scenario: Scenario) -> None:
        first = _Server(scenario, self._server)
        second = _Server(scenario, self._server)
        first.serve(1)
        second.serve(2)
        options = ("--fallback", second.address)
        watch = XdsWatch(scenario, self._xds, first.address, _NODE, _SUBSCRIPTIONS, options)
        with scenario.check("the first server serves, and says nothing of one name"):
            _wait_changes(watch, 0, snapshot=1)
            first.wait_acknowledged("1")
        before = watch.mark()
        first.kill()
        with scenario.check("it dies, and the second one is asked for that name and for everything else"):
            _wait_changes(watch, before, snapshot=2)
            second.wait_acknowledged("2")
        before = watch.mark()
        back = _Server(scenario, self._server, first.address)
        back.serve(3)
        with scenario.check("the first one comes back and serves, and the stream to the second one ends"):
            _wait_changes(watch, before, snapshot=3)
            back.wait_acknowledged("3")
            eventually("the end of the stream", lambda: _expect_closed(second), _RECONNECT_PATIENCE)

    def follows_over_rest(self, scenario: Scenario) -> None:
        server = _Server(scenario, self._server)
        server.serve(1)
        self._report.version = f"go-control-plane {server.version}"
        # Whatever names are asked for, the gateway answers with all of a type (and 304 as soon as the version
        # is the same): a name that is added later would wait for the next snapshot.
        watch = XdsWatch(scenario, self._xds, server.rest, _NODE, _SUBSCRIPTIONS, ("--poll", "100ms"))
        for snapshot in (1, 2, 3):
            before = watch.mark() if snapshot > 1 else 0
            with scenario.check(f"xds watch prints snapshot {snapshot}"):
                if snapshot > 1:
                    server.serve(snapshot)
                _wait_changes(watch, before, snapshot)
            with scenario.check(f"snapshot {snapshot}: each type is asked for again, and 304 changes nothing"):
                before, asked = watch.mark(), len(server.journal)

                def answered(after: int = asked) -> bool:
                    rest = [event for event in server.journal[after:] if event["event"] == "rest"]
                    polled = {event["path"] for event in rest if event["status"] == 304}
                    expect(len(polled) == len(TYPE_URLS), f"304 for {sorted(polled)}")
                    return True

                eventually("304 for each type", answered)
                _expect_no_resource(watch, before)
        with scenario.check("every answer was 200 or 304, and xds watch tells of no error"):
            statuses = {event["status"] for event in server.journal if event["event"] == "rest"}
            expect(statuses == {200, 304}, str(statuses))
            errors = [event for event in watch.events if event["event"] in ("ambient", "error")]
            expect(not errors, str(errors))
        with scenario.check("xds watch ends with exit code 0 when interrupted"):
            watch.stop_cleanly()

    def _world(self, scenario: Scenario, *options: str) -> _World:
        """The server with its first snapshot, and our client that watches it."""
        server = _Server(scenario, self._server)
        server.serve(1)
        watch = XdsWatch(scenario, self._xds, server.address, _NODE, _SUBSCRIPTIONS, options)
        return _World(server, watch)


def _expect_ambient(watch: XdsWatch, after: int) -> bool:
    expect(any(event["event"] == "ambient" for event in watch.events[after:]), "nothing was told")
    return True


def _expect_no_resource(watch: XdsWatch, after: int) -> None:
    """No resource was printed. What is not there may have got an error while the server was away."""
    printed = [event for event in watch.changes(after) if event["event"] != "error"]
    expect(not printed, str(printed))


def _first_requests(server: _Server) -> dict[str, Event]:
    """By type: the first request."""
    return {request["type_url"]: request for request in reversed(server.requests())}


def _delta_requests(server: _Server) -> list[Event]:
    return [event for event in server.journal if event["event"] == "delta_request"]


def _expect_stream_per_type(server: _Server) -> None:
    opened = [event["type_url"] for event in server.journal if event["event"] == "stream_open"]
    expect(sorted(opened) == sorted(TYPE_URLS.values()), f"streams: {sorted(opened)}")


def _expect_closed(server: _Server) -> bool:
    closed = [event for event in server.journal if event["event"] == "stream_closed"]
    expect(bool(closed), "the stream is open")
    return True


def _held_after(journal: list[Event]) -> dict[str, dict[str, str]]:
    """By type: what a client holds, with its versions, that took every response."""
    held: dict[str, dict[str, str]] = {}
    for event in journal:
        if event["event"] == "delta_response":
            of_type = held.setdefault(event["type_url"], {})
            of_type.update(event["resources"])
            for name in event["removed"]:
                of_type.pop(name, None)
    return {type_url: of_type for type_url, of_type in held.items() if of_type}


def _wait_keys(watch: XdsWatch, after: int, expected: set[tuple[str, str, str]]) -> None:
    """Waits until exactly these changes are printed, each once."""
    _wait_keys_among(watch, after, expected, expected)


def _wait_keys_among(
    watch: XdsWatch,
    after: int,
    expected: set[tuple[str, str, str]],
    possible: set[tuple[str, str, str]],
) -> None:
    """Waits until these changes are printed, each once, and perhaps others that are possible."""

    def printed() -> list[tuple[str, str, str]]:
        seen = [(event["event"], event["type"], event["name"]) for event in watch.changes(after)]
        expect(set(seen) >= expected, f"missing: {sorted(expected - set(seen))}, printed: {seen}")
        return seen

    keys = eventually("the changes", printed, _RECONNECT_PATIENCE)
    expect(len(keys) == len(set(keys)) and set(keys) <= possible, f"printed: {keys}")


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
        journal = settled("the journal of the server", lambda: world.server.journal, SILENCE)
        found = conversation.faults(journal, _NODE)
        expect(not found, "\n".join(found))
        late = world.watch.events[before:]
        expect(not late, f"printed although nothing happened: {late}")
