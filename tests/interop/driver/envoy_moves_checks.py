"""Envoy under an HTTP load while its configuration changes, while it is moved between views, and while it rejects."""

from __future__ import annotations

import json
import time

from driver import workspace
from driver.checks import Scenario, comment
from driver.config_dir import ConfigDir
from driver.envoy_load_checks import COLORS, generations, routed_generations
from driver.envoy_world import Programs, Transport, resource_values
from driver.http_load import LoadThread
from driver.waiting import eventually, expect
from driver.xds import Ordering

_CHANGES = 200
# Of so many changes the last ones come in a burst.
_ROUND, _BURST = 20, 5
# Of a round, these bring a cluster that Envoy rejects. The next change, which is without it, follows at once.
_REJECTED = (3, 13)
# Of a round, these move Envoy to the other view: once all is settled, right after a rejection, and in the burst.
_MOVED = (8, 14, 18)
_VIEWS = ("first", "second")
_FLAWS = (
    # Found when the clusters are made, one by one: the others are taken, and warmed.
    {"other_timeout": "1s", "other_kind": "cluster_type: { name: no.such.kind }"},
    # Found before: nothing is taken.
    {"other_timeout": "0s", "other_kind": "type: STATIC"},
)


def moves_and_rejections_under_load(scenario: Scenario, programs: Programs, transport: Transport) -> None:
    """200 changes, of which one in ten is rejected, and some move Envoy to another view: not one request fails."""
    with LoadThread(*COLORS) as load:
        _Changes(scenario, programs, transport, load).play()


class _Changes:
    def __init__(self, scenario: Scenario, programs: Programs, transport: Transport, load: LoadThread) -> None:
        ports = {f"{name}_port": backend.port for name, backend in load.backends.items()}
        values = resource_values(transport, generation=0, **ports)
        resources = scenario.directory / "resources"
        resources.mkdir()
        self._views = [ConfigDir(resources / view, workspace.CONFIG / "envoy", values) for view in _VIEWS]
        for view in self._views:
            view.replace("listener.yaml", "resources/listener.yaml")
        self._views[0].replace("generation.yaml", "edits/generation.yaml")
        # Whatever is in the second view, Envoy is not to see it before it is moved there.
        self._rules = ConfigDir(scenario.directory / "views", workspace.CONFIG / "envoy", {})
        self._current = 0
        self._put_rules()
        self._load = load
        self._scenario = scenario
        flags = ("--views", self._rules.path / "views.yaml")
        self._serve, self._envoy = programs.start(
            scenario, resources, transport, ordering=Ordering.MAKE_BEFORE_BREAK, workers=2, flags=flags
        )

    def _put_rules(self) -> None:
        self._rules.put("views.yaml", json.dumps({"rules": [], "otherwise": _VIEWS[self._current]}))

    def play(self) -> None:
        """Makes all changes, and looks at what became of the requests."""
        scenario, envoy, load = self._scenario, self._envoy, self._load
        with scenario.check("the first generation of clusters is in use"):
            envoy.wait_live()
            eventually("generation 0", lambda: generations(envoy) == {"0"})
        load.start(envoy.listener_port(), kept=4, new=3, slow=6)
        with scenario.check(f"{_CHANGES} changes arrive, with moves and rejections between them"):
            began = time.monotonic()
            for generation in range(1, _CHANGES + 1):
                self._change(generation)
            seconds = time.monotonic() - began
            tally = load.stop()
            comment(f"moves and rejections: {_CHANGES} changes in {seconds:.0f} s: {tally}")
        with scenario.check("Envoy has rejected clusters, and nothing else"):
            rejected = envoy.stat("cluster_manager.cds.update_rejected")
            expect(rejected >= _CHANGES // _ROUND * len(_REJECTED), f"only {rejected} responses were rejected")
            expect(envoy.stat("http.ingress.rds.routes.update_rejected") == 0, "routes were rejected")
        with scenario.check("not one request failed"):
            expect(tally.failed == 0, str(tally))

    def _change(self, generation: int) -> None:
        turn = generation % _ROUND
        self._load.wait_for_a_request()
        rejected = self._envoy.stat("cluster_manager.cds.update_rejected")
        if turn in _MOVED:
            self._current = 1 - self._current
        self._write(generation, has_flaw=turn in _REJECTED)
        if turn in _MOVED:
            mark = self._serve.mark()
            self._put_rules()
            moved = self._serve.wait("views", mark)
            expect((moved["moved"], moved["refused"]) == (1, 0), f"change {generation}: {moved}")
        if turn in _REJECTED:
            eventually(
                f"the rejection of change {generation}",
                lambda: self._envoy.stat("cluster_manager.cds.update_rejected") > rejected,
            )
            routed = routed_generations(self._envoy)
            expect(routed == {str(generation - 1)}, f"change {generation}: the routes went ahead: {routed}")
        elif turn <= _ROUND - _BURST:
            eventually(f"generation {generation}", lambda: generations(self._envoy) == {str(generation)})

    def _write(self, generation: int, *, has_flaw: bool) -> None:
        view, mark = self._views[self._current], self._serve.mark()
        view.set("generation", generation)
        text = view.render("edits/generation.yaml")
        if has_flaw:
            for name, value in _FLAWS[generation // _ROUND % len(_FLAWS)].items():
                view.set(name, value)
            text += view.render("edits/other.yaml")
        view.put("generation.yaml", text)
        self._serve.wait("reloaded", mark)
