"""Programs whose clocks jump: when the time of day is set, or the machine was suspended."""

from __future__ import annotations

import shlex
import shutil
import struct
import tempfile
from pathlib import Path

from driver import workspace
from driver.checks import Scenario, Skip

_SOURCE = workspace.INTEROP / "clock" / "shifted.c"


class ShiftedClock:
    """The clock of one machine: programs that are wrapped by it see it jump, all others do not."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._library = _library()
        self._file = scenario.directory / "clock-shift"
        self._day = self._monotonic = 0
        self._file.write_bytes(struct.pack("=qq", 0, 0))

    def wrap(self, program: Path) -> Path:
        """A program like this one, with this clock."""
        wrapper = self._scenario.directory / f"{program.name}-with-shifted-clock"
        shift, library, real = (shlex.quote(str(it)) for it in (self._file, self._library, program.resolve()))
        wrapper.write_text(f'#!/bin/sh\nCLOCK_SHIFT={shift} LD_PRELOAD={library} exec {real} "$@"\n')
        wrapper.chmod(0o700)
        return wrapper

    def set_day(self, seconds: int) -> None:
        """The time of day jumps by these seconds, backwards if they are negative."""
        self._day += seconds
        self._write()

    def suspend(self, seconds: int) -> None:
        """Time passes in which the programs did not run: both clocks jump forward."""
        self._day += seconds
        self._monotonic += seconds
        self._write()

    def _write(self) -> None:
        # Written in place: the programs have mapped this file.
        with self._file.open("r+b") as file:
            file.write(struct.pack("=qq", self._day, self._monotonic))


def _library() -> Path:
    """The library that shifts clocks, freshly compiled: a machine that has Rust has a C compiler."""
    if shutil.which("cc") is None:
        raise Skip("cc is not installed")
    library = workspace.SCRATCH / "shifted-clock.so"
    with workspace.locked():
        with tempfile.TemporaryDirectory(dir=workspace.SCRATCH) as directory:
            fresh = Path(directory, library.name)
            workspace.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", fresh, _SOURCE])
            fresh.replace(library)
    return library
