"""Numbered checks, printed while they run in the manner of TAP, and what is counted of them."""

from __future__ import annotations

import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from driver.processes import Argv, Process
from driver.waiting import CheckFailed

_TAIL_LINES = 40

P = TypeVar("P", bound=Process)


class Skip(Exception):
    """The peer cannot run here; the text says what is missing."""


class NotRun(Skip):
    """The peer could run here, but not in the time that is left; the text says what that is for."""


class ScenarioStopped(Exception):
    """A check failed: what follows in its scenario would only fail for the same reason."""


@dataclass
class PeerReport:
    """The outcome of one peer."""

    peer: str
    version: str = "-"
    passed: int = 0
    failed: int = 0
    skip_reason: str | None = None
    seconds: float = 0.0

    def ok(self, title: str) -> None:
        self.passed += 1
        print(f"ok {self._number()} - {title}", flush=True)

    def not_ok(self, title: str, reason: str = "") -> None:
        self.failed += 1
        print(f"not ok {self._number()} - {title}", flush=True)
        comment(reason)

    def _number(self) -> int:
        return self.passed + self.failed


class Scenario:
    """One story with processes of its own: they start in it and end with it."""

    def __init__(self, title: str, directory: Path, report: PeerReport) -> None:
        self.directory = directory
        self.report = report
        self.failed = False
        self._title = title
        self._processes: list[Process] = []

    @contextmanager
    def check(self, title: str) -> Iterator[None]:
        """One numbered check: `ok` when the block ends, `not ok` when it raises."""
        try:
            yield
        except Exception as error:
            self._fail(title, error)
            raise ScenarioStopped from error
        self.report.ok(title)

    def spawn(self, kind: type[P], name: str, argv: Argv) -> P:
        """Starts a process that is stopped at the end of the scenario at the latest."""
        # Names are unique, so that a restarted process does not write over its predecessor's logs.
        turn = sum(process.name.split("#")[0] == name for process in self._processes) + 1
        unique = name if turn == 1 else f"{name}#{turn}"
        process = kind(unique, argv, self.directory)
        self._processes.append(process)
        return process

    def run(self, body: Callable[[Scenario], None]) -> None:
        """Plays the story; afterwards no process of it is left."""
        self.directory.mkdir(parents=True)
        comment(self._title)
        try:
            body(self)
        except ScenarioStopped:
            pass
        except Exception as error:
            self._fail(f"{self._title} (before or between its checks)", error)
        finally:
            for process in reversed(self._processes):
                process.stop(signal.SIGKILL)
        if self.failed:
            self._print_logs()

    def _fail(self, title: str, error: Exception) -> None:
        self.failed = True
        known = isinstance(error, CheckFailed)
        self.report.not_ok(title, str(error) if known else "".join(traceback.format_exception(error)))

    def _print_logs(self) -> None:
        for process in self._processes:
            for log in (process.stdout_log, process.stderr_log):
                lines = log.read_text(errors="replace").splitlines() if log.exists() else []
                if lines:
                    comment(f"---- the last of {len(lines)} lines of {log.name}")
                    comment("\n".join(line[:2000] for line in lines[-_TAIL_LINES:]))


def comment(text: str) -> None:
    """Prints lines that are no results."""
    for line in text.splitlines():
        print(f"# {line}".rstrip(), flush=True)


def play(
    report: PeerReport,
    run_dir: Path,
    scenarios: Mapping[str, Callable[[Scenario], None]],
) -> None:
    """Plays the scenarios of a peer one after the other and tidies up after those that passed."""
    started = time.monotonic()
    for index, (title, body) in enumerate(scenarios.items(), start=1):
        scenario = Scenario(title, run_dir / f"{report.peer}-{index}".replace(" ", "-"), report)
        scenario.run(body)
        if not scenario.failed:
            shutil.rmtree(scenario.directory)
    report.seconds += time.monotonic() - started
