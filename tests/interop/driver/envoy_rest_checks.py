"""Envoy as the client of `xds serve` over REST-JSON: no stream, a request for each type again and again."""

from __future__ import annotations

from driver.checks import Scenario
from driver.envoy_world import REST, Programs
from driver.waiting import SILENCE, eventually, expect, stays
from driver.xds import XdsServe

# Where Envoy counts what came of its requests for each type.
_STATS = {
    "lds": "listener_manager.lds",
    "rds": "http.ingress.rds.routes",
    "cds": "cluster_manager.cds",
    "eds": "cluster.blue",
}
_CDS = _STATS["cds"]


def follows_over_rest(scenario: Scenario, programs: Programs) -> None:
    """Start, changes, a rejection, a restart of the server."""
    with programs.world(scenario, REST) as world:
        config, envoy = world.config, world.envoy
        with scenario.check("Envoy has everything it waits for at its start"):
            envoy.wait_live()
        with scenario.check("it counts an accepted and no rejected response of each type"):
            for type_name, prefix in _STATS.items():
                envoy.wait_stat(f"{prefix}.update_success", 1)
                expect(envoy.stat(f"{prefix}.update_rejected") == 0, f"{type_name} was rejected")
        with scenario.check("an HTTP request through Envoy reaches the backend of the route"):
            envoy.wait_fetch("blue")
        with scenario.check("that there is nothing new is an answer, and no failure"):
            attempts = envoy.stat(f"{_CDS}.update_attempt")
            eventually("more requests", lambda: envoy.stat(f"{_CDS}.update_attempt") >= attempts + 2)
            for type_name, prefix in _STATS.items():
                expect(envoy.stat(f"{prefix}.update_failure") == 0, f"{type_name} failed")
        with scenario.check("and nothing is applied meanwhile"):
            stays("applied", lambda: envoy.stat(f"{_CDS}.update_success"), SILENCE)
        with scenario.check("renaming a new route file over the old one moves the traffic"):
            config.replace("routes.yaml", "edits/routes-to-green.yaml")
            envoy.wait_fetch("green")
        with scenario.check("an endpoint added to the file gets its share of the traffic"):
            config.replace("routes.yaml", "resources/routes.yaml")
            config.replace("endpoints.yaml", "edits/endpoints-blue-grown.yaml")
            envoy.wait_fetch("blue", "green")
            config.replace("endpoints.yaml", "resources/endpoints.yaml")
            envoy.wait_fetch("blue")
        with scenario.check("a cluster that Envoy rejects leaves the accepted ones in use"):
            config.replace("clusters.yaml", "edits/clusters-green-invalid.yaml")
            envoy.wait_stat(f"{_CDS}.update_rejected", 1)
            envoy.wait_fetch("blue")
        with scenario.check("the repaired cluster is accepted and used"):
            config.replace("clusters.yaml", "edits/clusters-green-repaired.yaml")

            def repaired() -> bool:
                cluster = envoy.cluster("green")
                return cluster is not None and cluster["connect_timeout"] == "3s"

            eventually("the repaired cluster in use", repaired)
        with scenario.check("a file that is deleted takes its clusters away"):
            config.replace("yellow.json", "edits/yellow.json")
            eventually("yellow there", lambda: envoy.cluster("yellow") is not None)
            config.remove("yellow.json")
            eventually("yellow gone", lambda: envoy.cluster("yellow") is None)
        world.serve.kill()
        with scenario.check("traffic goes on without a management server"):
            eventually("failures", lambda: envoy.stat(f"{_CDS}.update_failure") > 0)
            envoy.wait_fetch("blue")
        XdsServe(
            scenario,
            programs.xds,
            world.config.path,
            world.serve.address,
            streams=REST.streams,
            rest=world.serve.rest,
        )
        with scenario.check("the edits of a server that was started again arrive"):
            config.replace("routes.yaml", "edits/routes-to-green.yaml")
            envoy.wait_fetch("green")
