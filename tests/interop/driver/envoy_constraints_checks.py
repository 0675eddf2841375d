"""Envoy as the oracle for constraints: what `envoy --mode validate` rejects, `xds check --validate` does, too."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from driver.checks import Scenario, comment
from driver.envoy_constraints import Row, rows
from driver.envoy_world import Programs
from driver.waiting import expect

_PATIENCE = 60.0


def agrees_on_constraints(scenario: Scenario, programs: Programs) -> None:
    """Each row of the table gets a verdict of its own from both, and both are as the table says."""
    table = rows()
    reachable = [row for row in table if not row.unreachable]
    ours = [row for row in table if row.resources()]
    with scenario.check(f"Envoy decides on {len(reachable)} bootstraps as the table of constraints says"):
        _expect_none(_wrong_of_envoy(reachable, scenario.directory / "envoy", programs.envoy))
    with scenario.check(f"`xds check --validate` decides on {len(ours)} of them as the table says"):
        _expect_none(_wrong_of_ours(ours, scenario.directory / "ours", programs.xds))
    for row in table:
        if row.unreachable:
            comment(f"not asked: {row.about}: {row.unreachable}")
        elif row.ours_rejects != row.envoy_rejects:
            comment(f"of the two, {'ours' if row.ours_rejects else 'Envoy'} alone rejects {row.about}: {row.why}")


def _expect_none(wrong: list[str]) -> None:
    expect(not wrong, "\n".join(wrong))


def _wrong_of_envoy(table: list[Row], directory: Path, envoy: Path) -> list[str]:
    """What is not as the table says: a run of Envoy for each row."""
    directory.mkdir()

    def one(numbered: tuple[int, Row]) -> str:
        number, row = numbered
        bootstrap = directory / f"{number}.json"
        bootstrap.write_text(json.dumps(row.content), encoding="utf-8")
        done = _run([envoy, "--mode", "validate", "--config-path", bootstrap])
        if (done.returncode != 0) != row.envoy_rejects:
            return f"{row.about}: Envoy ended with {done.returncode}:\n{done.stderr}"
        if row.envoy_rejects and not all(part in done.stderr for part in row.envoy_says):
            return f"{row.about}: Envoy does not say {row.envoy_says}:\n{done.stderr}"
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [wrong for wrong in pool.map(one, enumerate(table)) if wrong]


def _wrong_of_ours(table: list[Row], directory: Path, xds: Path) -> list[str]:
    """What is not as the table says: one run for all rows, each of which has a file."""
    directory.mkdir()
    for number, row in enumerate(table):
        resources = row.resources()
        # No two files may have the same resource.
        for resource in resources:
            if "name" in resource:
                resource["name"] += f"-{number}" if resource["name"] else ""
        (directory / f"{number}.json").write_text(json.dumps(resources), encoding="utf-8")
    done = _run([xds, "check", directory, "--validate", "--elsewhere", "cds", "--output", "ndjson"])
    complaints: dict[int, list[str]] = {}
    for event in map(json.loads, done.stdout.splitlines()):
        # What nothing refers to is a warning, and is no business of constraints.
        if event.get("severity") != "warning":
            complaints.setdefault(int(Path(event["file"]).stem), []).append(event.get("finding") or event["error"])
    wrong = []
    for number, row in enumerate(table):
        said = complaints.get(number, [])
        if bool(said) != row.ours_rejects:
            wrong.append(f"{row.about}: ours complained: {said}")
    return wrong


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
