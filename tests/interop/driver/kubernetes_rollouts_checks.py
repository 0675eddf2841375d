"""Three `xds serve kube://` that share their rollouts through a Lease, and of which whoever moves one on is killed."""

from __future__ import annotations

from pathlib import Path

from driver.checks import Scenario, comment
from driver.etcd_world import cluster_text
from driver.istio_world import Json, Kubernetes, KubernetesPrograms
from driver.shared_servers import COMPLETED, SharedServers
from driver.waiting import SILENCE, eventually, expect, stays
from driver.xds import XdsWatch

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_PATIENCE = 120.0


def rollouts_in_kubernetes(scenario: Scenario, programs: KubernetesPrograms, xds: Path) -> None:
    """Plays a rollout that completes, and one that is rolled back."""
    kubernetes = Kubernetes(scenario, programs)
    kubernetes.create(_CONFIG_MAPS, _config_map(0))
    flags = ["--kubeconfig", kubernetes.kubeconfig(), "--kube-namespace", "default"]
    flags += ["--kube-rollouts", "default/mesh-rollout"]

    def stored() -> tuple[str, str]:
        leases = kubernetes.get(_LEASES)["items"]
        lease = next((it for it in leases if it["metadata"]["name"] == "mesh-rollout"), None)
        expect(lease is not None, "there is no Lease")
        assert lease is not None
        return lease["metadata"]["annotations"]["xds-rollout-state"], lease["spec"]["holderIdentity"]

    servers = SharedServers(scenario, xds, "kube://", flags, "canary-*", stored)
    canaries = [XdsWatch(scenario, xds, it.address, f"canary-{at}", ["cds"]) for at, it in enumerate(servers.serves)]
    others = [XdsWatch(scenario, xds, it.address, f"other-{at}", ["cds"]) for at, it in enumerate(servers.serves)]

    def wait_count(watches: list[XdsWatch], count: int) -> None:
        for watch in watches:
            text = f"count-{count}"
            eventually(text, lambda watch=watch, text=text: text in str(watch.changes(0)[-1:]), _PATIENCE)

    with scenario.check("three servers agree on what is stable"):
        wait_count([*canaries, *others], 0)
        state = servers.state()
        expect((state["phase"], state["generation"]) == ("completed", "1"), str(state))
    with scenario.check("a rollout completes, although whoever moves it on is killed"):
        before = servers.state()["id"]
        kubernetes.patch(f"{_CONFIG_MAPS}/mesh", _config_map(1))
        states = servers.kill_at_every_step(before)
        comment(f"{', '.join(states)}: {len(servers.killed)} servers killed")
        expect(states == COMPLETED, str(states))
        wait_count([*canaries, *others], 1)
    with scenario.check("a change that a client rejects is rolled back, and no other client has seen it"):
        before, marks = servers.state()["id"], [watch.mark() for watch in others]
        kubernetes.patch(f"{_CONFIG_MAPS}/mesh", _config_map(2, "connect_timeout: 0s\n"))
        states = servers.kill_at_every_step(before)
        comment(f"{', '.join(states)}: {len(servers.killed)} servers killed")
        expect(states[-1].startswith("rolled-back 1/"), str(states))
        why = servers.state()["why"]
        expect("canary-" in why and "counter" in why, why)
        wait_count([*canaries, *others], 1)

        def seen() -> list[bool]:
            return ["count-2" in str(watch.events[mark:]) for watch, mark in zip(others, marks, strict=True)]

        expect(not any(stays("the others", seen, SILENCE)), str(seen()))
    with scenario.check("servers that start now serve what is stable, and roll out the repaired ConfigMap"):
        servers.restart_all()
        wait_count([*canaries, *others], 1)
        kubernetes.patch(f"{_CONFIG_MAPS}/mesh", _config_map(3))
        eventually("completed", servers.is_completed, _PATIENCE)
        wait_count([*canaries, *others], 3)
    with scenario.check("the Leases of the servers that were killed are gone"):
        alive = {f"{it.process_id}" for it in servers.serves}

        def leases() -> bool:
            names = [it["metadata"]["name"] for it in kubernetes.get(_LEASES)["items"]]
            replicas = {name.rpartition("-")[2] for name in names if name.startswith("mesh-rollout-")}
            expect(replicas == alive, f"{replicas}, expected {alive}")
            return True

        eventually("leases", leases, _PATIENCE)
        for serve in servers.serves:
            serve.stop_cleanly()
        left = [it["metadata"]["name"] for it in kubernetes.get(_LEASES)["items"]]
        expect([name for name in left if name.startswith("mesh-rollout")] == ["mesh-rollout"], str(left))


def _config_map(count: int, more: str = "") -> Json:
    labels = {"xds-resources": "true"}
    data = {"counter.yaml": cluster_text("counter", count) + more}
    return {"metadata": {"name": "mesh", "labels": labels}, "data": data}
