"""Ours and Envoy have the same routes from our server: they send the same calls to the same clusters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.config_dir import ConfigDir
from driver.differential import resources
from driver.envoy import Envoy
from driver.envoy_world import SOTW_ADS, Programs, envoy_program, resource_values
from driver.http_calls import Answer, HttpCall, make_calls
from driver.http_load import LoadThread
from driver.processes import EventProcess
from driver.routing.compare import Outcome, but, expect_same, expect_shares, told
from driver.routing.envoy import Differences, differences, envoy_tables, without_rejected
from driver.routing.explained import expect_explained, expect_shares_explained
from driver.routing.tables import CALLS, CLUSTERS, Table
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

NAME = "envoy-routing"

_REJECTED = "http.ingress.rds.routes.update_rejected"
_PATIENCE = 60.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Plays every table: our server sends it to Envoy and to our client."""
    _, envoy = envoy_program()
    programs = Programs(workspace.xds_binary(), envoy)
    client = workspace.example("interop-client")

    def body(scenario: Scenario) -> None:
        with LoadThread(*CLUSTERS) as backends:
            ports = {name: backend.port for name, backend in backends.backends.items()}
            stage = _Stage(scenario, programs, client, ports)
            report.version = f"Envoy {stage.envoy.version()}"
            known, unused = differences(), set(differences())
            for number, table in enumerate(envoy_tables(), start=1):
                unused.discard(table.about)
                stage.play(table, number, known.get(table.about, Differences()))
            with scenario.check("every difference that is listed is of a table"):
                expect(not unused, f"there is no table {sorted(unused)}")
            stage.play_authorities(len(envoy_tables()) + 1)

    play(report, run_dir, {f"{NAME}: where calls go": body})


class _Stage:
    """Our server, Envoy and our client, which both follow the same routes."""

    def __init__(self, scenario: Scenario, programs: Programs, client: Path, ports: dict[str, int]) -> None:
        self._scenario = scenario
        self._names = {port: name for name, port in ports.items()}
        directory = scenario.directory / "resources"
        self._config = ConfigDir(directory, workspace.CONFIG / "envoy", resource_values(SOTW_ADS))
        # Envoy listens where it wants, and passes over the listener of clients; ours asks for that one only.
        self._config.replace("ingress.yaml", "resources/listener.yaml")
        self._put("svc", resources.listener())
        self._put("clusters", *map(resources.cluster, CLUSTERS))
        self._put("endpoints", *(resources.endpoints(name, port) for name, port in ports.items()))
        self._put_routes(Table("nothing yet", []), 0)
        serve, self.envoy = programs.start(scenario, self._config.path)
        self._client = scenario.spawn(EventProcess, "ours", [client])
        self._tell(command="open", servers=[serve.address], node="ours")
        self._tell(command="follow", authority="svc")
        with scenario.check("Envoy and ours have their configuration from our server"):
            self.envoy.wait_live()
            self._port = self.envoy.listener_port()
            self._wait_used(Table("nothing yet", []), 0)

    def play(self, table: Table, number: int, difference: Differences) -> None:
        """One table, and the calls by it."""
        check = self._scenario.check
        if difference.rejects:
            rejected = self.envoy.stat(_REJECTED)
            self._put_routes(table, 1000 + number)
            with check(f"{table.about}: Envoy rejects the table, for {difference.rejects!r}, and is sent it without"):
                self.envoy.wait_stat(_REJECTED, rejected + 1)
            table = without_rejected(table, difference)
        self._put_routes(table, number)
        self._wait_used(table, number)
        calls = table.calls()
        ours, theirs = self._decided(calls), self._made(calls)
        if table.shares:
            with check(f"{table.about}: of {CALLS} calls, Envoy sends {told(theirs)}, and both are within bounds"):
                expect_shares("ours", ours, table.shares)
                expect_shares("Envoy", theirs, table.shares)
            with check(f"{table.about}: `xds route explain` has the same shares, by the rules of both"):
                for rules in ("envoy", "grpc"):
                    expect_shares_explained(self._config.path, rules, calls[0], table.shares)
            return
        with check(f"{table.about}: {CALLS} calls, of which Envoy sends {told(theirs)}{but(difference.calls)}"):
            expect_same(calls, ours, "Envoy", theirs, difference.calls)
        with check(f"{table.about}: `xds route explain` agrees with Envoy and with ours on each call"):
            for rules, outcomes in (("envoy", theirs), ("grpc", ours)):
                expect_explained(self._config.path, rules, calls, outcomes)

    def play_authorities(self, number: int) -> None:
        """Which virtual host is for a name: other names than the one that all else is for."""
        domains = {"*": "a", "svc": "b", "svc:80": "c", "*.example": "d", "svc.*": "e"}
        table = Table("names of targets", [], domains=domains)
        self._put_routes(table, number)
        self._wait_used(table, number)
        call = {"path": "/s/m", "metadata": []}
        found: dict[str, tuple[Outcome, Outcome]] = {}
        for authority in "svc SVC svc:80 svc:81 svc.example svc.x svc.x:80 .example a.b.example".split():
            self._tell(command="follow", authority=authority)
            [ours] = eventually("routes of ours", lambda: self._settled(call))
            found[authority] = ours, self._outcome(make_calls(self._port, authority, [HttpCall("/s/m", ())])[0])
        listed = ", ".join(f"{authority} {theirs}" for authority, (_, theirs) in found.items())
        with self._scenario.check(f"{table.about}, with ports or without: both choose {listed}"):
            expect(all(ours == theirs for ours, theirs in found.values()), str(found))
        with self._scenario.check(f"{table.about}: `xds route explain` agrees with both"):
            for authority, (ours, theirs) in found.items():
                for rules, outcome in (("envoy", theirs), ("grpc", ours)):
                    expect_explained(self._config.path, rules, [call], [outcome], authority)

    def _settled(self, call: dict[str, Any]) -> list[Outcome] | None:
        """What ours decides, once it has routes."""
        decided = self._decided([call])
        return decided if isinstance(decided[0], str) else None

    def _put(self, name: str, *documents: resources.Resource) -> None:
        self._config.put(f"{name}.json", json.dumps(documents))

    def _put_routes(self, table: Table, number: int) -> None:
        hosts = table.virtual_hosts(number)
        self._put("routes", {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": hosts})

    def _wait_used(self, table: Table, number: int) -> None:
        marks = [{"path": path, "metadata": []} for path in table.marks(number)]
        for who, send in (("ours", self._decided), ("Envoy", self._made)):
            eventually(f"{who} uses {table.about}", lambda send=send: send(marks) == list(CLUSTERS))

    def _decided(self, calls: Sequence[dict[str, Any]]) -> list[Outcome]:
        """Where ours would send calls."""
        mark = len(self._client.events)
        self._tell(command="decide", calls=calls)
        done = self._client.wait_event("decisions", lambda event: event["event"] == "decide", mark, _PATIENCE)
        return [self._names.get(made.get("port", 0), made.get("code", "?")) for made in done["outcomes"]]

    def _made(self, calls: Sequence[dict[str, Any]]) -> list[Outcome]:
        """Where Envoy sends calls."""
        made = [HttpCall(call["path"], tuple((name, value) for name, value in call["metadata"])) for call in calls]
        return [self._outcome(answer) for answer in make_calls(self._port, "svc", made)]

    def _outcome(self, answer: Answer) -> Outcome:
        if answer.code is not None:
            return answer.code
        return answer.body if answer.status == 200 else f"HTTP {answer.status}"

    def _tell(self, **words: object) -> None:
        self._client.tell(json.dumps(words))
