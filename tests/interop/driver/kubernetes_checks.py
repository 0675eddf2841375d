"""kube-apiserver as the source of `xds serve kube://`, with gRPC C-core as its client."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from driver import go_programs, workspace
from driver.checks import PeerReport, Scenario, comment, play
from driver.clock_checks import YEAR, jumps
from driver.config_dir import render
from driver.control_plane import APISERVER, ETCD
from driver.envoy_world import envoy_program
from driver.etcd_world import cluster_text
from driver.grpc_application import GrpcApplication
from driver.istio_world import Json, Kubernetes, KubernetesPrograms
from driver.kubernetes_rollouts_checks import rollouts_in_kubernetes
from driver.processes import Argv
from driver.shifted_clock import ShiftedClock
from driver.waiting import PATIENCE, SILENCE, eventually, expect, settled
from driver.xds import TYPE_URLS, XdsServe, XdsWatch
from driver.xds_store import WatchedResources

NAME = "kubernetes"

# Seconds that all scenarios take on two busy cores.
_RESERVE = 300.0

_NODE = "grpc-1"
_TYPES = tuple(TYPE_URLS)
_REJECTION = "expected at least one HTTP filter"
_SERVICES = "/api/v1/namespaces/default/services"
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_SLICE = "/registry/endpointslices/default/greeter-1"
# A write of an object follows the one before after 30 seconds.
_CLEAR_PATIENCE = 60.0
_MEASURED_CHANGES = 50


def run(report: PeerReport, run_dir: Path) -> None:
    """Builds the programs unless they are cached, and plays the scenarios."""
    python, _ = envoy_program()
    grpc, xds = workspace.virtual_environment("grpc"), workspace.xds_with_kubernetes()
    etcd, apiserver = ETCD.path(_RESERVE), APISERVER.path(_RESERVE)
    go_programs.require_time(_RESERVE)
    programs = KubernetesPrograms(etcd=etcd, apiserver=apiserver, python=python)
    versions = {
        "Kubernetes": APISERVER.version(programs.apiserver),
        "etcd": ETCD.version(programs.etcd),
    }
    report.version = ", ".join(f"{name} {version}" for name, version in versions.items())
    peer = _Peer(programs, xds, grpc)
    play(
        report,
        run_dir,
        {
            "Kubernetes: a gRPC client reaches a Service by its name": peer.reaches_a_service,
            "Kubernetes: resources in a ConfigMap": peer.reads_a_config_map,
            "Kubernetes: a change that a guard refuses": peer.refuses_a_change,
            "Kubernetes: clocks that jump": peer.clock_jumps,
            "Kubernetes: rollouts that servers share": peer.shares_rollouts,
        },
    )


@dataclass(frozen=True)
class _World:
    kubernetes: Kubernetes
    serve: XdsServe
    client: GrpcApplication


class _Peer:
    def __init__(self, programs: KubernetesPrograms, xds: Path, grpc: Path) -> None:
        self._programs = programs
        self._xds = xds
        self._grpc = grpc

    def reaches_a_service(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        kubernetes, serve, client = world.kubernetes, world.serve, world.client
        kubernetes.create(_SERVICES, _service())
        _slice(kubernetes, client.ports["first"])
        client.connect(server=serve.address, node=_NODE, target="greeter.default:50051")
        with scenario.check("a channel resolves xds:///greeter.default:50051 and completes an RPC"):
            client.expect_answer("first")
        with scenario.check("the client has accepted all four resources, each by the name of the Service and its port"):
            serve.wait_acked(*_TYPES)
            names = {resource["name"] for resource in client.csds().values()}
            expect(names == {"greeter.default:50051"}, str(names))
        rows = serve.settled()
        with scenario.check("a changed EndpointSlice moves the RPCs, and only the endpoints are sent for it"):
            _slice(kubernetes, client.ports["second"])
            client.wait_answer("second")
            serve.wait_acked("eds", new_after=rows)
            serve.expect_sent(rows, eds=1)
        with scenario.check("a Service that loses all endpoints keeps its resources, and RPCs fail"):
            rows = serve.settled()
            _slice(kubernetes, None)
            client.wait_failure()
            serve.wait_acked("eds", new_after=rows)
            serve.expect_sent(rows, eds=1)
        with scenario.check("endpoints that come back are used"):
            _slice(kubernetes, client.ports["first"])
            client.wait_recovery("first")
        rows = serve.settled()
        with scenario.check("RPCs go on while the API server is away, and nothing is sent"):
            mark = serve.mark()
            kubernetes.kill_apiserver()
            errors = eventually("an error of the source", lambda: serve.since(mark, "file_error"))
            expect(errors[0]["file"] == "kube://", str(errors))
            client.expect_answer("first")
            serve.expect_sent(rows)
        with scenario.check("changes after its restart arrive, and nothing was removed meanwhile"):
            kubernetes.start_apiserver()
            _slice(kubernetes, client.ports["second"])
            client.wait_answer("second", 60.0)
            removed = [event["removed"] for event in serve.since(mark, "reloaded")]
            expect(not any(removed), str(removed))
        with scenario.check("xds serve ends with exit code 0 when asked to"):
            serve.stop_cleanly()

    def reads_a_config_map(self, scenario: Scenario) -> None:
        world = self._world(scenario)
        kubernetes, serve, client = world.kubernetes, world.serve, world.client
        data = _resources(client)

        def text(template: str) -> str:
            return _text(client, template)

        def write(**changes: str) -> None:
            keys = {f"{name}.yaml": text for name, text in changes.items()}
            kubernetes.patch(f"{_CONFIG_MAPS}/mesh", {"data": keys})

        kubernetes.create(_CONFIG_MAPS, _config_map(data))
        client.connect(server=serve.address, node=_NODE)
        with scenario.check("the keys of a ConfigMap are resource files"):
            client.expect_answer("first")
            serve.wait_acked(*_TYPES)
        with scenario.check("a changed key moves the RPCs"):
            write(endpoints=text("edits/endpoints-second.yaml"))
            client.wait_answer("second")
        rows = serve.settled()
        with scenario.check("an invalid key is reported with namespace, name, key and line, and changes nothing"):
            mark = serve.mark()
            write(endpoints=text("resources/endpoints.yaml") + "oops: 1\n", cluster=data["cluster.yaml"] + "# new\n")
            errors = eventually("an error", lambda: serve.since(mark, "file_error"))
            error = errors[0]["error"]
            expect("ConfigMap default/mesh/endpoints.yaml:" in error and "oops" in error, error)
            expect(errors[0]["line"] > 1, str(errors))
            client.expect_answer("second")
            serve.expect_sent(rows)
        with scenario.check("the error is in an annotation of the ConfigMap"):
            value = eventually("an annotation", lambda: _rejected(kubernetes))
            rejected = json.loads(value)
            expect(rejected["invalid"] is True and "oops" in rejected["message"], value)
        with scenario.check("the repaired key is used, and the annotation is removed"):
            write(endpoints=text("resources/endpoints.yaml"))
            client.wait_answer("first")
            eventually("no annotation", lambda: _rejected(kubernetes) is None, _CLEAR_PATIENCE)
        with scenario.check("a rejection by a client becomes an Event and an annotation of the ConfigMap"):
            write(listener=text("edits/listener-without-filters.yaml"))
            serve.wait_row("lds", "NACKED", lambda row: row.state == "NACKED")
            # An object is written once in 30 s at most.
            value = eventually("an annotation", lambda: _rejected(kubernetes), _CLEAR_PATIENCE)
            rejected = json.loads(value)
            expect(rejected["clients"] == 1 and _REJECTION in rejected["message"], value)
            events = [
                event
                for event in kubernetes.get("/api/v1/namespaces/default/events")["items"]
                if event["involvedObject"]["name"] == "mesh"
            ]
            messages = {event["reason"]: event["message"] for event in events}
            expect(len(events) == 2 and messages.keys() == {"Invalid", "RejectedByClients"}, str(events))
            expect("oops" in messages["Invalid"], str(events))
            expect(_REJECTION in messages["RejectedByClients"], str(events))
        with scenario.check("the annotation is no change, and RPCs go on"):
            mark = serve.mark()
            counters = settled("counters", serve.counters, SILENCE)
            expect(counters["lds"] == (2, 1, 1), str(counters))
            expect(not serve.since(mark, "reloaded"), str(serve.since(mark, "reloaded")))
            client.expect_answer("first")
        with scenario.check("once the client accepts the repaired listener, the annotation is removed"):
            write(listener=text("edits/listener-repaired.yaml"))
            serve.wait_row("lds", "ACKED", lambda row: row.state == "ACKED")
            eventually("no annotation", lambda: _rejected(kubernetes) is None, _CLEAR_PATIENCE)
        with scenario.check("a deleted ConfigMap takes its resources with it"):
            kubernetes.delete(f"{_CONFIG_MAPS}/mesh")
            client.wait_failure()

    def refuses_a_change(self, scenario: Scenario) -> None:
        world = self._world(scenario, "--guard", "max-removal:cds=50")
        kubernetes, serve, client = world.kubernetes, world.serve, world.client
        data = _resources(client)
        kubernetes.create(_CONFIG_MAPS, _config_map(data))
        kubernetes.create(_CONFIG_MAPS, _config_map({}, "spare"))
        client.connect(server=serve.address, node=_NODE)
        client.expect_answer("first")
        serve.wait_acked(*_TYPES)
        rows = serve.settled()
        with scenario.check("a ConfigMap without its clusters is refused, and nothing is sent"):
            mark = serve.mark()
            kubernetes.patch(f"{_CONFIG_MAPS}/mesh", {"data": {"cluster.yaml": "resources: []\n"}})
            refused = serve.wait("refused", mark)
            expect(refused["objects"] == ["ConfigMap default/mesh"], str(refused))
            expect("kubectl annotate" in refused["force"] and refused["change"] in refused["force"], str(refused))
            client.expect_answer("first")
            serve.expect_sent(rows)
        with scenario.check("the ConfigMap has the id of the refused change and the guard in its annotation"):
            value = json.loads(eventually("an annotation", lambda: _rejected(kubernetes)))
            expect(value["refused"] == refused["change"] and "max-removal:cds=50" in value["message"], str(value))
        with scenario.check("the repaired ConfigMap ends the refusal, and the annotation is removed"):
            kubernetes.patch(f"{_CONFIG_MAPS}/mesh", {"data": {"cluster.yaml": data["cluster.yaml"]}})
            eventually("no annotation", lambda: _rejected(kubernetes) is None, _CLEAR_PATIENCE)
            client.expect_answer("first")
            serve.expect_sent(rows)
        with scenario.check("a deleted ConfigMap is refused, and an Event names it"):
            mark = serve.mark()
            kubernetes.delete(f"{_CONFIG_MAPS}/mesh")
            refused = serve.wait("refused", mark)
            client.expect_answer("first")
            serve.expect_sent(rows)
            event = eventually("an Event", lambda: _event(kubernetes, "RefusedByGuard"), _CLEAR_PATIENCE)
            expect(event["involvedObject"]["kind"] == "ConfigMap", str(event))
            expect("max-removal:cds=50" in event["message"], str(event))
        with scenario.check("the annotation xds-force of another ConfigMap serves the refused change"):
            force = {"metadata": {"annotations": {"xds-force": refused["change"]}}}
            kubernetes.patch(f"{_CONFIG_MAPS}/spare", force)
            serve.wait("forced", mark)
            client.wait_failure()
        self._measure(scenario, world)

    def clock_jumps(self, scenario: Scenario) -> None:
        clock = ShiftedClock(scenario)
        kubernetes = Kubernetes(scenario, self._programs)
        kubernetes.create(_CONFIG_MAPS, _config_map({"counter.yaml": cluster_text("counter", 0)}))
        flags = ["--kubeconfig", kubernetes.kubeconfig(), "--kube-namespace", "default"]
        serve = XdsServe(scenario, clock.wrap(self._xds), "kube://", flags=flags)
        watch = XdsWatch(scenario, self._xds, serve.address, "watch-1", ["cds"])
        changes = 0

        def change_arrives(patience: float = PATIENCE) -> None:
            nonlocal changes
            changes, mark = changes + 1, watch.mark()
            keys = {"counter.yaml": cluster_text("counter", changes)}
            kubernetes.patch(f"{_CONFIG_MAPS}/mesh", {"data": keys})
            text = f"count-{changes}"
            eventually(text, lambda: text in str(watch.events[mark:]), patience)
            removed = WatchedResources(watch.events).removed
            expect(not removed, f"removed: {removed}")

        eventually("the first state", lambda: "count-0" in str(watch.events))
        for title, jump in jumps(clock).items():
            with scenario.check(f"the clock jumps {title}: a change arrives, and nothing is removed"):
                jump()
                change_arrives()
        with scenario.check("the clock is set back by a year while the API server starts again: a change arrives"):
            mark = serve.mark()
            kubernetes.kill_apiserver()
            eventually("an error of the source", lambda: serve.since(mark, "file_error"))
            clock.set_day(-YEAR)
            kubernetes.start_apiserver()
            change_arrives(_CLEAR_PATIENCE)
            serve.stop_cleanly()

    def shares_rollouts(self, scenario: Scenario) -> None:
        rollouts_in_kubernetes(scenario, self._programs, self._xds)

    def _measure(self, scenario: Scenario, world: _World) -> None:
        """Changes a ConfigMap, and prints how long each change took to reach `xds watch`."""
        watch = XdsWatch(scenario, self._xds, world.serve.address, "watch-1", ["cds"])
        times = []
        for count in range(_MEASURED_CHANGES):
            mark, began = watch.mark(), time.time()
            keys = {"counter.yaml": cluster_text("counter", count)}
            world.kubernetes.patch(f"{_CONFIG_MAPS}/spare", {"data": keys})
            times.append((watch.receipt(mark, f"count-{count}") - began) * 1e3)
        comment(f"latency of {_MEASURED_CHANGES} changes of a ConfigMap, until xds watch has received them")
        comment(f"from the begin of the request: p50 {statistics.median(times):.1f} ms, max {max(times):.1f} ms")

    def _world(self, scenario: Scenario, *options: str) -> _World:
        kubernetes = Kubernetes(scenario, self._programs)
        # Isolated, so that nothing of this driver's path gets into the peer.
        argv: Argv = [self._grpc, "-I", "-B", workspace.INTEROP / "grpc-python" / "peer.py"]
        client = GrpcApplication(scenario, argv)
        flags = ["--kubeconfig", kubernetes.kubeconfig(), "--kube-namespace", "default", *options]
        serve = XdsServe(scenario, self._xds, "kube://", flags=flags)
        return _World(kubernetes, serve, client)


def _service() -> Json:
    return {
        "metadata": {"name": "greeter", "annotations": {"xds-service": "true"}},
        "spec": {"ports": [{"name": "grpc", "port": 50051, "targetPort": "grpc"}]},
    }


def _slice(kubernetes: Kubernetes, port: int | None) -> None:
    """Writes the EndpointSlice of the Service, with one endpoint at a port or with none."""
    endpoint = {"addresses": ["127.0.0.1"], "zone": "a", "conditions": {"ready": True}}
    kubernetes.store(
        _SLICE,
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "greeter-1",
                "namespace": "default",
                "uid": "0c1f3a52-6f1d-4b57-9d5e-2f6b0a9b7c11",
                "labels": {"kubernetes.io/service-name": "greeter"},
            },
            "addressType": "IPv4",
            "endpoints": [] if port is None else [endpoint],
            "ports": [{"name": "grpc", "port": port or 1, "protocol": "TCP"}],
        },
    )


def _config_map(data: dict[str, str], name: str = "mesh") -> Json:
    return {"metadata": {"name": name, "labels": {"xds-resources": "true"}}, "data": data}


def _text(client: GrpcApplication, template: str) -> str:
    """A template of the resources of gRPC clients, with the ports of the client's backends."""
    values: dict[str, object] = {f"{name}_port": port for name, port in client.ports.items()}
    return render(workspace.CONFIG / "grpc" / template, values)


def _resources(client: GrpcApplication) -> dict[str, str]:
    files = sorted((workspace.CONFIG / "grpc" / "resources").iterdir())
    return {file.name: _text(client, f"resources/{file.name}") for file in files}


def _event(kubernetes: Kubernetes, reason: str) -> Json | None:
    """The newest Event of the ConfigMap with this reason."""
    events = [
        event
        for event in kubernetes.get("/api/v1/namespaces/default/events")["items"]
        if event["involvedObject"]["name"] == "mesh" and event["reason"] == reason
    ]
    return max(events, key=lambda event: str(event["lastTimestamp"]), default=None)


def _rejected(kubernetes: Kubernetes) -> str | None:
    """The annotation with the rejections of the ConfigMap."""
    annotations = kubernetes.get(f"{_CONFIG_MAPS}/mesh")["metadata"].get("annotations", {})
    value: str | None = annotations.get("xds-rejected")
    return value
