"""Three `xds serve` over one etcd cluster, a balancer that moves clients between them, and replicas that are killed."""

from __future__ import annotations

import os
import random
import threading
import time
from functools import partial
from pathlib import Path

from driver import workspace
from driver.balancer import Balancer
from driver.checks import PeerReport, Scenario, comment, play
from driver.config_dir import ConfigDir, render
from driver.control_plane import ETCD
from driver.envoy_load_checks import generations
from driver.envoy_world import DELTA_ADS, Programs, envoy_program, resource_values
from driver.etcd_cluster import EtcdCluster
from driver.etcd_world import cluster_text
from driver.http_load import LoadThread
from driver.loop_thread import LoopThread
from driver.processes import Event, EventProcess
from driver.waiting import eventually, expect
from driver.xds import Ordering, XdsServe
from driver.xds_store import XdsStore

NAME = "replicas"

_PREFIX = "/xds"
_REPLICAS = 3
# Without a number in the environment: what a run of all peers has time for.
_CLIENTS, _CHANGES = 200, 60
_FULL_CHANGES = 200
_COUNTERS = 6
# Share of the connections that the balancer ends within a second.
_SHARE = 0.05
# Of so many clients one starts again each second, without versions.
_RESTARTED = 20
_CONVERGENCE_PATIENCE = 60.0
_REPORT_PATIENCE = 30.0
# Seconds that a short run takes on two busy cores.
_RESERVE = 180.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Prepares etcd, Envoy and the clients, and plays the scenario."""
    _, envoy = envoy_program()
    programs, clients = Programs(workspace.xds_binary(), envoy), workspace.example("interop-replicas")
    etcd = ETCD.path(_RESERVE)
    report.version = f"etcd {ETCD.version(etcd)}"
    stated = os.environ.get("XDS_INTEROP_CLIENTS", "")
    if stated and not stated.isdigit():
        raise workspace.PreparationFailed(f"XDS_INTEROP_CLIENTS is {stated!r}: a number was expected")
    count, changes = (int(stated), _FULL_CHANGES) if stated else (_CLIENTS, _CHANGES)

    story = partial(_play, programs=programs, clients=clients, etcd=etcd, count=count, changes=changes)
    title = f"replicas: {count} clients and Envoy, {changes} changes, and a replica that is killed each second"
    play(report, run_dir, {title: story})


class _Observers:
    """The program `interop-replicas`: many clients of one address, which judge what they see."""

    def __init__(self, scenario: Scenario, program: Path) -> None:
        self._process = scenario.spawn(EventProcess, "clients", [program])

    def ask(self, answer: str, command: str) -> Event:
        """Tells it a command, and returns the answer."""
        before = len(self._process.events)
        self._process.tell(command)
        return self._process.wait_event(answer, lambda event: event["event"] == answer, before, _REPORT_PATIENCE)

    def start(self, port: int, clients: int) -> None:
        self.ask("started", f'{{"command": "start", "server": "127.0.0.1:{port}", "clients": {clients}}}')

    def restart(self, first: int) -> None:
        """Has some clients start again as new processes do, without versions."""
        self.ask("restarted", f'{{"command": "restart", "first": {first}, "every": {_RESTARTED}}}')

    def report(self) -> Event:
        return self.ask("report", '{"command": "report"}')


class _Writer:
    """Makes the changes, one after the other, in a thread of its own."""

    def __init__(self, config: ConfigDir, store: XdsStore, changes: int, seed: int) -> None:
        self.counters = dict.fromkeys((f"counter-{number}" for number in range(_COUNTERS)), 0)
        self.last = 0
        self._config, self._store, self._changes = config, store, changes
        self._random = random.Random(seed)
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._write(0, list(self.counters))

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether changes are still to come; raises what has ended them."""
        if self._failure:
            raise self._failure
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            for count in range(1, self._changes + 1):
                self._write(count, self._random.sample(list(self.counters), _COUNTERS // 2))
        except Exception as error:
            self._failure = error

    def _write(self, count: int, counters: list[str]) -> None:
        for name in counters:
            self.counters[name] = count
            self._config.put(f"{name}.yaml", cluster_text(name, count))
        self._config.set("count", count)
        self._config.replace("generation.yaml", "generation.yaml")
        self._store.apply(self._config.path, "--prune")
        self.last = count

    def go_back(self) -> None:
        """Writes the state before the last change again, which is an older one to every client."""
        self._write(self.last - 1, list(self.counters))

    def state(self) -> str:
        """The resources that each client has in the end, as the clients print them."""
        clusters = {f"{color}-{self.last}": self.last for color in ("blue", "green")}
        clusters |= {**self.counters, "tick": self.last}
        lines = [f"cluster {name}={clusters[name]}" for name in sorted(clusters)]
        return ", ".join([*lines, f"endpoints tick={self.last}", f"routes routes={self.last}"])


class _Replicas:
    def __init__(
        self, scenario: Scenario, programs: Programs, etcd: EtcdCluster, load: LoadThread, changes: int, seed: int
    ) -> None:
        self._scenario, self._programs, self._etcd = scenario, programs, etcd
        self._random = random.Random(seed)
        ports = {f"{name}_port": backend.port for name, backend in load.backends.items()}
        values = resource_values(DELTA_ADS, **ports)
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "replicas", values)
        listener = workspace.CONFIG / "envoy" / "resources" / "listener.yaml"
        config.put("listener.yaml", render(listener, values))
        store = XdsStore(programs.xds, etcd.address(_PREFIX))
        self.writer = _Writer(config, store, changes, seed)
        self.serves = [self._serve() for _ in range(_REPLICAS)]
        self.kills = 0

    def kill_one(self) -> None:
        """Kills a replica, and starts it again on its port."""
        victim = self._random.randrange(len(self.serves))
        self.serves[victim].kill()
        self.kills += 1
        self.serves[victim] = self._serve(self.serves[victim].address)

    def _serve(self, listen: str = "127.0.0.1:0") -> XdsServe:
        source = self._etcd.address(_PREFIX)
        gated = Ordering.MAKE_BEFORE_BREAK
        return XdsServe(self._scenario, self._programs.xds, source, listen, ordering=gated, keeps_tables=False)


def _play(scenario: Scenario, programs: Programs, clients: Path, etcd: Path, count: int, changes: int) -> None:
    seed = int(os.environ.get("XDS_INTEROP_SEED", "1"))
    cluster = EtcdCluster(scenario, etcd)
    with LoopThread() as loop, LoadThread("blue", "green") as load:
        replicas = _Replicas(scenario, programs, cluster, load, changes, seed)
        balancer = Balancer(loop, [serve.port for serve in replicas.serves], seed)
        observers = _Observers(scenario, clients)
        with scenario.check(f"{count} clients and Envoy get everything through the balancer"):
            envoy = programs.start_envoy(scenario, balancer.port, DELTA_ADS, workers=2)
            observers.start(balancer.port, count)
            envoy.wait_live()
            _wait_converged(observers, replicas.writer, count)
        load.start(envoy.listener_port(), kept=4, new=3, slow=6)
        with scenario.check(f"{changes} changes while clients are moved and replicas are killed"):
            began = time.monotonic()
            balancer.end_each_second(_SHARE)
            replicas.writer.start()
            while replicas.writer.is_running:
                due = began + replicas.kills + 1 - time.monotonic()
                time.sleep(max(0.0, due))
                replicas.kill_one()
                observers.restart(replicas.kills % _RESTARTED)
            balancer.end_each_second(0.0)
            seconds = time.monotonic() - began
        with scenario.check("in the end every client has the last state, and so has Envoy"):
            _wait_converged(observers, replicas.writer, count)
            last = {str(replicas.writer.last)}
            eventually("Envoy's generation", lambda: generations(envoy) == last, _CONVERGENCE_PATIENCE)
        tally = load.stop()
        report, moves = observers.report(), balancer.moves
        comment(
            f"{changes} changes in {seconds:.0f} s: {report['observations']} observations by {count} clients,"
            f" {report['violations']} violations; {moves.moved} moves to another replica"
            f" ({moves.moved_by_kind['envoy']} of Envoy), {moves.ended} connections ended,"
            f" {replicas.kills} replicas killed, {report['restarts']} clients restarted"
        )
        comment(f"through Envoy: {tally}")
        if report["timeouts"]:
            comment(f"resources that a client without them did not get within 15 s: {report['timeouts']}")
        with scenario.check("no client saw an older state than before, and no removal was false"):
            expect(report["violations"] == 0, "\n".join(map(str, report["examples"])))
        with scenario.check("no request through Envoy failed"):
            expect(tally.failed == 0, str(tally))
            expect(tally.answered >= 100, str(tally))
        with scenario.check("Envoy has rejected nothing"):
            for name in ("cluster_manager.cds", "http.ingress.rds.routes"):
                expect(envoy.stat(f"{name}.update_rejected") == 0, f"{name} was rejected")
        with scenario.check("this had the chance to go wrong: observations, moves, kills, restarts"):
            expect(report["observations"] >= 20 * count, f"observations: {report['observations']}")
            expect(moves.moved >= count, f"moves: {moves}")
            expect(moves.moved_by_kind["envoy"] >= 3, f"moves: {moves}")
            expect(len(moves.by_replica) == _REPLICAS, f"connections: {moves.by_replica}")
            expect(replicas.kills >= 10, f"kills: {replicas.kills}")
            expect(report["restarts"] >= count // 4, f"restarts: {report['restarts']}")
        with scenario.check("the clients notice an older state: the one before the last change, written again"):
            replicas.writer.go_back()
            noticed = partial(_violations_exceed, observers, report["violations"] + count - 1)
            eventually(f"violations of {count} clients", noticed, _CONVERGENCE_PATIENCE)


def _violations_exceed(observers: _Observers, number: int) -> bool:
    violations = observers.report()["violations"]
    expect(violations > number, f"violations: {violations}")
    return True


def _wait_converged(observers: _Observers, writer: _Writer, count: int) -> None:
    def probe() -> bool:
        states = observers.report()["states"]
        expected = writer.state()
        others = {state: number for state, number in states.items() if state != expected}
        expect(states.get(expected) == count, f"expected: {expected}; others: {dict(list(others.items())[:3])}")
        return True

    eventually(f"{count} clients with the last state", probe, _CONVERGENCE_PATIENCE)
