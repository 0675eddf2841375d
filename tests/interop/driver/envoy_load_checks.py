"""Envoy under an HTTP load while its configuration changes: make before break, seen by who sends requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from driver import workspace
from driver.checks import Scenario, comment
from driver.config_dir import ConfigDir
from driver.envoy import Envoy
from driver.envoy_world import Programs, Transport, resource_values
from driver.http_load import LoadThread
from driver.waiting import eventually, expect
from driver.xds import Ordering

# The first one must not cost a request; the second one shows what it is worth.
_CHANGES = {Ordering.MAKE_BEFORE_BREAK: 200, Ordering.OFF: 40}
# Of so many changes the last ones come in a burst: the next one as soon as `xds serve` has taken one over,
# wherever Envoy is then. All others wait until Envoy has arrived.
_ROUND, _BURST = 20, 5
COLORS = ("blue", "green")


def changes_under_load(programs: Programs, transport: Transport) -> dict[str, Callable[[Scenario], None]]:
    """The stories of one variant of the protocol: with make before break, and for comparison without."""

    def play(scenario: Scenario, ordering: Ordering) -> None:
        with LoadThread(*COLORS) as load:
            _Changes(scenario, programs, transport, ordering, load).play()

    return {
        f"{changes} changes under load, --ordering {ordering.value}": partial(play, ordering=ordering)
        for ordering, changes in _CHANGES.items()
    }


class _Changes:
    def __init__(
        self,
        scenario: Scenario,
        programs: Programs,
        transport: Transport,
        ordering: Ordering,
        load: LoadThread,
    ) -> None:
        ports = {f"{name}_port": backend.port for name, backend in load.backends.items()}
        values = resource_values(transport, generation=0, **ports)
        self._config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
        self._config.replace("listener.yaml", "resources/listener.yaml")
        self._config.replace("generation.yaml", "edits/generation.yaml")
        self._scenario = scenario
        self._ordering = ordering
        self._load = load
        self._serve, self._envoy = programs.start(
            scenario, self._config.path, transport, ordering=ordering, workers=2
        )

    def play(self) -> None:
        """Makes all changes, and looks at what became of the requests."""
        scenario, envoy, load = self._scenario, self._envoy, self._load
        with scenario.check("the first generation of clusters is in use"):
            envoy.wait_live()
            eventually("generation 0", lambda: generations(envoy) == {"0"})
        load.start(envoy.listener_port(), kept=4, new=3, slow=6)
        changes = _CHANGES[self._ordering]
        awaited = changes // _ROUND * (_ROUND - _BURST + 1)
        with scenario.check(f"{changes} changes arrive, each in one piece and with requests in flight"):
            began = time.monotonic()
            outlived = sum(self._change(generation) for generation in range(1, changes + 1))
            seconds = time.monotonic() - began
            tally = load.stop()
            comment(f"--ordering {self._ordering.value}: {tally}")
            comment(
                f"{changes} changes in {seconds:.0f} s; in {outlived} of the {awaited} that were waited for a"
                " request from before was not answered yet when its cluster was gone"
            )
        with scenario.check("Envoy has rejected nothing"):
            for name in ("cluster_manager.cds", "http.ingress.rds.routes"):
                expect(envoy.stat(f"{name}.update_rejected") == 0, f"{name} was rejected")
        if self._ordering is Ordering.MAKE_BEFORE_BREAK:
            with scenario.check("not one request failed"):
                expect(tally.failed == 0, str(tally))
                # Were it otherwise, it would not have been tried.
                expect(outlived > awaited / 2, f"few requests were on a cluster that went: {outlived}")

    def _change(self, generation: int) -> bool:
        """Makes one change; whether a request from before it was unanswered when Envoy had arrived."""
        self._load.wait_for_a_request()
        serve, mark, began = self._serve, self._serve.mark(), time.monotonic()
        self._config.set("generation", generation)
        self._config.replace("generation.yaml", "edits/generation.yaml")
        reload = serve.wait("reloaded", mark)
        # Two clusters, their endpoints and the routes; and the clusters and endpoints before them.
        expect((reload["changed"], reload["removed"]) == (5, 4), f"change {generation}: {reload}")
        if generation % _ROUND > _ROUND - _BURST:
            return False
        eventually(f"generation {generation}", lambda: generations(self._envoy) == {str(generation)})
        oldest = self._load.oldest_in_flight()
        return oldest is not None and oldest < began


def generations(envoy: Envoy) -> set[str]:
    """The generations that Envoy still has or already has something of."""
    clusters = [name for name in envoy.clusters() if name.startswith(COLORS)]
    return routed_generations(envoy) | {name.rpartition("-")[2] for name in clusters}


def routed_generations(envoy: Envoy) -> set[str]:
    """The generations that Envoy's routes use."""
    routes = envoy.config("dynamic_route_configs")
    targets = [
        route["route"]["cluster"]
        for entry in routes
        for host in entry["route_config"]["virtual_hosts"]
        for route in host["routes"]
    ]
    return {name.rpartition("-")[2] for name in targets}
