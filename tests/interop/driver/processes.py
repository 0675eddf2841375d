"""Child processes whose output is read line by line and which never outlive a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from driver.waiting import INTERVAL, PATIENCE, CheckFailed, ProcessEnded

_LEASH = Path(__file__).with_name("leash.py")
_STOP_PATIENCE = 10.0

Event = dict[str, Any]
Argv = Sequence[str | Path]


class Process:
    """A child in a process group of its own; standard output and standard error go to log files."""

    def __init__(
        self,
        name: str,
        argv: Argv,
        log_dir: Path,
    ) -> None:
        self.name = name
        self.stdout_log = log_dir / f"{name}.stdout"
        self.stderr_log = log_dir / f"{name}.stderr"
        self._lines: list[str] = []
        with self.stderr_log.open("wb") as stderr:
            self._child = subprocess.Popen(
                [sys.executable, str(_LEASH), *map(str, argv)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=_environment(),
                start_new_session=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()

    def _read_lines(self) -> None:
        assert self._child.stdout is not None
        with self.stdout_log.open("w", encoding="utf-8") as log:
            for line in self._child.stdout:
                if not self._is_kept(line):
                    continue
                log.write(line)
                log.flush()
                # Appending to a list is atomic: readers only ever see whole lines.
                self._lines.append(line.rstrip("\n"))

    def _is_kept(self, line: str) -> bool:
        """Whether a line of standard output is of interest to anybody."""
        return True

    @property
    def lines(self) -> list[str]:
        """What was printed to standard output until now."""
        return list(self._lines)

    @property
    def process_id(self) -> int:
        """The number of the process."""
        return self._child.pid

    def exit_code(self) -> int | None:
        """The exit code (negative: the signal), `None` while the process runs."""
        return self._child.poll()

    def expect_running(self) -> None:
        """Fails the running check at once if the process has ended."""
        if (code := self.exit_code()) is not None:
            raise ProcessEnded(f"{self.name} ended with {code}")

    def tell(self, line: str) -> None:
        """Writes one line to the standard input."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise ProcessEnded(f"{self.name} has ended and reads nothing any more") from None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal, kills the whole group if that is not enough, returns the exit code."""
        # An ended child is not signalled: once it is reaped, its number may be somebody else's.
        if self._child.poll() is None:
            os.killpg(self._child.pid, how)
            try:
                self._child.wait(_STOP_PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self._child.pid, signal.SIGKILL)
        code = self._child.wait()
        self._reader.join(_STOP_PATIENCE)
        return code


def _environment() -> dict[str, str]:
    # All traffic stays on loopback: no proxy has a part in it.
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


class EventProcess(Process):
    """A process that prints one JSON object a line."""

    def __init__(self, name: str, argv: Argv, log_dir: Path) -> None:
        self._events: list[Event] = []
        super().__init__(name, argv, log_dir)

    @property
    def events(self) -> list[Event]:
        """All events until now; fails when a line is not a JSON object with an "event"."""
        # Each line is parsed once: thousands may come, and are asked for again and again.
        self._events += [self._parse(line) for line in self._lines[len(self._events) :]]
        return list(self._events)

    def _parse(self, line: str) -> Event:
        try:
            event = json.loads(line)
        except ValueError:
            raise CheckFailed(f"{self.name} printed a line that is not JSON: {line!r}") from None
        if not isinstance(event, dict) or "event" not in event:
            raise CheckFailed(f"{self.name} printed JSON that is not an event: {line!r}")
        return event

    def wait_event(
        self,
        what: str,
        wanted: Callable[[Event], bool],
        after: int = 0,
        patience: float = PATIENCE,
    ) -> Event:
        """The first event from number `after` on that is wanted; fails if the process ends before."""
        deadline = time.monotonic() + patience
        seen = after
        while True:
            # In this order: what a process printed just before its end still counts.
            code = self.exit_code()
            events = self.events
            for event in events[seen:]:
                if wanted(event):
                    return event
            seen = len(events)
            if code is not None:
                raise ProcessEnded(f"{self.name} ended with {code} while waiting for {what}")
            if time.monotonic() >= deadline:
                last = events[-1] if events else None
                raise CheckFailed(f"no {what} from {self.name} in {patience:g} s; last event: {last}")
            time.sleep(INTERVAL)
