"""An etcd cluster of three members as the source of `xds serve`, with Envoy, gRPC and `xds watch` as clients."""

from __future__ import annotations

import json
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from driver import clock_checks, etcd_failure_checks, workspace
from driver.checks import PeerReport, Scenario, comment, play
from driver.config_dir import ConfigDir
from driver.control_plane import ETCD
from driver.envoy_world import DELTA_ADS, Programs, envoy_program, resource_values
from driver.etcd_cluster import EtcdCluster
from driver.etcd_world import PREFIX, EtcdPrograms, EtcdWorld, cluster_text, wait_reload
from driver.grpc_application import GrpcApplication
from driver.http_backend import HttpBackend
from driver.processes import Argv
from driver.waiting import eventually, expect
from driver.xds import XdsServe, XdsWatch
from driver.xds_store import WatchedResources, XdsStore

NAME = "etcd"

# Seconds that all scenarios take on two busy cores.
_RESERVE = 180.0
_MEASURED_CHANGES = 20
# More operations than a transaction of etcd may have.
_MANY = 300
_NODE = "grpc-1"


def run(report: PeerReport, run_dir: Path) -> None:
    """Builds etcd unless it is cached, and plays the scenarios."""
    python, envoy = envoy_program()
    grpc, go, xds = workspace.virtual_environment("grpc"), workspace.go_peer(), workspace.xds_binary()
    etcd = ETCD.path(_RESERVE)
    report.version = f"etcd {ETCD.version(etcd)}"
    programs = EtcdPrograms(xds, etcd)
    peer = _Peer(programs, Programs(xds, envoy), [grpc, "-I", "-B", workspace.INTEROP / "grpc-python" / "peer.py"], go)
    play(
        report,
        run_dir,
        {
            "etcd: Envoy, gRPC and xds watch follow changes": peer.clients_follow,
            "etcd: endpoints under leases": peer.leases,
            "etcd: invalid keys and values": peer.invalid_input,
            "etcd: a change that exceeds a transaction": peer.large_change,
            **etcd_failure_checks.scenarios(programs, python),
            **clock_checks.scenarios(programs, python),
        },
    )


@dataclass(frozen=True)
class _Side:
    """One prefix: the directory that it is written from, and `xds serve` on it."""

    config: ConfigDir
    store: XdsStore
    serve: XdsServe

    def apply(self) -> None:
        """Writes the directory to etcd."""
        self.store.apply(self.config.path, "--prune")


class _Peer:
    def __init__(self, programs: EtcdPrograms, envoy: Programs, c_core: Argv, go: Argv) -> None:
        self._programs = programs
        self._envoy = envoy
        self._c_core = c_core
        self._go = go

    def _cluster(self, scenario: Scenario, size: int = 3) -> EtcdCluster:
        return EtcdCluster(scenario, self._programs.etcd, size)

    def clients_follow(self, scenario: Scenario) -> None:
        cluster = self._cluster(scenario)
        with HttpBackend("blue") as blue, HttpBackend("green") as green:
            bootstrap = scenario.directory / "bootstrap.json"
            core = GrpcApplication(scenario, self._c_core)
            go = GrpcApplication(scenario, ["env", f"GRPC_XDS_BOOTSTRAP={bootstrap}", *self._go])
            core_side = self._grpc_side(scenario, cluster, "/core", core)
            go_side = self._grpc_side(scenario, cluster, "/go", go)
            values = resource_values(DELTA_ADS, blue_port=blue.port, green_port=green.port)
            envoy_side = self._side(scenario, cluster, "/envoy", "envoy", values)
            bootstrap.write_text(json.dumps(_bootstrap(go_side.serve)), encoding="utf-8")
            core.connect(server=core_side.serve.address, node=_NODE)
            go.connect()
            envoy = self._envoy.start_envoy(scenario, envoy_side.serve, DELTA_ADS)
            watch = XdsWatch(scenario, self._programs.xds, envoy_side.serve.address, "watch-1", ["cds"], ["--delta"])

            with scenario.check("C-core, grpc-go, Envoy and xds watch get what xds apply has written"):
                core.expect_answer("first")
                go.expect_answer("first")
                envoy.wait_live()
                envoy.wait_fetch("blue")
                _wait_clusters(watch, "blue", "green")
            with scenario.check("a change moves the requests of all of them, and no RPC fails"):
                for side in (core_side, go_side):
                    side.config.replace("endpoints.yaml", "edits/endpoints-second.yaml")
                    side.apply()
                envoy_side.config.replace("routes.yaml", "edits/routes-to-green.yaml")
                envoy_side.apply()
                core.wait_answer("second")
                go.wait_answer("second")
                envoy.wait_fetch("green")
            with scenario.check("a new cluster arrives"):
                envoy_side.config.replace("yellow.json", "edits/yellow.json")
                envoy_side.apply()
                _wait_clusters(watch, "blue", "green", "yellow")
                eventually("Envoy has yellow", lambda: "yellow" in envoy.clusters())
            with scenario.check("it is removed for clients when its key is deleted, and nothing else is"):
                envoy_side.config.remove("yellow.json")
                envoy_side.apply()
                _wait_clusters(watch, "blue", "green")
                eventually("Envoy does not have yellow", lambda: "yellow" not in envoy.clusters())
                envoy.wait_fetch("green")
            with scenario.check("a deleted listener fails RPCs, and works again when it is back"):
                core_side.config.remove("listener.yaml")
                core_side.apply()
                core.wait_failure()
                core_side.config.replace("listener.yaml", "resources/listener.yaml")
                core_side.apply()
                core.wait_recovery("second")
            with scenario.check(f"{_MEASURED_CHANGES} changes arrive one after the other"):
                _measure(envoy_side, watch)
            with scenario.check("in the end no resource is lost, and no removal was false"):
                stored = re.findall(r"^name: (\S+)$", envoy_side.store.pull(), re.MULTILINE)
                expect({"blue", "green", "counter"} <= set(stored), str(stored))
                _wait_clusters(watch, "blue", "green", "counter")
                removed = WatchedResources(watch.events).removed
                expect([name for _, name in removed] == ["yellow"], f"removed: {removed}")

    def leases(self, scenario: Scenario) -> None:
        cluster = self._cluster(scenario)
        core = GrpcApplication(scenario, self._c_core)
        # Without endpoints: those come from the services.
        without: dict[str, str | None] = {"endpoints.yaml": None}
        side = self._grpc_side(scenario, cluster, "/core", core, without)
        first, second = core.ports["first"], core.ports["second"]
        registered = side.store.register(scenario, "backend", first, "2s")
        core.connect(server=side.serve.address, node=_NODE)
        watch = XdsWatch(scenario, self._programs.xds, side.serve.address, "watch-1", ["eds:backend"])
        with scenario.check("a registered endpoint is used"):
            core.expect_answer("first")
        with scenario.check("so is a second one"):
            other = side.store.register(scenario, "backend", second, "60s")
            core.wait_answer("second")
        with scenario.check(
            "when xds register is killed, its endpoint is removed after its time to live, and no RPC fails"
        ):
            registered.kill()
            killed = time.monotonic()
            eventually("one endpoint", lambda: _ports(watch) == [second])
            comment(f"a time to live of 2 s: the endpoint was removed after {time.monotonic() - killed:.1f} s")
            for _ in range(20):
                core.expect_answer("second")
        with scenario.check("when the last one ends, the endpoints are empty at once, and not removed"):
            other.end()
            eventually("no endpoint", lambda: _ports(watch) == [])
            core.wait_failure()
        with scenario.check("an endpoint that is registered again is used"):
            side.store.register(scenario, "backend", first, "60s")
            core.wait_recovery("first")
            removed = WatchedResources(watch.events).removed
            expect(not removed, f"removed: {removed}")

    def invalid_input(self, scenario: Scenario) -> None:
        cluster = self._cluster(scenario, size=1)
        world = EtcdWorld(scenario, self._programs, cluster, a=1, b=1)
        serve, key = world.serve, f"{PREFIX}/default/clusters"

        def refused(name: str, value: str | bytes, *texts: str) -> None:
            """Puts a value, which has to be reported with its key and these texts."""
            mark = serve.mark()
            cluster.put(name, value)
            error = serve.wait("file_error", mark)
            for text in (name, *texts):
                expect(text in f"{error['file']} {error['error']}", f"without {text!r}: {error}")

        with scenario.check("keys that are no resources are reported with the form that is expected"):
            refused(f"{PREFIX}/nonsense", "x", "PREFIX/VIEW/TYPE/NAME")
            refused(f"{PREFIX}/default/cluster/a", "x", 'unknown type "cluster"')
        with scenario.check("so are values: an unknown field, another name, no text, another type"):
            refused(f"{key}/a", "name: a\nalt_stat_nam: count-2\n", "alt_stat_nam")
            refused(f"{key}/a", cluster_text("other", 2), "must be cds `a`")
            refused(f"{key}/a", b"\xff\xfe\x00\x01")
            refused(
                f"{key}/a",
                '"@type": type.googleapis.com/envoy.config.listener.v3.Listener\nname: a\n',
                "must be cds `a`",
            )
        with scenario.check("the last valid state of such a key stays, and other keys go on"):
            cluster.put(f"{key}/b", cluster_text("b", 2))
            world.wait_has({"a": 1, "b": 2})
        with scenario.check("a server that starts meanwhile is not ready, and keeps its clients waiting"):
            late = world.start_serve()
            waiting = late.wait("not_ready", 0)
            expect(f"{key}/a" in waiting["files"], str(waiting))
        with scenario.check("once the values are repaired or deleted, both serve the same"):
            mark = serve.mark()
            cluster.put(f"{key}/a", cluster_text("a", 3))
            cluster.delete(f"{PREFIX}/nonsense")
            cluster.delete(f"{PREFIX}/default/cluster/a")
            world.wait_has({"a": 3, "b": 2})
            expect(serve.wait("file_valid", mark)["file"] == f"{key}/a", "another key is valid again")
            late.wait("ready", 0)
            world.wait_has({"a": 3, "b": 2}, world.start_watch(late))
        with scenario.check("xds apply refuses a value of 2 MiB before it writes anything"):
            revision = cluster.revision()
            world.write(a=4)
            large = cluster_text("b", 4) + f"metadata: {{ filter_metadata: {{ x: {{ y: {'x' * (2 << 20)} }} }} }}\n"
            (world.directory / "b.yaml").write_text(large)
            outcome = world.store.try_apply(world.directory, "--prune")
            expect(outcome.code != 0, str(outcome)[:500])
            for text in (f"{key}/b", "--max-request-bytes"):
                expect(text in outcome.stderr, f"without {text!r}: {outcome.stderr[:500]}")
            expect(cluster.revision() == revision, "something was written")
        with scenario.check("nothing was removed by any of this"):
            world.wait_has({"a": 3, "b": 2})
            world.expect_removed()

    def large_change(self, scenario: Scenario) -> None:
        cluster = self._cluster(scenario, size=1)
        counts = {f"c{number}": 1 for number in range(_MANY)}
        world = EtcdWorld(scenario, self._programs, cluster, old=1)
        serve = world.serve
        state_of_the_world = serve.settled()["cds"].responses
        with scenario.check(f"{_MANY} new resources and a removed one are one change for clients"):
            mark = serve.mark()
            world.change(**counts, old=None)
            world.wait_has(counts)
            wait_reload(serve, mark, changed=_MANY, removed=1)
            expect(serve.settled()["cds"].responses == state_of_the_world + 1, str(serve.rows()))
        with scenario.check("so are many changed and removed ones"):
            mark = serve.mark()
            half = dict.fromkeys(list(counts)[::2], 2)
            world.change(**dict.fromkeys(list(counts)[1::2]), **half)
            world.wait_has(half)
            wait_reload(serve, mark, changed=len(half), removed=_MANY - len(half))
        with scenario.check("a small change of the new generation is one, too"):
            mark = serve.mark()
            world.change(c0=3)
            world.wait_has({**half, "c0": 3})
            wait_reload(serve, mark, changed=1, removed=0)
        with scenario.check("a server that starts later has the same"):
            late = world.start_serve()
            world.wait_has({**half, "c0": 3}, world.start_watch(late, "--delta"))
        with scenario.check("keys of generations that are not in use are deleted"):
            generations = {key.split("/")[3] for key in cluster.keys(f"{PREFIX}/@generations/")}
            expect(1 <= len(generations) <= 2, str(generations))
            expect(not cluster.keys(f"{PREFIX}/default/"), "there are keys below the prefix itself")

    def _grpc_side(
        self,
        scenario: Scenario,
        cluster: EtcdCluster,
        prefix: str,
        application: GrpcApplication,
        instead: dict[str, str | None] | None = None,
    ) -> _Side:
        values: dict[str, object] = {f"{name}_port": port for name, port in application.ports.items()}
        return self._side(scenario, cluster, prefix, "grpc", values, instead)

    def _side(
        self,
        scenario: Scenario,
        cluster: EtcdCluster,
        prefix: str,
        templates: str,
        values: dict[str, object],
        instead: dict[str, str | None] | None = None,
    ) -> _Side:
        config = ConfigDir(scenario.directory / prefix.strip("/"), workspace.CONFIG / templates, values)
        config.fill(instead)
        address = cluster.address(prefix)
        store = XdsStore(self._programs.xds, address)
        store.apply(config.path)
        return _Side(config, store, XdsServe(scenario, self._programs.xds, address))


def _bootstrap(serve: XdsServe) -> dict[str, object]:
    server = {
        "server_uri": serve.address,
        "channel_creds": [{"type": "insecure"}],
        "server_features": ["xds_v3"],
    }
    return {"xds_servers": [server], "node": {"id": "go-1"}}


def _measure(side: _Side, watch: XdsWatch) -> None:
    """Makes changes, and prints how long each took to reach `xds watch`."""
    from_begin, from_end = [], []
    for count in range(1, _MEASURED_CHANGES + 1):
        side.config.put("counter.yaml", cluster_text("counter", count))
        mark, began = watch.mark(), time.time()
        side.apply()
        ended = time.time()
        received = watch.receipt(mark, f"count-{count}")
        from_begin.append((received - began) * 1e3)
        from_end.append((received - ended) * 1e3)
    comment(f"latency of {_MEASURED_CHANGES} changes, until xds watch has received them")
    for what, times in (("begin", from_begin), ("end", from_end)):
        comment(f"from the {what} of xds apply: p50 {statistics.median(times):.1f} ms, max {max(times):.1f} ms")
    if max(from_end) < 0:
        comment("below zero: the client has a change before the command that has written it ends")


def _wait_clusters(watch: XdsWatch, *names: str) -> None:
    def probe() -> bool:
        has = {name for _, name in WatchedResources(watch.events).resources}
        expect(has == set(names), f"xds watch has {sorted(has)}")
        return True

    eventually(f"xds watch has {names}", probe)


def _ports(watch: XdsWatch) -> list[int] | None:
    """The ports of the endpoints that the client has; `None` if it has no resource."""
    for resource in WatchedResources(watch.events).resources.values():
        return sorted(int(port) for port in re.findall(r'"port_?[vV]alue": (\d+)', json.dumps(resource)))
    return None
