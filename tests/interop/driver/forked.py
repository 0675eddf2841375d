"""Tasks in processes of their own, a few at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from driver import leash

_PATIENCE = 30.0

# A task is a closure, which only a forked process has.
_CONTEXT = multiprocessing.get_context("fork")


@dataclass
class Task:
    """Work for a process of its own. What it prints is kept beside `path`, and its outcome has to be JSON."""

    title: str
    path: Path
    body: Callable[[], Any]

    @property
    def _output(self) -> Path:
        return self.path.with_suffix(".output")

    @property
    def _outcome(self) -> Path:
        return self.path.with_suffix(".outcome")

    def run(self) -> None:
        leash.end_with_parent(signal.SIGTERM)
        with self._output.open("w") as output:
            os.dup2(output.fileno(), sys.stdout.fileno())
            os.dup2(output.fileno(), sys.stderr.fileno())
        outcome = self.body()
        sys.stdout.flush()
        self._outcome.write_text(json.dumps(outcome))

    def ended(self, exit_code: int | None) -> EndedTask:
        output = self._output.read_text(errors="replace") if self._output.exists() else ""
        outcome = json.loads(self._outcome.read_text()) if self._outcome.exists() else None
        return EndedTask(self, output, outcome, exit_code)


@dataclass
class EndedTask:
    """A task that has ended, with what it printed. It has no outcome if its process ended too early."""

    task: Task
    output: str
    outcome: Any
    exit_code: int | None


def run_forked(tasks: Sequence[Task], at_once: int) -> Iterator[EndedTask]:
    """Runs tasks, `at_once` at the same time, and returns each when it has ended."""
    waiting, running = list(tasks), list[tuple[Task, Any]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                task = waiting.pop(0)
                sys.stdout.flush()
                process = _CONTEXT.Process(target=task.run)
                process.start()
                running.append((task, process))
            ended = wait([process.sentinel for _, process in running])
            for task, process in [it for it in running if it[1].sentinel in ended]:
                running.remove((task, process))
                process.join()
                yield task.ended(process.exitcode)
    finally:
        for _, process in running:
            process.terminate()
        for _, process in running:
            process.join(_PATIENCE)
