"""Load reports that `xds serve` receives from peers."""

from __future__ import annotations

from collections import Counter

from driver.checks import Scenario
from driver.grpc_application import GrpcApplication
from driver.waiting import eventually, expect
from driver.xds import XdsServe

FLAGS = ("--load-reports", "1s")
# A cluster whose load is reported, in the place of the one that is not.
INSTEAD: dict[str, str | None] = {"cluster.yaml": "edits/cluster-with-load-reports.yaml"}
_CALLS = 7


def sums(serve: XdsServe, cluster: str, node: str) -> Counter[str]:
    """The sums of all that a node has reported of a cluster."""
    found: Counter[str] = Counter()
    for event in serve.since(0, "load_report"):
        if (event["cluster"], event["node_id"]) != (cluster, node):
            continue
        expect(event["seconds"] > 0, f"an interval of {event['seconds']} seconds")
        found["dropped"] += event["dropped"]
        for locality in event["localities"]:
            for count in ("issued", "succeeded", "failed"):
                found[count] += locality[count]
            found[f"region {locality.get('region', '')}"] += locality["issued"]
    return Counter({key: value for key, value in found.items() if value})


def wait_for(serve: XdsServe, cluster: str, node: str, wanted: dict[str, int]) -> None:
    """Waits until exactly this load has been reported."""

    def probe() -> bool:
        found = sums(serve, cluster, node)
        expect(found == Counter(wanted), f"{dict(found)} instead of {wanted}")
        return True

    eventually("the load of the calls", probe)


def check_reports(scenario: Scenario, serve: XdsServe, client: GrpcApplication, node: str) -> None:
    """A gRPC client reports its calls, by locality."""
    with scenario.check(f"{_CALLS} RPCs are reported to xds serve, with their locality"):
        for _ in range(_CALLS):
            client.expect_answer("first")
        wanted = {"issued": _CALLS, "succeeded": _CALLS, "region here": _CALLS}
        wait_for(serve, "backend", node, wanted)
