"""Envoy reports the load of its clusters to `xds serve`."""

from __future__ import annotations

import json

from driver import load_reports, workspace
from driver.checks import Scenario
from driver.config_dir import ConfigDir
from driver.envoy_world import NODE, SOTW_ADS, Programs, resource_values
from driver.http_backend import HttpBackend
from driver.waiting import eventually, settled
from driver.xds import XdsServe

_REQUESTS = 20
_LOAD_STATS = {
    "api_type": "GRPC",
    "transport_api_version": "V3",
    "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
}


_TWO_REPORTS = 2.5


def reports_load(scenario: Scenario, programs: Programs) -> None:
    """Requests through Envoy, and the load that it reports of them."""
    with HttpBackend("blue") as blue, HttpBackend("green") as green:
        values = resource_values(SOTW_ADS, blue_port=blue.port, green_port=green.port)
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
        config.fill()
        more = f"cluster_manager:\n  load_stats_config: {json.dumps(_LOAD_STATS)}\n"
        serve, envoy = programs.start(scenario, config.path, flags=load_reports.FLAGS, bootstrap=more)
        envoy.wait_fetch("blue")
        with scenario.check(f"{_REQUESTS} requests are reported to xds serve"):
            # What Envoy counted before the server asked for reports is not in any.
            eventually("a first report", lambda: envoy.fetch() and _issued(serve) > 0)
            before = settled("reported", lambda: _issued(serve), _TWO_REPORTS)
            for _ in range(_REQUESTS):
                envoy.fetch()
            total = before + _REQUESTS
            load_reports.wait_for(serve, "blue", NODE, {"issued": total, "succeeded": total, "region ": total})


def _issued(serve: XdsServe) -> int:
    return load_reports.sums(serve, "blue", NODE)["issued"]
