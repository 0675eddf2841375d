"""Ours and gRPC C-core judge the same resources: what one NACKs, the other does, too. The messages of cncf/xds are
those of the package that Google publishes for it."""

from __future__ import annotations

from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, comment, play
from driver.differential.scenes import resolves
from driver.differential.stage import BOTH, Side, Stage
from driver.validity.cases import Case, Verdict, cases
from driver.validity.definitions import agrees_on_definitions
from driver.waiting import expect

NAME = "validity"


def run(report: PeerReport, run_dir: Path) -> None:
    """Sends every case to both clients, each of which answers with an ACK or a NACK."""
    python, client = workspace.virtual_environment("grpc"), workspace.example("interop-client")

    def body(scenario: Scenario) -> None:
        stage = Stage(scenario, python, client)
        report.version = f"C-core {stage.versions[Side.CORE]} (Python)"
        with scenario.check("both clients resolve their target"):
            resolves(stage)
        wrong = []
        for number, case in enumerate(cases(), start=2):
            wrong.extend(_judge(case, stage, number, report))
        with scenario.check(f"{len(cases())} resources are judged as the table says"):
            expect(not wrong, "\n".join(wrong))

    play(
        report,
        run_dir,
        {
            f"{NAME}: definitions": lambda scenario: agrees_on_definitions(scenario, python),
            f"{NAME}: what both accept and reject": body,
        },
    )
    for verdict in Verdict:
        comment(f"{sum(case.verdict is verdict for case in cases()):>5}  rejected by {verdict.value}")


def _judge(case: Case, stage: Stage, number: int, report: PeerReport) -> list[str]:
    """What is not as the table says."""
    stage.respond(case.type_name, str(number), case.resource)
    said = {side: stage.rejection(side, case.type_name) for side in BOTH}
    rejected = {side for side in BOTH if said[side] is not None}
    found = {
        frozenset(): Verdict.NEITHER,
        frozenset(BOTH): Verdict.BOTH,
        frozenset([Side.OURS]): Verdict.OURS,
        frozenset([Side.CORE]): Verdict.CORE,
    }[frozenset(rejected)]
    if found is case.verdict:
        title = f"{case.type_name}: {case.about}: rejected by {found.value}"
        report.ok(f"{title}: {case.why}" if case.why else title)
        return []
    words = "; ".join(f"{side.value}: {said[side] or 'ACK'}" for side in BOTH)
    return [f"{case.type_name}: {case.about}: rejected by {found.value}, not {case.verdict.value}: {words}"]
