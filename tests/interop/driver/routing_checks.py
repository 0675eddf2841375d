"""Ours and gRPC C-core have the same routes: they send the same calls to the same backends."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.differential import resources
from driver.differential.scenes import resolves
from driver.differential.stage import BOTH, Side, Stage
from driver.routing.tables import CALLS, CLUSTERS, Table, tables
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

NAME = "routing"
# How many standard deviations a share may be off; of a thousand runs, less than one is, for any of the shares.
_DEVIATIONS = 5.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Plays every table: both clients are sent it and make the same calls."""
    python, client = workspace.virtual_environment("grpc"), workspace.example("interop-client")

    def body(scenario: Scenario) -> None:
        stage = Stage(scenario, python, client, "caller.py")
        report.version = f"C-core {stage.versions[Side.CORE]} (Python)"
        with scenario.check("both clients resolve their target"):
            resolves(stage, *CLUSTERS)
            stage.follow()
            found = zip(CLUSTERS, stage.backends, strict=True)
            stage.respond("eds", "backends", *(resources.endpoints(name, port) for name, port in found))
        for number, table in enumerate(tables(), start=1):
            _play(table, number, stage, scenario)

    play(report, run_dir, {f"{NAME}: where calls go": body})


def _play(table: Table, number: int, stage: Stage, scenario: Scenario) -> None:
    marker = f"/marker/{number}"
    hosts = table.virtual_hosts(marker)
    stage.respond(
        "rds", f"table {number}", {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": hosts}
    )
    for side in BOTH:
        # An ACK says that routes are valid, not that they are in use. What else they change is in use by then.
        mark = [{"path": marker, "metadata": []}]
        eventually(f"{side.value} uses {table.about}", lambda side=side: "port" in stage.calls(side, mark)[0])
    calls = table.calls()
    letters = dict(zip(stage.backends, CLUSTERS, strict=True))
    ours, core = (
        [letters.get(outcome.get("port", 0), outcome.get("code")) for outcome in stage.calls(side, calls)]
        for side in (Side.OURS, Side.CORE)
    )
    told = ", ".join(f"{count} {where}" for where, count in sorted(Counter(ours).items(), key=str))
    if table.shares:
        with scenario.check(f"{table.about}: of {CALLS} calls, ours sends {told}, and both are within bounds"):
            for side, outcomes in ((Side.OURS, ours), (Side.CORE, core)):
                _expect_shares(table, side, Counter(outcomes))
        return
    but = "".join(f", but for {call}: {why}" for call, why in table.explained.items())
    with scenario.check(f"{table.about}: {CALLS} calls, of which both send {told}{but}"):
        different = {
            f"{call['path']} {call['metadata']}: ours {left}, C-core {right}"
            for call, left, right in zip(calls, ours, core, strict=True)
            if left != right
        }
        unexplained = different ^ set(table.explained)
        expect(not unexplained, "\n".join(sorted(unexplained)))


def _expect_shares(table: Table, side: Side, found: Counter[object]) -> None:
    expect(set(found) == set(table.shares), f"{side.value}: {found}")
    for name, share in table.shares.items():
        bound = _DEVIATIONS * sqrt(CALLS * share * (1 - share))
        off = abs(found[name] - CALLS * share)
        expect(off <= bound, f"{side.value}: {found[name]} calls to {name}, {off:.0f} off, more than {bound:.0f}")
