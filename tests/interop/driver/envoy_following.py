"""What Envoy does with the files of a management server, whichever way they reach it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from driver.checks import Scenario
from driver.config_dir import ConfigDir
from driver.envoy import Envoy
from driver.waiting import SILENCE, eventually, expect, stays

# Where Envoy counts what came of each type.
STATS = {
    "lds": "listener_manager.lds",
    "rds": "http.ingress.rds.routes",
    "cds": "cluster_manager.cds",
    "eds": "cluster.blue",
}
CDS = STATS["cds"]
# Envoy's backoff is random, up to 30 s after some failures.
_RETURN = 40.0


@dataclass(frozen=True)
class Following:
    """An Envoy, and the files that its server follows."""

    scenario: Scenario
    envoy: Envoy
    config: ConfigDir

    def starts(self) -> None:
        """Everything arrives, and the first request finds its way."""
        with self.scenario.check("Envoy has everything it waits for at its start"):
            self.envoy.wait_live()
        with self.scenario.check("it counts an accepted and no rejected response of each type"):
            for type_name, prefix in STATS.items():
                self.envoy.wait_stat(f"{prefix}.update_success", 1)
                expect(self.envoy.stat(f"{prefix}.update_rejected") == 0, f"{type_name} was rejected")
        with self.scenario.check("an HTTP request through Envoy reaches the backend of the route"):
            self.envoy.wait_fetch("blue")

    def is_silent(self) -> None:
        """Nothing is applied while nothing changes."""
        with self.scenario.check("nothing is applied while nothing changes"):
            stays("applied", lambda: [self.envoy.stat(f"{it}.update_success") for it in STATS.values()], SILENCE)

    def moves_routes(self) -> None:
        """A change of routes is seen in the traffic, and so is its end."""
        with self.scenario.check("renaming a new route file over the old one moves the traffic"):
            self.config.replace("routes.yaml", "edits/routes-to-green.yaml")
            self.envoy.wait_fetch("green")
            self.config.replace("routes.yaml", "resources/routes.yaml")
            self.envoy.wait_fetch("blue")

    def rejects(self) -> None:
        """What Envoy rejects does no harm, and is counted."""
        with self.scenario.check("a cluster that Envoy rejects leaves the accepted ones in use"):
            self.config.replace("clusters.yaml", "edits/clusters-green-invalid.yaml")
            self.envoy.wait_stat(f"{CDS}.update_rejected", 1)
            self.envoy.wait_fetch("blue")

    def recovers(self) -> None:
        """The repaired cluster takes the place of the rejected one."""
        with self.scenario.check("the repaired cluster is accepted and used"):
            self.config.replace("clusters.yaml", "edits/clusters-green-repaired.yaml")

            def repaired() -> bool:
                cluster = self.envoy.cluster("green")
                return cluster is not None and cluster["connect_timeout"] == "3s"

            eventually("the repaired cluster in use", repaired)

    def goes_on_alone(self, is_alone: Callable[[], bool]) -> None:
        """Without a management server, once that shows, the traffic stays as it is."""
        with self.scenario.check("traffic goes on without a management server"):
            eventually("nobody answers", is_alone)
            self.envoy.wait_fetch("blue")

    def comes_back(self) -> None:
        """A server that was started again is found."""
        with self.scenario.check("the edits of a server that was started again arrive"):
            self.config.replace("routes.yaml", "edits/routes-to-green.yaml")
            eventually("back", lambda: self.envoy.fetch() == "green", _RETURN)
