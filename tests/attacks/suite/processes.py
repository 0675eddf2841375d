"""Processes of the suite, their memory, and their end."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parents[1]
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_SAMPLE_SECONDS = 0.05
_ATTACKER_BYTES = 2 << 30
_F_SETPIPE_SZ = 1031


class SuiteFailed(Exception):
    """A process of the suite did not do its work; the text says which."""


def raise_file_limit() -> None:
    """Allows this process and its children more open files than any attack needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 20_000 if hard == resource.RLIM_INFINITY else min(20_000, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _environment() -> dict[str, str]:
    # All traffic stays on loopback, and the log levels are those of the command line.
    names = {it for it in os.environ if it.lower().endswith("_proxy") or it == "RUST_LOG"}
    return {name: value for name, value in os.environ.items() if name not in names}


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _of_attacker() -> None:
    _die_with_parent()
    # Attackers are other machines: on this one they must not take the processors from the server.
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (_ATTACKER_BYTES, _ATTACKER_BYTES))


class Helper:
    """A Python process of the suite that prints one JSON object at its end."""

    def __init__(self, module: str, *arguments: str, is_attacker: bool = False) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-m", f"suite.{module}", *arguments],
            cwd=SUITE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            preexec_fn=_of_attacker if is_attacker else _die_with_parent,
            text=True,
        )

    def wait_ready(self) -> None:
        """Waits for the first line."""
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            raise SuiteFailed(f"{self._name}: {self._errors()}")

    def result(self, timeout: float) -> dict[str, Any]:
        """Closes the standard input, which ends a canary, and returns the object."""
        try:
            out, errors = self._process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SuiteFailed(f"{self._name} did not end") from None
        if self._process.returncode != 0:
            raise SuiteFailed(f"{self._name}: {_last_line(errors)}")
        return dict(json.loads(out))

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()

    def _errors(self) -> str:
        self._process.kill()
        return _last_line(self._process.communicate()[1])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


class Server:
    """A running `xds serve`."""

    def __init__(self, argv: Sequence[str | Path], run_dir: Path, *, files: int, reads_output: bool) -> None:
        command = [str(it) for it in argv]
        if files:
            command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
        self._log = (run_dir / "server.stderr").open("wb")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log if reads_output else subprocess.PIPE,
            env=_environment(),
            preexec_fn=_die_with_parent,
        )
        assert self._process.stdout
        if not reads_output:
            for pipe in (self._process.stdout, self._process.stderr):
                assert pipe
                fcntl.fcntl(pipe, _F_SETPIPE_SZ, 4_096)
        # One line, without a buffer that would empty the pipe.
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self._process.stdout.fileno(), 1)
            if not byte:
                raise SuiteFailed(f"xds serve ended; see {self._log.name}")
            line += byte
        self.serving: dict[str, Any] = json.loads(line)
        if reads_output:
            threading.Thread(target=self._drop_output, daemon=True).start()

    def _drop_output(self) -> None:
        assert self._process.stdout
        while os.read(self._process.stdout.fileno(), 1 << 16):
            pass

    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def memory(self, key: str) -> float:
        """`VmRSS` or `VmHWM` (the peak) in MiB; 0 if the process has ended."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0.0
        lines = (line.split() for line in status.splitlines())
        return next((int(it[1]) / 1024 for it in lines if it[0] == f"{key}:"), 0.0)

    def log_bytes(self) -> int:
        """Length of the log on standard error; 0 if nobody reads it."""
        return Path(self._log.name).stat().st_size

    def reset_peak(self) -> bool:
        """Lets the kernel forget the peak until now; returns whether it could."""
        try:
            Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdout, self._process.stderr, self._log):
            if file:
                file.close()


class PeakMemory(threading.Thread):
    """Samples the memory of a server until it is stopped, and ends the attacker if it grows too much."""

    def __init__(self, server: Server, idle: float, most: float, attacker: Helper) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._idle, self._most = idle, most
        self._attacker = attacker
        self._stop_asked = threading.Event()
        self._has_peak = server.reset_peak()
        self._peak = 0.0
        self.has_ended_attack = False
        """Whether the memory grew so much that the attacker was ended."""
        self.start()

    def run(self) -> None:
        while not self._stop_asked.wait(_SAMPLE_SECONDS):
            self._peak = max(self._peak, self._server.memory("VmRSS"))
            if self._peak - self._idle > self._most and not self.has_ended_attack:
                self.has_ended_attack = True
                self._attacker.kill()

    def stop(self) -> float:
        """Ends the samples, and returns the peak above idle in MiB."""
        self._stop_asked.set()
        self.join()
        keys = ("VmRSS", "VmHWM") if self._has_peak else ("VmRSS",)
        peak = max(self._peak, *(self._server.memory(key) for key in keys))
        return max(0.0, peak - self._idle)
