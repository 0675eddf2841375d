"""Ours and gRPC C-core have the same routes: they send the same calls to the same backends."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.differential import resources
from driver.differential.scenes import resolves
from driver.differential.stage import BOTH, Side, Stage
from driver.routing.compare import Outcome, but, expect_same, expect_shares, told
from driver.routing.explained import expect_explained, expect_shares_explained
from driver.routing.hashed import HASHED
from driver.routing.measured import play_measured
from driver.routing.reported import play_reported
from driver.routing.secured import play_secured
from driver.routing.sessions import play_sessions
from driver.routing.tables import CALLS, CLUSTERS, Table, tables, to
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

NAME = "routing"
_WEIGHTED = "type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3"
# Calls for which endpoints are chosen by weight, and in turn.
_SPREAD = Table("endpoints", [], domains={"*": "a"})


def _retried(path: str, retry_on: str, retries: int) -> dict[str, object]:
    # With a pause of 1 ms, C-core does not repeat a call at all.
    pause = {"base_interval": "0.01s", "max_interval": "0.02s"}
    policy = {"retry_on": retry_on, "num_retries": retries, "retry_back_off": pause}
    route = to("a", path=path)
    return {**route, "route": {**route["route"], "retry_policy": policy}}


# Calls whose first attempts fail: with statuses that policies name, and one that none can name.
_RETRIES = Table(
    "retries",
    [
        _retried("/s/two", "unavailable,5xx,reset", 2),
        _retried("/s/several", "internal,resource-exhausted,cancelled,deadline-exceeded", 3),
        _retried("/s/most", "unavailable", 9),
        to("b", prefix=""),
    ],
    ("/s/two", "/s/several", "/s/most", "/s/none"),
    (
        [],
        *(
            [["fail", f"{code} {failing}"]]
            for code in (1, 2, 4, 8, 13, 14)
            for failing in (1, 3, 4, 5)
        ),
    ),
)


def run(report: PeerReport, run_dir: Path) -> None:
    """Plays every table: both clients are sent it and make the same calls."""
    python, client = workspace.virtual_environment("grpc"), workspace.example("interop-client")

    def body(scenario: Scenario) -> None:
        stage = Stage(scenario, python, client, "caller.py")
        report.version = f"C-core {stage.versions[Side.CORE]} (Python)"
        with scenario.check("both clients resolve their target"):
            resolves(stage, *CLUSTERS)
            stage.follow()
            _give_each_a_backend(stage, "backends")
        for number, table in enumerate(tables(), start=1):
            _play(table, number, stage, scenario)
        _spread(len(tables()) + 1, stage, scenario)
        _retry(len(tables()) + 2, stage, scenario)
        _hash(len(tables()) + 3, stage, scenario)
        _eject(stage, scenario)
        _weigh(stage, scenario)

    def over_tls(scenario: Scenario) -> None:
        play_secured(scenario, Stage(scenario, python, client, "caller.py"), workspace.virtual_environment("envoy"))

    def in_sessions(scenario: Scenario) -> None:
        play_sessions(scenario, Stage(scenario, python, client, "caller.py"))

    def reported(scenario: Scenario) -> None:
        play_reported(scenario, Stage(scenario, python, client, "caller.py"))

    def measured(scenario: Scenario) -> None:
        play_measured(scenario, Stage(scenario, workspace.virtual_environment("observability"), client, "measured.py"))

    scenarios = {
        "where calls go": body,
        "where calls go by TLS": over_tls,
        "where calls of sessions go": in_sessions,
        "load that is reported": reported,
        "what is measured of calls": measured,
    }
    play(report, run_dir, {f"{NAME}: {title}": story for title, story in scenarios.items()})


def _give_each_a_backend(stage: Stage, version: str) -> None:
    found = zip(CLUSTERS, stage.backends, strict=True)
    stage.respond("eds", version, *(resources.endpoints(name, port) for name, port in found))


def _play(table: Table, number: int, stage: Stage, scenario: Scenario) -> None:
    _serve(table, number, stage)
    calls = table.calls()
    ours, core = (_made(stage, side, calls) for side in (Side.OURS, Side.CORE))
    if table.shares:
        with scenario.check(f"{table.about}: of {CALLS} calls, ours sends {told(ours)}, and both are within bounds"):
            for side, outcomes in ((Side.OURS, ours), (Side.CORE, core)):
                expect_shares(side.value, outcomes, table.shares)
        with scenario.check(f"{table.about}: `xds route explain` has the same shares"):
            expect_shares_explained(_files(table, number, scenario), "grpc", calls[0], table.shares)
        return
    with scenario.check(f"{table.about}: {CALLS} calls, of which both send {told(ours)}{but(table.explained)}"):
        expect_same(calls, ours, "C-core", core, table.explained)
    with scenario.check(f"{table.about}: `xds route explain` agrees with ours on each call"):
        expect_explained(_files(table, number, scenario), "grpc", calls, ours)


def _files(table: Table, number: int, scenario: Scenario) -> Path:
    """A directory with the resources of a table."""
    directory = scenario.directory / "explained"
    directory.mkdir(exist_ok=True)
    routes = {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": table.virtual_hosts(number)}
    documents = [resources.listener(), routes, *map(resources.cluster, CLUSTERS)]
    documents += [resources.endpoints(name) for name in CLUSTERS]
    (directory / "resources.json").write_text(json.dumps(documents), encoding="utf-8")
    return directory


def _serve(table: Table, number: int, stage: Stage) -> None:
    """Sends both a table, and waits until both use it."""
    hosts = table.virtual_hosts(number)
    stage.respond("rds", f"table {number}", {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": hosts})
    marks = [{"path": path, "metadata": []} for path in table.marks(number)]
    for side in BOTH:
        # An ACK says that routes are valid, not that they are in use. What else they change is in use by then.
        eventually(
            f"{side.value} uses {table.about}", lambda side=side: _made(stage, side, marks) == list(CLUSTERS)
        )


def _made(stage: Stage, side: Side, calls: Sequence[object]) -> list[Outcome]:
    """Calls, and which backend has answered each, else the status."""
    letters = dict(zip(stage.backends, CLUSTERS, strict=True))
    return [letters.get(made.get("port", 0), made.get("code", "?")) for made in stage.calls(side, calls)]


def _retry(number: int, stage: Stage, scenario: Scenario) -> None:
    """Both repeat the same failed calls, equally often: attempts beyond the limit would have been answered."""
    _give_each_a_backend(stage, "retries")
    _serve(_RETRIES, number, stage)
    # Each once, because of the pauses.
    every = itertools.product(_RETRIES.paths, _RETRIES.metadata)
    calls = [{"path": path, "metadata": metadata} for path, metadata in every]
    ours, core = (_made(stage, side, calls) for side in (Side.OURS, Side.CORE))
    with scenario.check(f"calls that fail at first: of {len(calls)}, both end {told(ours)}"):
        expect_same(calls, ours, "C-core", core, {})
        expect({"a", "b", 14} <= set(ours), "some calls are answered after retries, and some fail")


def _hash(number: int, stage: Stage, scenario: Scenario) -> None:
    """One cluster has all backends on a ring of hashes: both clients have the same ring and the same hashes."""
    _serve(HASHED, number, stage)
    first, second, *others = stage.backends
    rings: dict[str, tuple[dict[str, object], list[tuple[int, int, list[int]]]]] = {
        "equal weights": ({}, [(0, 1, stage.backends)]),
        "localities by weight": ({"minimum_ring_size": 100}, [(0, 2, [first]), (0, 3, [second]), (0, 1, others)]),
        "a small ring": ({"minimum_ring_size": 5, "maximum_ring_size": 40}, [(0, 1, stage.backends)]),
    }
    unchanged = [resources.cluster(name) for name in CLUSTERS[1:]]
    endpoints = [
        resources.endpoints(name, port) for name, port in zip(CLUSTERS[1:], stage.backends[1:], strict=True)
    ]
    calls = HASHED.calls()
    for about, (sizes, localities) in rings.items():
        ring = resources.cluster("a", lb_policy="RING_HASH", ring_hash_lb_config=sizes)
        stage.respond("cds", about, ring, *unchanged)
        stage.respond("eds", f"ring: {about}", resources.localities("a", localities), *endpoints)

        def agree() -> bool:
            ours, core = (_made(stage, side, calls[:100]) for side in BOTH)
            return ours == core

        # Until both use the new ring.
        eventually(f"both have the ring of {about}", agree)
        ours, core = (_made(stage, side, calls) for side in BOTH)
        with scenario.check(f"ring hash, {about}: {CALLS} calls, of which both send {told(ours)}"):
            expect_same(calls, ours, "C-core", core, {})
            expect(len(set(ours)) > 1, "the calls are spread")


def _with_all_backends(about: str, stage: Stage, cluster: resources.Resource) -> None:
    """One cluster has all backends; it is this one."""
    others = [resources.cluster(name) for name in CLUSTERS[1:]]
    stage.respond("cds", about, cluster, *others)
    ports = zip(CLUSTERS[1:], stage.backends[1:], strict=True)
    endpoints = [resources.endpoints(name, port) for name, port in ports]
    stage.respond("eds", about, resources.localities("a", [(0, 1, stage.backends)]), *endpoints)


def _eject(stage: Stage, scenario: Scenario) -> None:
    """Both eject a backend whose calls fail, and no other."""
    outliers = {
        "interval": "0.5s",
        "base_ejection_time": "600s",
        "max_ejection_time": "600s",
        "max_ejection_percent": 20,
        "enforcing_success_rate": 0,
        "enforcing_failure_percentage": 100,
        "failure_percentage_threshold": 50,
        "failure_percentage_minimum_hosts": 5,
        "failure_percentage_request_volume": 5,
    }
    _with_all_backends("outliers", stage, resources.cluster("a", outlier_detection=outliers))
    broken = [["broken", str(stage.backends[1])]]
    calls = [{"path": "/s/none", "metadata": broken} for _ in range(200)]
    after = {"a", "c", "d", "e"}
    for side in BOTH:
        with scenario.check(f"{side.value}: a backend whose calls fail is ejected"):
            first = Counter(_made(stage, side, calls))
            expect(first[14] > 0, f"the first calls: {first}")
            eventually("no call fails", lambda side=side: set(_made(stage, side, calls)) == after)
            calm = [{"path": "/s/none", "metadata": []} for _ in range(200)]
            expect(set(_made(stage, side, calm)) == after, "the ejection continues although no call fails")


def _weigh(stage: Stage, scenario: Scenario) -> None:
    """Both send calls in inverse proportion to the utilization that the backends report, either with their responses
    or, to be told apart in the opposite order, on streams."""
    ascending = [0.2, 0.4, 0.4, 0.8, 0.8]
    stage.load(ascending[::-1])
    loads = " ".join(f"{port}={load}" for port, load in zip(stage.backends, ascending, strict=True))
    calls = [{"path": "/s/none", "metadata": [["loads", loads]]} for _ in range(CALLS)]
    shares = (0.4, 0.2, 0.2, 0.1, 0.1)

    def weighted(side: Side, letters: str) -> bool:
        found = Counter(_made(stage, side, calls))
        return all(abs(found[name] - CALLS * share) < CALLS * 0.02 for name, share in zip(letters, shares, strict=True))

    for about, streams, letters in (("with responses", False, CLUSTERS), ("on streams", True, CLUSTERS[::-1])):
        config = {
            "@type": f"{_WEIGHTED}.ClientSideWeightedRoundRobin",
            "blackout_period": "0s",
            "weight_update_period": "0.1s",
            "enable_oob_load_report": streams,
            "oob_reporting_period": "0.2s",
        }
        policies = [{"typed_extension_config": {"name": "weighted", "typed_config": config}}]
        cluster = resources.cluster("a", load_balancing_policy={"policies": policies})
        _with_all_backends(f"weights {about}", stage, cluster)
        for side in BOTH:
            title = f"{side.value}: calls by the load that backends report {about}, within 2 percent of all"
            with scenario.check(title):
                eventually("they are in proportion", lambda side=side, letters=letters: weighted(side, letters))


def _spread(number: int, stage: Stage, scenario: Scenario) -> None:
    """One cluster has all backends: which of them has a call is for its endpoints to say."""
    _serve(_SPREAD, number, stage)
    calls = _SPREAD.calls()
    first, second, third, *others = stage.backends
    nowhere = resources.closed_port()
    cases = {
        "endpoints of one locality, in turn": ([(0, 1, [first, second])], {"a": 0.5, "b": 0.5}),
        "localities by weight": (
            [(0, 1, [first]), (0, 3, [second, third])],
            {"a": 0.25, "b": 0.375, "c": 0.375},
        ),
        "a priority where nobody is, then one by weight": (
            [(0, 1, [nowhere]), (1, 1, [first]), (1, 4, others)],
            {"a": 0.2, "d": 0.4, "e": 0.4},
        ),
    }
    unchanged = [
        resources.endpoints(name, port) for name, port in zip(CLUSTERS[1:], stage.backends[1:], strict=True)
    ]
    for about, (localities, shares) in cases.items():
        stage.respond("eds", about, resources.localities("a", localities), *unchanged)
        for side in BOTH:

            def connected(side: Side = side) -> bool:
                return set(_made(stage, side, calls[:100])) == set(shares)

            eventually(f"{side.value} calls {sorted(shares)}", connected)
        made = {side: _made(stage, side, calls) for side in BOTH}
        title = f"{about}: of {CALLS} calls, ours sends {told(made[Side.OURS])}, and both are within bounds"
        with scenario.check(title):
            for side, outcomes in made.items():
                expect_shares(side.value, outcomes, shares)
