"""Scenarios and peers in processes of their own, a few at once. The output of each is printed when it has ended."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from driver.checks import PeerReport, Scenario, comment
from driver.forked import EndedTask, Task, run_forked

_RESULT = re.compile(r"(not )?ok \d+ - (.*)")

Story = Callable[[Scenario], None]


def play_peers_side_by_side(
    names: Sequence[str], run_dir: Path, at_once: int, play: Callable[[str, Path], PeerReport]
) -> list[PeerReport]:
    """Plays peers, `at_once` at the same time, and returns their reports in the order of `names`."""

    def task(name: str) -> Task:
        return Task(name, run_dir / name, lambda: asdict(play(name, run_dir)))

    reports: dict[str, PeerReport] = {}
    for ended in run_forked([task(name) for name in names], at_once):
        print(ended.output, end="", flush=True)
        name = ended.task.title
        if ended.outcome is not None:
            reports[name] = PeerReport(**ended.outcome)
        else:
            reports[name] = PeerReport(name)
            reports[name].not_ok(f"{name} is played to the end", _too_early(ended))
    return [reports[name] for name in names]


def play_side_by_side(report: PeerReport, run_dir: Path, scenarios: Mapping[str, Story], at_once: int) -> None:
    """Plays the scenarios of a peer, `at_once` at the same time, and tidies up after those that passed."""
    started = time.monotonic()

    def task(index: int, title: str, story: Story) -> Task:
        directory = Path(run_dir / f"{report.peer}-{index}".replace(" ", "-"))
        return Task(title, directory, lambda: _play(report.peer, directory, title, story))

    tasks = [task(index, title, story) for index, (title, story) in enumerate(scenarios.items(), start=1)]
    for ended in run_forked(tasks, at_once):
        _report_to(report, ended)
    report.seconds += time.monotonic() - started


def _play(peer: str, directory: Path, title: str, story: Story) -> dict[str, Any]:
    report = PeerReport(peer, version="")
    scenario = Scenario(title, directory, report)
    began = time.monotonic()
    scenario.run(story)
    comment(f"{time.monotonic() - began:.0f} s")
    return {"version": report.version, "failed": scenario.failed}


def _report_to(report: PeerReport, ended: EndedTask) -> None:
    """Prints and counts the results of a scenario."""
    for line in ended.output.splitlines():
        result = _RESULT.fullmatch(line)
        if result is None:
            print(line, flush=True)
        elif result[1]:
            report.not_ok(result[2])
        else:
            report.ok(result[2])
    if ended.outcome is None:
        report.not_ok(ended.task.title, _too_early(ended))
        return
    report.version = ended.outcome["version"] or report.version
    if not ended.outcome["failed"]:
        shutil.rmtree(ended.task.path, ignore_errors=True)


def _too_early(ended: EndedTask) -> str:
    return f"its process ended with exit code {ended.exit_code}"
