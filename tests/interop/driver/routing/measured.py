"""Metrics of calls (A66): both clients have the same of the same calls."""

from __future__ import annotations

from collections import Counter

from driver.checks import Scenario
from driver.differential import resources
from driver.differential.stage import BOTH, Side, Stage
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

# C-core for Python does not export `grpc.client.call.duration`.
_COUNTED = (
    "grpc.client.attempt.started",
    "grpc.client.attempt.duration",
    "grpc.client.attempt.sent_total_compressed_message_size",
    "grpc.client.attempt.rcvd_total_compressed_message_size",
)
# Of these, the sums are times.
_TIMES = {"grpc.client.attempt.duration"}
_LABELS = ("grpc.method", "grpc.target", "grpc.status")
_CLUSTERS = ("plain", "retried", "nowhere")
# Metadata of calls whose first attempts fail, by status and number.
_CALLS = (
    *((f"/{name}/m", metadata) for name in ("plain", "retried") for metadata in ([], [], [["fail", "5 9"]])),
    ("/retried/m", [["fail", "14 1"]]),
    ("/retried/m", [["fail", "14 9"]]),
    ("/nowhere/m", []),
)


def play_measured(scenario: Scenario, stage: Stage) -> None:
    """Each kind of calls has a cluster of its own."""
    with scenario.check("both clients resolve their target"):
        _serve(stage)
    calls = [{"path": path, "metadata": metadata} for path, metadata in _CALLS]
    for side in BOTH:
        stage.calls(side, calls)
    for name in _COUNTED:
        with scenario.check(f"{name}: both measure the same"):

            def agree(name: str = name) -> bool:
                ours, core = (_measured(stage, side, name) for side in BOTH)
                expect(ours == core, f"ours: {dict(ours)}; C-core: {dict(core)}")
                return bool(ours)

            eventually("what both have measured", agree)


def _measured(stage: Stage, side: Side, name: str) -> Counter[str]:
    """How often a metric was measured, by labels, and the sums that are no times."""
    found: Counter[str] = Counter()
    for point in stage.metrics(side):
        if point["name"] != name:
            continue
        labels = " ".join(str(point["labels"].get(label, "")) for label in _LABELS)
        if point["count"] is not None and name != "grpc.client.attempt.started":
            found[f"{labels} count"] += point["count"]
        if name not in _TIMES:
            found[f"{labels} sum"] += int(point["sum"])
    return found


def _serve(stage: Stage) -> None:
    stage.open()
    stage.respond("lds", "1", resources.listener())
    stage.want(rds=["routes"])
    routes = [{"match": {"prefix": f"/{name}/"}, "route": {"cluster": name}} for name in _CLUSTERS]
    pause = {"base_interval": "0.01s", "max_interval": "0.02s"}
    routes[1]["route"]["retry_policy"] = {"retry_on": "unavailable", "num_retries": 2, "retry_back_off": pause}
    hosts = [{"name": "all", "domains": ["*"], "routes": routes}]
    stage.respond("rds", "1", {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": hosts})
    stage.want(cds=_CLUSTERS)
    stage.respond("cds", "1", *map(resources.cluster, _CLUSTERS))
    stage.want(eds=_CLUSTERS)
    ports = (*stage.backends[:2], resources.closed_port())
    stage.respond("eds", "1", *(resources.endpoints(name, port) for name, port in zip(_CLUSTERS, ports, strict=True)))
    stage.follow()
