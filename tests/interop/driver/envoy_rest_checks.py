"""Envoy as the client of `xds serve` over REST-JSON: no stream, a request for each type again and again."""

from __future__ import annotations

from driver.checks import Scenario
from driver.envoy_following import CDS, STATS, Following
from driver.envoy_world import REST, Programs
from driver.waiting import eventually, expect
from driver.xds import XdsServe


def follows_over_rest(scenario: Scenario, programs: Programs) -> None:
    """Start, changes, a rejection, a restart of the server."""
    with programs.world(scenario, REST) as world:
        config, envoy = world.config, world.envoy
        following = Following(scenario, envoy, config)
        following.starts()
        with scenario.check("that there is nothing new is an answer, and no failure"):
            attempts = envoy.stat(f"{CDS}.update_attempt")
            eventually("more requests", lambda: envoy.stat(f"{CDS}.update_attempt") >= attempts + 2)
            for type_name, prefix in STATS.items():
                expect(envoy.stat(f"{prefix}.update_failure") == 0, f"{type_name} failed")
        following.is_silent()
        following.moves_routes()
        with scenario.check("an endpoint added to the file gets its share of the traffic"):
            config.replace("endpoints.yaml", "edits/endpoints-blue-grown.yaml")
            envoy.wait_fetch("blue", "green")
            config.replace("endpoints.yaml", "resources/endpoints.yaml")
            envoy.wait_fetch("blue")
        following.rejects()
        following.recovers()
        with scenario.check("a file that is deleted takes its clusters away"):
            config.replace("yellow.json", "edits/yellow.json")
            eventually("yellow there", lambda: envoy.cluster("yellow") is not None)
            config.remove("yellow.json")
            eventually("yellow gone", lambda: envoy.cluster("yellow") is None)
        world.serve.kill()
        following.goes_on_alone(lambda: envoy.stat(f"{CDS}.update_failure") > 0)
        XdsServe(
            scenario,
            programs.xds,
            world.config.path,
            world.serve.address,
            streams=REST.streams,
            rest=world.serve.rest,
        )
        following.comes_back()
