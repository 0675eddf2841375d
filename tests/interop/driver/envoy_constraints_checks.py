"""Envoy as the oracle for constraints: what `envoy --mode validate` rejects, `xds check --validate` does, too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from driver.checks import Scenario
from driver.envoy_constraints import Case, cases
from driver.envoy_world import Programs
from driver.waiting import expect

_PATIENCE = 60.0


def agrees_on_constraints(scenario: Scenario, programs: Programs) -> None:
    """One check for each resource: both accept it, or both reject it and say why."""
    for index, case in enumerate(cases()):
        directory = scenario.directory / str(index)
        directory.mkdir()
        verdict = "accept" if case.ours is None else "reject"
        title = f"both {verdict} {case.about}"
        if case.explanation:
            title = f"of the two, ours alone rejects {case.about}: {case.explanation}"
        with scenario.check(title):
            _expect_envoy(case, programs.envoy, directory)
            _expect_ours(case, programs.xds, directory)


def _expect_envoy(case: Case, envoy: Path, directory: Path) -> None:
    bootstrap = directory / "bootstrap.json"
    bootstrap.write_text(json.dumps({"static_resources": {case.kind: [case.resource]}}), encoding="utf-8")
    done = _run([envoy, "--mode", "validate", "--config-path", bootstrap])
    rejects = case.envoys is not None
    expect((done.returncode != 0) == rejects, f"Envoy ended with {done.returncode}:\n{done.stderr}")
    expect(case.envoys is None or case.envoys in done.stderr, f"Envoy said:\n{done.stderr}")


def _expect_ours(case: Case, xds: Path, directory: Path) -> None:
    resources = directory / "resources"
    resources.mkdir()
    (resources / "resource.json").write_text(json.dumps(case.typed()), encoding="utf-8")
    done = _run([xds, "check", resources, "--validate", "--elsewhere", "cds", "--output", "ndjson"])
    events = [json.loads(line) for line in done.stdout.splitlines()]
    # What nothing refers to is a warning, and is no business of constraints.
    complaints = [event.get("finding") or event["error"] for event in events if event.get("severity") != "warning"]
    if case.ours is None:
        expect(not complaints, f"ours complained: {complaints}")
    else:
        said = ": " + case.ours
        expect(any(said in complaint for complaint in complaints), f"ours said {complaints}, not {case.ours}")


def _run(argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
        check=False,
    )
