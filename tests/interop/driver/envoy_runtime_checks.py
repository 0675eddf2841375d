"""Envoy as the client of a server on async-std, with a stream for each type."""

from __future__ import annotations

import json
import signal

from driver import workspace
from driver.checks import Scenario
from driver.config_dir import ConfigDir, render
from driver.envoy import Envoy
from driver.envoy_world import NODE, Programs, Transport, resource_values
from driver.http_backend import HttpBackend
from driver.processes import Process
from driver.waiting import SILENCE, eventually, expect, stays

# Envoy's backoff is random, up to 30 s after some failures.
_RETURN = 40.0
_STATS = {
    "lds": "listener_manager.lds",
    "rds": "http.ingress.rds.routes",
    "cds": "cluster_manager.cds",
    "eds": "cluster.blue",
}


def follows_async_std(scenario: Scenario, programs: Programs, transport: Transport) -> None:
    """Start, changes, a rejection, a restart of the server."""
    program = workspace.example("serve_directory", "xds-asyncstd")
    with HttpBackend("blue") as blue, HttpBackend("green") as green:
        values = resource_values(transport, blue_port=blue.port, green_port=green.port)
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
        config.fill()
        server = scenario.spawn(Process, "serve-directory", [program, config.path, "127.0.0.1:0"])
        address = _address(server)
        bootstrap = render(
            workspace.CONFIG / "envoy" / "bootstrap.yaml",
            {
                "node": NODE,
                "xds_port": int(address.rpartition(":")[2]),
                "dynamic_resources": json.dumps(transport.dynamic_resources()),
                "layered_runtime": json.dumps({"layers": []}),
            },
        )
        envoy = Envoy(scenario, programs.envoy, bootstrap, 1)
        with scenario.check("Envoy has everything it waits for at its start"):
            envoy.wait_live()
        with scenario.check("it counts one accepted and no rejected response of each type"):
            for type_name, prefix in _STATS.items():
                envoy.wait_stat(f"{prefix}.update_success", 1)
                expect(envoy.stat(f"{prefix}.update_rejected") == 0, f"{type_name} was rejected")
        with scenario.check("an HTTP request through Envoy reaches the backend of the route"):
            envoy.wait_fetch("blue")
        with scenario.check("nothing is sent while nothing changes"):
            stays("accepted", lambda: [envoy.stat(f"{it}.update_success") for it in _STATS.values()], SILENCE)
        with scenario.check("renaming a new route file over the old one moves the traffic"):
            config.replace("routes.yaml", "edits/routes-to-green.yaml")
            envoy.wait_fetch("green")
        with scenario.check("a cluster that Envoy rejects is sent once, and leaves the accepted ones in use"):
            config.replace("clusters.yaml", "edits/clusters-green-invalid.yaml")
            envoy.wait_stat("cluster_manager.cds.update_rejected", 1)
            stays("rejected", lambda: envoy.stat("cluster_manager.cds.update_rejected"), SILENCE)
            envoy.wait_fetch("green")
        with scenario.check("the repaired cluster is accepted and used"):
            config.replace("clusters.yaml", "edits/clusters-green-repaired.yaml")

            def repaired() -> bool:
                cluster = envoy.cluster("green")
                return cluster is not None and cluster["connect_timeout"] == "3s"

            eventually("the repaired cluster in use", repaired)
        server.stop(signal.SIGKILL)
        with scenario.check("traffic goes on without a management server"):
            envoy.wait_stat("control_plane.connected_state", 0)
            envoy.wait_fetch("green")
        scenario.spawn(Process, "serve-directory-again", [program, config.path, address])
        with scenario.check("the edits of a server that was started again arrive"):
            config.replace("routes.yaml", "resources/routes.yaml")
            eventually("back", lambda: envoy.fetch() == "blue", _RETURN)


def _address(server: Process) -> str:
    def probe() -> str | None:
        server.expect_running()
        said = [line for line in server.lines if line.startswith("serving on ")]
        return said[0].removeprefix("serving on ") if said else None

    return str(eventually("an address", probe))
