"""grpc-go, grpc-js and grpc-java as clients of `xds serve`: each an implementation of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from driver import load_reports, workspace
from driver.checks import PeerReport, Scenario, play
from driver.config_dir import ConfigDir
from driver.grpc_application import GrpcApplication
from driver.grpc_status_checks import check_status
from driver.processes import Argv
from driver.waiting import SILENCE, eventually, expect, settled
from driver.xds import TYPE_URLS, XdsServe

_TYPES = tuple(TYPE_URLS)


@dataclass(frozen=True)
class _Language:
    name: str
    prepare: Callable[[], Argv]
    # What its reason says of a listener whose routes have no config source.
    rejection: str
    # How it fails an RPC while it has rejected all that it was sent.
    failure: str = "UNAVAILABLE"
    # Whether the program tells its own view (CSDS).
    has_csds: bool = False


_LANGUAGES = (
    _Language("grpc-go", workspace.go_peer, "configSource is not ADS or Self", has_csds=True),
    # grpc-js does not tell its channel of a rejected first listener: RPCs wait.
    _Language("grpc-js", workspace.js_peer, "config_source.self both unset", "DEADLINE_EXCEEDED"),
    _Language("grpc-java", workspace.java_peer, "invalid RDS: missing config_source"),
)


def _run(language: _Language, report: PeerReport, run_dir: Path) -> None:
    """Prepares one implementation and plays its scenarios."""
    peer = _Peer(language, language.prepare(), workspace.xds_binary(), report)
    scenarios: dict[str, Callable[[Scenario], None]] = {
        f"{language.name}: a channel resolves its target, and follows the files": peer.follows_the_files,
        f"{language.name}: a listener turns bad and is repaired": peer.rejects_an_update,
        f"{language.name}: a listener is bad from the first response on": peer.rejects_the_first_response,
        f"{language.name}: the management server is killed and started again": peer.reconnects,
        f"{language.name}: load reports": peer.reports_load,
    }
    if language.has_csds:
        scenarios[f"{language.name}: xds status reads the client's own view"] = peer.shows_its_status
    play(report, run_dir, scenarios)


RUNS: dict[str, Callable[[PeerReport, Path], None]] = {
    language.name: partial(_run, language) for language in _LANGUAGES
}


@dataclass(frozen=True)
class _World:
    config: ConfigDir
    serve: XdsServe
    client: GrpcApplication


class _Peer:
    def __init__(self, language: _Language, argv: Argv, xds: Path, report: PeerReport) -> None:
        self._language = language
        self._argv = argv
        self._xds = xds
        self._report = report
        self._node = f"{language.name}-1"

    def follows_the_files(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        serve, client = world.serve, world.client
        self._report.version = f"{self._language.name} {client.version}"

        with scenario.check("a channel resolves xds:///svc and completes an RPC"):
            client.expect_answer("first")
        with scenario.check("xds serve has all four resources as ACKed, each by name"):
            rows = serve.wait_acked(*_TYPES)
            for row in rows.values():
                expect((row.node, row.subscribed) == (self._node, 1), str(row))
        if self._language.has_csds:
            with scenario.check("the client says the same of itself, at the same versions"):
                csds = client.csds()
                for name, row in rows.items():
                    expect((csds[name]["status"], csds[name]["version"]) == ("ACKED", row.acked), str(csds))
        with scenario.check("nothing is sent while nothing changes"):
            counters = settled("counters", serve.counters, SILENCE)
            expect(all(row == (1, 1, 0) for row in counters.values()), str(counters))
        rows = serve.settled()
        with scenario.check("a changed endpoint moves the RPCs, and none fails on the way"):
            world.config.replace("endpoints.yaml", "edits/endpoints-second.yaml")
            client.wait_answer("second")
        with scenario.check("only the endpoints were sent for it"):
            serve.wait_acked("eds", new_after=rows)
            serve.expect_sent(rows, eds=1)
        with scenario.check("xds serve ends with exit code 0 when asked to"):
            serve.stop_cleanly()

    def rejects_an_update(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        serve, client = world.serve, world.client
        client.expect_answer("first")
        serve.wait_acked(*_TYPES)
        good = serve.settled()

        with scenario.check("the reason of the NACK stands in the row of xds serve"):
            world.config.replace("listener.yaml", "edits/listener-without-source.yaml")
            row = serve.wait_row("lds", "NACKED", lambda row: row.state == "NACKED")
            expect(row.error and self._language.rejection in row.error, f"error: {row.error}")
            expect(row.acked == good["lds"].acked, f"the accepted version did not stay: {row}")
        with scenario.check("the rejected response is not sent again"):
            counters = settled("counters", serve.counters, SILENCE)
            expect(counters["lds"] == (2, 1, 1), str(counters))
        with scenario.check("RPCs go on with the accepted listener"):
            client.expect_answer("first")
        with scenario.check("the repaired listener is sent and accepted"):
            world.config.replace("listener.yaml", "edits/listener-repaired.yaml")
            row = serve.wait_row("lds", "ACKED", lambda row: row.state == "ACKED")
            expect(row.error is None and row.responses == 3, str(row))
            client.expect_answer("first")

    def rejects_the_first_response(self, scenario: Scenario) -> None:
        world = self._world(scenario, {"listener.yaml": "edits/listener-without-source.yaml"})
        serve, client = world.serve, world.client

        with scenario.check("no RPC gets through"):
            client.wait_failure(self._language.failure)
        with scenario.check("the reason stands in the row of xds serve, and nothing is accepted"):
            row = serve.wait_row("lds", "NACKED", lambda row: row.state == "NACKED")
            expect(row.error and self._language.rejection in row.error, f"error: {row.error}")
            expect(row.acked in ("", None), f"an accepted version is shown: {row}")
        with scenario.check("a rejected first response is not sent again either"):
            counters = settled("counters", serve.counters, SILENCE)
            expect(counters == {"lds": (1, 0, 1)}, str(counters))
        with scenario.check("the repaired listener lets the RPCs through"):
            world.config.replace("listener.yaml", "resources/listener.yaml")
            client.wait_recovery("first")
            serve.wait_acked(*_TYPES)

    def shows_its_status(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        rejection = ("edits/listener-without-source.yaml", self._language.rejection)
        check_status(scenario, self._xds, world.config, world.serve, world.client, rejection)

    def reconnects(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        client = world.client
        client.expect_answer("first")
        old = world.serve.wait_acked(*_TYPES)
        world.serve.kill()
        with scenario.check("RPCs go on without a management server"):
            client.expect_answer("first")
        serve = XdsServe(scenario, self._xds, world.config.path, world.serve.address)
        with scenario.check("the client comes back and subscribes to the same as before"):
            eventually("four types", lambda: set(serve.rows()) == set(_TYPES), 40.0)
            for name, row in serve.settled().items():
                expect((row.node, row.subscribed) == (self._node, 1), str(row))
                expect(row.state != "NACKED" and row.nacks == 0, str(row))
                expect(row.sent in ("", None, old[name].sent), f"{row}; before: {old[name]}")
        with scenario.check("the new server's edits arrive"):
            world.config.replace("endpoints.yaml", "edits/endpoints-second.yaml")
            client.wait_answer("second")

    def reports_load(self, scenario: Scenario) -> None:
        world = self._world(scenario, load_reports.INSTEAD, load_reports.FLAGS)
        load_reports.check_reports(scenario, world.serve, world.client, self._node)

    def _world(
        self, scenario: Scenario, instead: dict[str, str | None] | None = None, flags: Sequence[str] = ()
    ) -> _World:
        # All of them read the file when they make their first channel, and where it is much earlier.
        bootstrap = scenario.directory / "bootstrap.json"
        client = GrpcApplication(scenario, ["env", f"GRPC_XDS_BOOTSTRAP={bootstrap}", *self._argv])
        values: dict[str, object] = {f"{name}_port": port for name, port in client.ports.items()}
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "grpc", values)
        config.fill(instead)
        serve = XdsServe(scenario, self._xds, config.path, flags=flags)
        server = {
            "server_uri": serve.address,
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }
        # grpc-js does without neither the cluster nor the locality.
        here = {"region": "here", "zone": "a", "sub_zone": "1"}
        node = {"id": self._node, "cluster": "interop", "locality": here}
        bootstrap.write_text(json.dumps({"xds_servers": [server], "node": node}), encoding="utf-8")
        client.connect()
        return _World(config, serve, client)
