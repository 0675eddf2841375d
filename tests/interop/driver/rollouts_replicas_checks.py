"""Three `xds serve` that share their rollouts through etcd, and of which the one that moves a rollout on is killed."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from driver.balancer import Balancer
from driver.checks import Scenario, comment
from driver.config_dir import ConfigDir, render
from driver.envoy import Envoy
from driver.envoy_load_checks import generations
from driver.envoy_world import DELTA_ADS, Programs, resource_values
from driver.etcd_cluster import EtcdCluster
from driver.http_load import LoadThread
from driver.loop_thread import LoopThread
from driver.waiting import eventually, expect
from driver.workspace import CONFIG
from driver.xds import Ordering, XdsServe
from driver.xds_store import XdsStore

TITLE = "rollouts of three servers over etcd, with the one that moves a rollout on killed at every step"

_PREFIX = "/xds"
_REPLICAS = 3
_CANARIES, _OTHERS = 2, 2
_STEPS = 3
# A server that was killed counts for 10 s, and may be killed again.
_POLICY = """steps:
- { when: { id: envoy-1-* }, soak: 1s, timeout: 120s }
- { percent: 50, soak: 1s, timeout: 120s }
- { percent: 100, soak: 1s, timeout: 120s }
"""
_PATIENCE = 120.0


class _Servers:
    """The servers, and what etcd has of their rollouts."""

    def __init__(self, scenario: Scenario, programs: Programs, cluster: EtcdCluster) -> None:
        self._scenario, self._programs, self._cluster = scenario, programs, cluster
        self._policy = scenario.directory / "policy.yaml"
        self._policy.write_text(_POLICY, encoding="utf-8")
        self.serves = [self._serve() for _ in range(_REPLICAS)]
        self.killed: list[str] = []

    def _serve(self, listen: str = "127.0.0.1:0") -> XdsServe:
        return XdsServe(
            self._scenario,
            self._programs.xds,
            self._cluster.address(_PREFIX),
            listen,
            ordering=Ordering.MAKE_BEFORE_BREAK,
            flags=["--rollout-policy", self._policy],
        )

    def state(self) -> dict[str, str]:
        """The state as fields, and the server that has stored it."""
        keys = self._cluster.keys(f"{_PREFIX}/@rollout/")
        text = keys.get(f"{_PREFIX}/@rollout/state", "")
        before, _, why = text.partition(" why=")
        fields = dict(word.split("=", 1) for word in before.split() if "=" in word)
        return {**fields, "why": why, "writer": keys.get(f"{_PREFIX}/@rollout/writer", "")}

    def kill_writer(self, writer: str) -> None:
        """Kills the server that has stored the newest state, and starts it again on its port."""
        number = int(writer.rpartition("-")[2])
        at = next(at for at, serve in enumerate(self.serves) if serve.process_id == number)
        self.serves[at].kill()
        self.killed.append(writer)
        self.serves[at] = self._serve(self.serves[at].address)

    def kill_at_every_step(self, id_before: str) -> list[str]:
        """Follows the next rollout to its end, and kills whoever moves it on; the states, each once."""
        states: list[str] = []
        seen = ""
        deadline = time.monotonic() + _PATIENCE
        while True:
            state = self.state()
            if state["id"] != id_before and state["generation"] != seen:
                seen = state["generation"]
                states.append(f"{state['phase']} {state['step']}")
                self.kill_writer(state["writer"])
                if state["phase"] in ("completed", "rolled-back"):
                    return states
                deadline = time.monotonic() + _PATIENCE
            expect(time.monotonic() < deadline, f"the rollout has not moved on from {state}")
            time.sleep(0.02)

    def restart_all(self) -> None:
        """Kills all servers, and starts them again on their ports."""
        for serve in self.serves:
            serve.kill()
        self.serves = [self._serve(serve.address) for serve in self.serves]


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
        self.servers = _Servers(scenario, programs, cluster)
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

    def wait_generation(self, envoys: list[Envoy], count: int) -> None:
        """Waits until all of these use this generation, and nothing of another one."""

        def probe() -> bool:
            using = [generations(envoy) for envoy in envoys]
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
            world.wait_generation([*world.canaries, *world.others], 0)
            state = servers.state()
            expect((state["phase"], state["generation"]) == ("completed", "1"), str(state))
        load.start(world.canaries[0].listener_port(), kept=2, new=2, slow=2)
        of_others.start(world.others[0].listener_port(), kept=2, new=2, slow=2)

        with scenario.check(f"a rollout of {_STEPS} steps completes, although whoever moves it on is killed"):
            before, began = servers.state()["id"], time.monotonic()
            world.write(1)
            states = servers.kill_at_every_step(before)
            comment(f"{', '.join(states)}: {len(servers.killed)} servers killed in {time.monotonic() - began:.0f} s")
            steps = [f"running {step}/{_STEPS}" for step in range(1, _STEPS + 1)]
            expect(states == [*steps, f"completed {_STEPS}/{_STEPS}"], str(states))
            world.wait_generation([*world.canaries, *world.others], 1)

        with scenario.check("a change that Envoy rejects is rolled back, although whoever moves it on is killed"):
            before, killed = servers.state()["id"], len(servers.killed)
            rejected = [it.stat("cluster_manager.cds.update_rejected") for it in world.others]
            world.write(2, bad=True)
            states = servers.kill_at_every_step(before)
            comment(f"{', '.join(states)}: {len(servers.killed) - killed} servers killed")
            # The rejection may come before the first state is stored.
            expect(states[-1] == f"rolled-back 1/{_STEPS}" and len(states) <= 2, str(states))
            why = servers.state()["why"]
            expect("envoy-1-" in why, why)
            world.wait_generation([*world.canaries, *world.others], 1)
            now = [it.stat("cluster_manager.cds.update_rejected") for it in world.others]
            expect(now == rejected, f"the others have rejected {rejected}, and now {now}")
        with scenario.check("servers that start now serve what is stable, although etcd has the rejected change"):
            servers.restart_all()
            world.wait_generation([*world.canaries, *world.others], 1)
        with scenario.check("the repaired change is rolled out by the same servers"):
            world.write(3)
            eventually("completed", partial(_is_completed, servers), _PATIENCE)
            world.wait_generation([*world.canaries, *world.others], 3)
        tallies = {"canaries": load.stop(), "the others": of_others.stop()}
        with scenario.check("not one request failed in either group"):
            for group, tally in tallies.items():
                comment(f"through one of {group}: {tally}")
                expect(tally.failed == 0 and tally.answered > 100, f"{group}: {tally}")


def _is_completed(servers: _Servers) -> bool:
    state = servers.state()
    expect(state["phase"] == "completed", str(state))
    return True
