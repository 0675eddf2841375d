"""Ours and gRPC C-core on the same script of a management server: what they say, field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, comment, play
from driver.differential.compare import FIELDS, Comparison, Difference, compare
from driver.differential.explained import EXPLANATIONS, Explanation, explains
from driver.differential.scenes import SCENES, Scene
from driver.differential.stage import Side, Stage
from driver.waiting import expect

NAME = "differential"


def run(report: PeerReport, run_dir: Path) -> None:
    """Plays every scene to both clients and compares."""
    differential = _Differential(
        workspace.virtual_environment("grpc"), workspace.example("interop-client"), report
    )
    play(
        report,
        run_dir,
        {f"{NAME}: {title}": differential.scene(title, scene) for title, scene in SCENES.items()},
    )
    differential.conclude()


class _Differential:
    def __init__(self, python: Path, client: Path, report: PeerReport) -> None:
        self._python = python
        self._client = client
        self._report = report
        self._compared: list[Comparison] = []
        # How often each listed difference has occurred.
        self._occurred: Counter[Difference] = Counter()

    def scene(self, title: str, scene: Scene) -> Callable[[Scenario], None]:
        """A scene as a scenario of two checks."""

        def body(scenario: Scenario) -> None:
            stage = Stage(scenario, self._python, self._client)
            self._report.version = f"C-core {stage.versions[Side.CORE]} (Python)"
            with scenario.check(f"{title}: both clients play it to the end"):
                scene(stage)
            said = stage.transcripts()
            compared = compare(title, said[Side.OURS], said[Side.CORE])
            self._compared.append(compared)
            unexplained = [found for found in compared.differences if not self._explain(found)]
            explained = len(compared.differences) - len(unexplained)
            with scenario.check(
                f"{title}: {compared.requests} requests of each are the same in {len(FIELDS)} fields"
                + (f", but for {explained} explained" if explained else "")
            ):
                expect(not unexplained, "unexplained:\n" + "\n".join(map(str, unexplained)))

        return body

    def _explain(self, found: Difference) -> bool:
        for explanation in EXPLANATIONS:
            for listed in explanation.differences:
                if explains(listed, found):
                    self._occurred[listed] += 1
                    return True
        return False

    def conclude(self) -> None:
        """Says how much was compared; what is explained and did not occur is a failure."""
        if len(self._compared) < len(SCENES):
            # What did not occur may have been due in a scene that was not played to its end.
            return
        title = "every explained difference has occurred"
        absent = [
            str(listed)
            for explanation in EXPLANATIONS
            for listed in explanation.differences
            if not self._occurred[listed]
        ]
        if absent:
            self._report.not_ok(title, "not any more:\n" + "\n".join(absent))
        else:
            self._report.ok(title)
        requests, fields, differences = (
            sum(compared.requests for compared in self._compared),
            sum(compared.fields for compared in self._compared),
            sum(len(compared.differences) for compared in self._compared),
        )
        comment(
            f"{len(SCENES)} scenes, {requests} pairs of requests, {fields} pairs of fields;"
            f" {differences} differences, of which {sum(self._occurred.values())} are explained:"
        )
        for explanation in EXPLANATIONS:
            comment(f"{self._times(explanation):>5}  {explanation.why}")

    def _times(self, explanation: Explanation) -> int:
        return sum(self._occurred[listed] for listed in explanation.differences)
