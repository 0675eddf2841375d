"""gRPC C-core, through Python, as the client of `xds serve`: named subscriptions of all four types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from driver import load_reports, workspace
from driver.checks import PeerReport, Scenario, play
from driver.config_dir import ConfigDir
from driver.grpc_application import GrpcApplication
from driver.grpc_status_checks import check_status
from driver.processes import Argv
from driver.waiting import SILENCE, eventually, expect, settled
from driver.xds import TYPE_URLS, XdsServe

NAME = "grpc"

_NODE = "grpc-1"
_TYPES = tuple(TYPE_URLS)
_REJECTION = "expected at least one HTTP filter"


def run(report: PeerReport, run_dir: Path) -> None:
    """Prepares gRPC and plays its scenarios."""
    python = workspace.virtual_environment("grpc")
    peer = _GrpcPeer(workspace.xds_binary(), python, report)
    play(
        report,
        run_dir,
        {
            "grpc: a channel resolves its target, and follows the files": peer.follows_the_files,
            "grpc: a listener turns bad and is repaired": peer.rejects_an_update,
            "grpc: a listener is bad from the first response on": peer.rejects_the_first_response,
            "grpc: a listener appears, goes and comes back": peer.waits_for_a_listener,
            "grpc: xds status reads the client's own view": peer.shows_its_status,
            "grpc: the management server is killed and started again": peer.reconnects,
            "grpc: load reports": peer.reports_load,
        },
    )


@dataclass(frozen=True)
class _World:
    config: ConfigDir
    serve: XdsServe
    client: GrpcApplication


class _GrpcPeer:
    def __init__(self, xds: Path, python: Path, report: PeerReport) -> None:
        self._xds = xds
        self._python = python
        self._report = report

    def follows_the_files(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        serve, client = world.serve, world.client
        self._report.version = f"C-core {client.version} (Python)"

        with scenario.check("a channel resolves xds:///svc and completes an RPC"):
            client.expect_answer("first")
        with scenario.check("the client says itself that it accepted all four resources"):
            csds = client.csds()
            statuses = {name: resource["status"] for name, resource in csds.items()}
            expect(statuses == dict.fromkeys(_TYPES, "ACKED"), str(statuses))
        with scenario.check("xds serve has them as ACKed by name, at the versions that the client has"):
            rows = serve.wait_acked(*_TYPES)
            for name, row in rows.items():
                expect((row.node, row.subscribed) == (_NODE, 1), str(row))
                expect(row.acked == csds[name]["version"], f"{row}; the client has {csds[name]}")
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
            world.config.replace("listener.yaml", "edits/listener-without-filters.yaml")
            row = serve.wait_row("lds", "NACKED", lambda row: row.state == "NACKED")
            expect(row.error and _REJECTION in row.error, f"error: {row.error}")
            expect(row.acked == good["lds"].acked, f"the accepted version did not stay: {row}")
        with scenario.check("the client says the same of itself"):
            listener = client.csds()["lds"]
            expect(listener["status"] == "NACKED" and _REJECTION in listener["error"], str(listener))
        with scenario.check("the rejected response is not sent again"):
            counters = settled("counters", serve.counters, SILENCE)
            expect(counters["lds"] == (2, 1, 1), str(counters))
        with scenario.check("RPCs go on with the accepted listener"):
            client.expect_answer("first")
        with scenario.check("the repaired listener is sent and accepted"):
            world.config.replace("listener.yaml", "edits/listener-repaired.yaml")
            row = serve.wait_row("lds", "ACKED", lambda row: row.state == "ACKED")
            expect(row.error is None and row.responses == 3, str(row))
            eventually("ACKED in the client", lambda: client.csds()["lds"]["status"] == "ACKED")
            client.expect_answer("first")

    def rejects_the_first_response(self, scenario: Scenario) -> None:
        world = self._world(scenario, {"listener.yaml": "edits/listener-without-filters.yaml"})
        serve, client = world.serve, world.client

        with scenario.check("an RPC fails with the client's own reason"):
            details = client.wait_failure()
            expect(_REJECTION in details, f"details: {details}")
        with scenario.check("the same reason stands in the row of xds serve, and nothing is accepted"):
            row = serve.wait_row("lds", "NACKED", lambda row: row.state == "NACKED")
            expect(row.error and _REJECTION in row.error, f"error: {row.error}")
            expect(row.acked in ("", None), f"an accepted version is shown: {row}")
        with scenario.check("a rejected first response is not sent again either"):
            counters = settled("counters", serve.counters, SILENCE)
            expect(counters == {"lds": (1, 0, 1)}, str(counters))
        with scenario.check("the repaired listener lets the RPCs through"):
            world.config.replace("listener.yaml", "resources/listener.yaml")
            client.wait_recovery("first")
            serve.wait_acked(*_TYPES)

    def waits_for_a_listener(self, scenario: Scenario) -> None:
        listener = "listener.yaml"
        world = self._world(scenario, {listener: None})
        config, serve, client = world.config, world.serve, world.client
        with scenario.check("an RPC waits for a listener that does not exist yet, and is answered then"):
            call = client.begin_call()
            row = serve.wait_row("lds", "subscribed", lambda row: row.subscribed == 1)
            expect(row.nacks == 0, str(row))
            config.replace(listener, f"resources/{listener}")
            answer = client.end_call(call)
            expect(answer["backend"] == "first", str(answer))
        with scenario.check("a listener that goes takes the RPCs with it"):
            client.expect_answer("first")
            rows = serve.wait_acked(*_TYPES)
            config.remove(listener)
            client.wait_failure()
            serve.wait_acked("lds", new_after=rows)
        with scenario.check("a listener that comes back lets them through again"):
            config.replace(listener, f"resources/{listener}")
            client.wait_recovery("first")
            serve.wait_acked(*_TYPES)

    def shows_its_status(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        rejection = ("edits/listener-without-filters.yaml", _REJECTION)
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
                expect((row.node, row.subscribed) == (_NODE, 1), str(row))
                expect(row.state != "NACKED" and row.nacks == 0, str(row))
                expect(row.sent in ("", None, old[name].sent), f"{row}; before: {old[name]}")
        with scenario.check("the new server's edits arrive"):
            world.config.replace("endpoints.yaml", "edits/endpoints-second.yaml")
            client.wait_answer("second")

    def reports_load(self, scenario: Scenario) -> None:
        world = self._world(scenario, load_reports.INSTEAD, load_reports.FLAGS)
        load_reports.check_reports(scenario, world.serve, world.client, _NODE)

    def _world(
        self, scenario: Scenario, instead: dict[str, str | None] | None = None, flags: Sequence[str] = ()
    ) -> _World:
        # Isolated, so that nothing of this driver's path gets into the peer.
        argv: Argv = [self._python, "-I", "-B", workspace.INTEROP / "grpc-python" / "peer.py"]
        client = GrpcApplication(scenario, argv)
        values: dict[str, object] = {f"{name}_port": port for name, port in client.ports.items()}
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "grpc", values)
        config.fill(instead)
        serve = XdsServe(scenario, self._xds, config.path, flags=flags)
        client.connect(server=serve.address, node=_NODE)
        return _World(config, serve, client)
