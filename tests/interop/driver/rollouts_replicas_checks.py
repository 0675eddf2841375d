"""Three `xds serve` that share their rollouts through etcd, and of which the one that moves a rollout on is killed."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from driver.balancer import Balancer
from driver.checks import Scenario, comment
from driver.config_dir import ConfigDir, render
from driver.envoy import Envoy
from driver.envoy_load_checks import generations, routed_generations
from driver.envoy_world import DELTA_ADS, Programs, resource_values
from driver.etcd_cluster import EtcdCluster
from driver.http_load import LoadThread
from driver.loop_thread import LoopThread
from driver.shared_servers import COMPLETED, STEPS, SharedServers
from driver.waiting import eventually, expect
from driver.workspace import CONFIG
from driver.xds_store import XdsStore

TITLE = "rollouts of three servers over etcd, with the one that moves a rollout on killed at every step"

_PREFIX = "/xds"
_CANARIES, _OTHERS = 2, 2
_PATIENCE = 120.0


class _World:
    """Envoys that reach the servers through a balancer."""

    def __init__(
        self, scenario: Scenario, programs: Programs, cluster: EtcdCluster, load: LoadThread, loop: LoopThread
    ) -> None:
        ports = {f"{name}_port": backend.port for name, backend in load.backends.items()}
        values = resource_values(DELTA_ADS, **ports)
        self._config = ConfigDir(scenario.directory / "resources", CONFIG / "replicas", values)
        self._config.put("listener.yaml", render(CONFIG / "envoy" / "resources" / "listener.yaml", values))
        self._store = XdsStore(programs.xds, cluster.address(_PREFIX))
        self.write(0)
        source = cluster.address(_PREFIX)
        self.servers = SharedServers(scenario, programs.xds, source, [], "envoy-1-*", partial(_stored, cluster))
        balancer = Balancer(loop, [serve.port for serve in self.servers.serves], 1)

        def envoys(kind: int, number: int) -> list[Envoy]:
            nodes = [f"envoy-{kind}-{at}" for at in range(number)]
            return [programs.start_envoy(scenario, balancer.port, DELTA_ADS, node=node) for node in nodes]

        self.canaries, self.others = envoys(1, _CANARIES), envoys(2, _OTHERS)

    def write(self, count: int, bad: bool = False) -> None:
        """Writes a generation, with a cluster that Envoy rejects or without."""
        self._config.set("count", count)
        self._config.replace("generation.yaml", "generation.yaml")
        kind = "cluster_type: { name: no.such.kind }" if bad else "type: STATIC"
        self._config.put(
            "bad.yaml",
            f'"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: bad\n{kind}\nconnect_timeout: 1s\n',
        )
        self._store.apply(self._config.path, "--prune")

    def wait_generation(self, count: int, is_lenient: bool = False) -> None:
        """Waits until all use this generation, and have nothing of another one.

        Envoy keeps the good clusters of a response that it rejects, and states them to nobody. If its server is
        killed before it has moved the Envoy back, no other server knows of them: lenient with the canaries.
        """

        def probe() -> bool:
            of_canaries = routed_generations if is_lenient else generations
            using = [*map(of_canaries, self.canaries), *map(generations, self.others)]
            expect(all(it == {str(count)} for it in using), str(using))
            return True

        eventually(f"generation {count}", probe, _PATIENCE)


def rollouts_of_replicas(scenario: Scenario, programs: Programs, etcd: Path) -> None:
    """Plays a rollout that completes, and one that is rolled back."""
    cluster = EtcdCluster(scenario, etcd)
    with LoopThread() as loop, LoadThread("blue", "green") as load, LoadThread("blue", "green") as of_others:
        world = _World(scenario, programs, cluster, load, loop)
        servers = world.servers
        with scenario.check("three servers agree on what is stable, and Envoys have it"):
            for envoy in (*world.canaries, *world.others):
                envoy.wait_live()
            world.wait_generation(0)
            state = servers.state()
            expect((state["phase"], state["generation"]) == ("completed", "1"), str(state))
        load.start(world.canaries[0].listener_port(), kept=2, new=2, slow=2)
        of_others.start(world.others[0].listener_port(), kept=2, new=2, slow=2)

        with scenario.check(f"a rollout of {STEPS} steps completes, although whoever moves it on is killed"):
            before, began = servers.state()["id"], time.monotonic()
            world.write(1)
            states = servers.kill_at_every_step(before)
            comment(f"{', '.join(states)}: {len(servers.killed)} servers killed in {time.monotonic() - began:.0f} s")
            expect(states == COMPLETED, str(states))
            world.wait_generation(1)

        with scenario.check("a change that Envoy rejects is rolled back, although whoever moves it on is killed"):
            before, killed = servers.state()["id"], len(servers.killed)
            rejected = [it.stat("cluster_manager.cds.update_rejected") for it in world.others]
            world.write(2, bad=True)
            states = servers.kill_at_every_step(before)
            comment(f"{', '.join(states)}: {len(servers.killed) - killed} servers killed")
            # The rejection may come before the first state is stored.
            expect(states[-1] == f"rolled-back 1/{STEPS}" and len(states) <= 2, str(states))
            why = servers.state()["why"]
            expect("envoy-1-" in why, why)
            world.wait_generation(1, is_lenient=True)
            now = [it.stat("cluster_manager.cds.update_rejected") for it in world.others]
            expect(now == rejected, f"the others have rejected {rejected}, and now {now}")
        with scenario.check("servers that start now serve what is stable, although etcd has the rejected change"):
            servers.restart_all()
            world.wait_generation(1, is_lenient=True)
        with scenario.check("the repaired change is rolled out by the same servers"):
            world.write(3)
            eventually("completed", servers.is_completed, _PATIENCE)
            world.wait_generation(3, is_lenient=True)
        tallies = {"canaries": load.stop(), "the others": of_others.stop()}
        with scenario.check("not one request failed in either group"):
            for group, tally in tallies.items():
                comment(f"through one of {group}: {tally}")
                expect(tally.failed == 0 and tally.answered > 100, f"{group}: {tally}")


def _stored(cluster: EtcdCluster) -> tuple[str, str]:
    keys = cluster.keys(f"{_PREFIX}/@rollout/")
    return keys.get(f"{_PREFIX}/@rollout/state", ""), keys.get(f"{_PREFIX}/@rollout/writer", "")
