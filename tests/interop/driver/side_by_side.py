"""Scenarios in processes of their own, a few at once. Their output is printed scenario by scenario."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from driver import leash
from driver.checks import PeerReport, Scenario, comment

_PATIENCE = 30.0
_RESULT = re.compile(r"(not )?ok \d+ - (.*)")

# A story is a closure, which only a forked process has.
_CONTEXT = multiprocessing.get_context("fork")

Story = Callable[[Scenario], None]


def play_side_by_side(report: PeerReport, run_dir: Path, scenarios: Mapping[str, Story], at_once: int) -> None:
    """Plays the scenarios of a peer, `at_once` at the same time, and tidies up after those that passed."""
    started = time.monotonic()
    waiting = [
        (Path(run_dir / f"{report.peer}-{index}".replace(" ", "-")), title, story)
        for index, (title, story) in enumerate(scenarios.items(), start=1)
    ]
    running: list[_Run] = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Run.start(report.peer, *waiting.pop(0)))
            ended = wait([run.process.sentinel for run in running])
            for run in [run for run in running if run.process.sentinel in ended]:
                running.remove(run)
                run.report_to(report)
    finally:
        for run in running:
            run.process.terminate()
        for run in running:
            run.process.join(_PATIENCE)
    report.seconds += time.monotonic() - started


@dataclass
class _Run:
    """A scenario that is being played."""

    title: str
    directory: Path
    process: multiprocessing.process.BaseProcess

    @classmethod
    def start(cls, peer: str, directory: Path, title: str, story: Story) -> _Run:
        sys.stdout.flush()
        process = _CONTEXT.Process(target=_play, args=(peer, directory, title, story), daemon=True)
        process.start()
        return cls(title, directory, process)

    def report_to(self, report: PeerReport) -> None:
        """Prints and counts the results."""
        self.process.join()
        for line in _output_of(self.directory).read_text(errors="replace").splitlines():
            result = _RESULT.fullmatch(line)
            if result is None:
                print(line, flush=True)
            elif result[1]:
                report.not_ok(result[2])
            else:
                report.ok(result[2])
        outcome = _outcome_of(self.directory)
        if not outcome.exists():
            report.not_ok(self.title, f"its process ended with exit code {self.process.exitcode}")
            return
        values = json.loads(outcome.read_text())
        report.version = values["version"] or report.version
        if not values["failed"]:
            shutil.rmtree(self.directory, ignore_errors=True)


def _output_of(directory: Path) -> Path:
    return directory.with_suffix(".output")


def _outcome_of(directory: Path) -> Path:
    return directory.with_suffix(".outcome")


def _play(peer: str, directory: Path, title: str, story: Story) -> None:
    """Plays one scenario in a process of its own."""
    leash.end_with_parent(signal.SIGTERM)
    with _output_of(directory).open("w") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    report = PeerReport(peer, version="")
    scenario = Scenario(title, directory, report)
    began = time.monotonic()
    scenario.run(story)
    comment(f"{time.monotonic() - began:.0f} s")
    sys.stdout.flush()
    outcome = {"version": report.version, "failed": scenario.failed}
    _outcome_of(directory).write_text(json.dumps(outcome))
