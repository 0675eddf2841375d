"""What a run needs before a peer can start: virtual environments and built programs."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver.checks import Skip, comment

INTEROP = Path(__file__).resolve().parents[1]
CHECKOUT = INTEROP.parents[1]
CONFIG = INTEROP / "config"
# Ignored by git; everything that a run makes is in it.
SCRATCH = CHECKOUT / ".interop"

_BUILD_PATIENCE = 1800.0


class PreparationFailed(Exception):
    """A tool that is there did not do its work; the text has its output."""


def _run(argv: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Standard output of a tool that has to succeed."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_BUILD_PATIENCE,
    )
    if done.returncode != 0:
        command = " ".join(str(word) for word in argv)
        raise PreparationFailed(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def new_run_dir() -> Path:
    """An empty directory for the logs of this run; those of runs that have ended go away."""
    runs = SCRATCH / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    for old in runs.iterdir():
        # What has another name than a process is not of a run, and is left alone.
        if re.fullmatch("[1-9][0-9]{0,8}", old.name) and not _is_running(int(old.name)):
            shutil.rmtree(old, ignore_errors=True)
    new = runs / str(os.getpid())
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    return new


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def locked() -> Iterator[None]:
    """Keeps two runs in one checkout from preparing the same thing at once."""
    SCRATCH.mkdir(exist_ok=True)
    with (SCRATCH / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def virtual_environment(name: str) -> Path:
    """The Python of the environment that `requirements-NAME.txt` describes, made when needed."""
    requirements = INTEROP / f"requirements-{name}.txt"
    directory = SCRATCH / f"venv-{name}"
    python = directory / "bin" / "python"
    # Written last: its presence means that the environment is whole.
    stamp = directory / "requirements-installed.txt"
    with locked():
        if stamp.exists() and stamp.read_text() == requirements.read_text():
            return python
        comment(f"making the virtual environment {directory.name}")
        shutil.rmtree(directory, ignore_errors=True)
        try:
            _run([sys.executable, "-m", "venv", directory])
        except PreparationFailed as error:
            raise Skip(f"this Python cannot make virtual environments: {_last_line(error)}") from error
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements])
        shutil.copyfile(requirements, stamp)
    return python


def ask(python: Path, code: str) -> str:
    """What a line of Python prints in a virtual environment."""
    return _run([python, "-I", "-c", code]).strip()


@functools.cache
def xds_binary() -> Path:
    """The `xds` binary, freshly built; `XDS_BIN` names one to use as it is."""
    if given := os.environ.get("XDS_BIN"):
        return Path(given).resolve()
    if shutil.which("cargo") is None:
        raise PreparationFailed("cargo is not installed and XDS_BIN is not set: there is nothing to test")
    comment("building xds")
    return _cargo_build("-p", "xds-cli", product="xds")


def example(name: str) -> Path:
    """A program of the package `xds-tests`, freshly built."""
    if shutil.which("cargo") is None:
        raise Skip("cargo is not installed")
    comment(f"building {name}")
    return _cargo_build("-p", "xds-tests", "--example", name, product=f"examples/{name}")


def _cargo_build(*what: str, product: str) -> Path:
    _run(["cargo", "build", "--quiet", *what], cwd=CHECKOUT)
    metadata = _run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=CHECKOUT)
    return Path(json.loads(metadata)["target_directory"]) / "debug" / product


def go_server() -> Path:
    """The management server of `go/`, freshly built."""
    if shutil.which("go") is None:
        raise Skip("go is not installed")
    binary = SCRATCH / "go-control-plane-server"
    comment("building the go-control-plane server")
    with locked():
        try:
            # The checkout may belong to another user: do not ask version control about it.
            _run(["go", "build", "-buildvcs=false", "-o", binary, "."], cwd=INTEROP / "go")
        except PreparationFailed as error:
            if "requires go >=" in str(error):
                raise Skip(f"go is too old: {_last_line(error)}") from error
            raise
    return binary


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
