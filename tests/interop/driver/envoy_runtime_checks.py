"""Envoy as the client of a server on async-std, with a stream for each type."""

from __future__ import annotations

import json
import signal

from driver import workspace
from driver.checks import Scenario
from driver.config_dir import ConfigDir, render
from driver.envoy import Envoy
from driver.envoy_following import CDS, Following
from driver.envoy_world import NODE, Programs, Transport, resource_values
from driver.http_backend import HttpBackend
from driver.processes import Process
from driver.waiting import SILENCE, eventually, stays


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
        following = Following(scenario, envoy, config)
        following.starts()
        following.is_silent()
        following.moves_routes()
        following.rejects()
        with scenario.check("and it is sent once"):
            stays("rejected", lambda: envoy.stat(f"{CDS}.update_rejected"), SILENCE)
        following.recovers()
        server.stop(signal.SIGKILL)
        following.goes_on_alone(lambda: envoy.stat("control_plane.connected_state") == 0)
        scenario.spawn(Process, "serve-directory-again", [program, config.path, address])
        following.comes_back()


def _address(server: Process) -> str:
    def probe() -> str | None:
        server.expect_running()
        said = [line for line in server.lines if line.startswith("serving on ")]
        return said[0].removeprefix("serving on ") if said else None

    return str(eventually("an address", probe))
