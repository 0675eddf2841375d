"""Clusters whose load is reported (A27, A64, A85): both clients report the same of the same calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.checks import Scenario
from driver.differential import resources
from driver.differential.stage import BOTH, Side, Stage
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

_SELF = {"lrs_server": {"self": {}}}
_METRICS = ["cpu_utilization", "named_metrics.queue", "named_metrics.absent", "unknown"]
_DROP_ALL = {"drop_overloads": [{"category": "all", "drop_percentage": {"numerator": 100, "denominator": "HUNDRED"}}]}
# Metadata of calls that end with NOT_FOUND, and of those whose response contains metrics.
_FAILED = [["fail", "5 99"]]
_WITH_METRICS = [["metrics", "queue=2 users=3"]]


@dataclass(frozen=True)
class _Case:
    """A cluster, its calls, and the sums of their load; `None`: nothing is reported."""

    about: str
    load: Mapping[str, float] | None
    fields: Mapping[str, Any] = field(default_factory=lambda: _SELF)
    calls: tuple[list[list[str]], ...] = ()
    policy: Mapping[str, Any] | None = None
    service: str = ""


_CASES = (
    _Case(
        "calls that succeed and fail",
        {"issued": 12, "succeeded": 7, "failed": 5, "region here": 12},
        calls=([],) * 7 + (_FAILED,) * 5,
    ),
    _Case("a cluster without LRS", None, fields={}, calls=([],) * 3),
    _Case("the name of the endpoints", {"issued": 3, "succeeded": 3, "region here": 3}, calls=([],) * 3, service="eds"),
    _Case("calls that are dropped", {"dropped": 6, "dropped all": 6}, calls=([],) * 6, policy=_DROP_ALL),
    _Case(
        "metrics that the cluster selects",
        {
            "issued": 4,
            "succeeded": 4,
            "region here": 4,
            "cpu_utilization calls": 4,
            "cpu_utilization": 1.0,
            "named_metrics.queue calls": 4,
            "named_metrics.queue": 8.0,
        },
        fields={**_SELF, "lrs_report_endpoint_metrics": _METRICS},
        calls=(_WITH_METRICS,) * 4,
    ),
    _Case(
        "all named metrics",
        {
            "issued": 2,
            "succeeded": 2,
            "region here": 2,
            "named_metrics.queue calls": 2,
            "named_metrics.queue": 4.0,
            "named_metrics.users calls": 2,
            "named_metrics.users": 6.0,
        },
        fields={**_SELF, "lrs_report_endpoint_metrics": ["named_metrics.*"]},
        calls=(_WITH_METRICS,) * 2,
    ),
    _Case("no metrics without selection", {"issued": 2, "succeeded": 2, "region here": 2}, calls=(_WITH_METRICS,) * 2),
)
_NAMES = {f"case-{number:02}": case for number, case in enumerate(_CASES)}


def play_reported(scenario: Scenario, stage: Stage) -> None:
    """Each case has a cluster and a path of its own; both clients are sent all of them at once."""
    with scenario.check("both clients take clusters whose load is reported"):
        _serve(stage)
    for side in BOTH:
        for name, case in _NAMES.items():
            calls = [{"path": f"/{name}/m", "metadata": metadata} for metadata in case.calls]
            stage.calls(side, calls)
    for name, case in _NAMES.items():
        what = "report nothing" if case.load is None else f"report {_told(case.load)}"
        with scenario.check(f"{case.about}: both {what}"):
            for side in BOTH:
                eventually(f"the load of {side.value}", lambda side=side: _is_reported(stage, side, name, case))
    for side in BOTH:
        with scenario.check(f"{side.value}: the first message has the node, and no other one does"):
            first, *others = stage.reports(side)
            expect(first["node"]["id"] == "node-1" and not first["clusters"], f"{first}")
            features = first["node"]["client_features"]
            expect("envoy.lrs.supports_send_all_clusters" in features, f"{features}")
            expect(bool(others) and all(other["node"] is None for other in others), f"{others}")
        with scenario.check(f"{side.value}: intervals are those between reports"):
            clusters = [stats for report in stage.reports(side) for stats in report["clusters"]]
            seconds = [float(stats["load_report_interval"].removesuffix("s")) for stats in clusters]
            expect(all(0.0 < interval < 60.0 for interval in seconds), f"{seconds}")


def _is_reported(stage: Stage, side: Side, name: str, case: _Case) -> bool:
    found, services = _sums(stage, side, name)
    expect(found == Counter(case.load or {}), f"{side.value}: {dict(found)} instead of {case.load}")
    expect(case.load is None or services == {case.service}, f"{side.value}: of the endpoints {services}")
    return True


def _told(load: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in load.items() if not name.startswith("region"))


def _serve(stage: Stage) -> None:
    names = list(_NAMES)
    stage.open()
    stage.respond("lds", "1", resources.listener())
    stage.want(rds=["routes"])
    routes = [{"match": {"prefix": f"/{name}/"}, "route": {"cluster": name}} for name in names]
    hosts = [{"name": "all", "domains": ["*"], "routes": routes}]
    stage.respond("rds", "1", {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": hosts})
    stage.want(cds=names)
    clusters, endpoints = [], []
    for number, (name, case) in enumerate(_NAMES.items()):
        cluster = resources.cluster(name, **case.fields)
        cluster["eds_cluster_config"] = {**cluster["eds_cluster_config"], "service_name": case.service}
        clusters.append(cluster)
        assigned = resources.endpoints(case.service or name, stage.backends[number % len(stage.backends)])
        endpoints.append({**assigned, **({"policy": case.policy} if case.policy else {})})
    stage.respond("cds", "1", *clusters)
    stage.want(eds=[case.service or name for name, case in _NAMES.items()])
    stage.respond("eds", "1", *endpoints)
    stage.follow()


def _sums(stage: Stage, side: Side, name: str) -> tuple[Counter[str], set[str]]:
    """The sums of what is reported of a cluster, and the names of its endpoints."""
    sums: Counter[str] = Counter()
    services = set()
    for report in stage.reports(side):
        for stats in report["clusters"]:
            if stats["cluster_name"] != name:
                continue
            services.add(stats.get("cluster_service_name", ""))
            sums["dropped"] += int(stats.get("total_dropped_requests", 0))
            for dropped in stats.get("dropped_requests", []):
                sums[f"dropped {dropped['category']}"] += int(dropped["dropped_count"])
            for locality in stats.get("upstream_locality_stats", []):
                sums.update(_of_locality(locality))
    return Counter({key: value for key, value in sums.items() if value}), services


def _of_locality(load: Mapping[str, Any]) -> Counter[str]:
    counts: Counter[str] = Counter()
    fields = {"issued": "issued_requests", "succeeded": "successful_requests", "failed": "error_requests"}
    for key, of in fields.items():
        counts[key] = int(load.get(f"total_{of}", 0))
    counts[f"region {load.get('locality', {}).get('region', '')}"] = counts["issued"]
    metrics = [(metric["metric_name"], metric) for metric in load.get("load_metric_stats", [])]
    utilizations = ("cpu_utilization", "mem_utilization", "application_utilization")
    metrics += [(key, load[key]) for key in utilizations if key in load]
    for key, metric in metrics:
        counts[f"{key} calls"] = int(metric["num_requests_finished_with_metric"])
        counts[key] = metric["total_metric_value"]
    return counts
