"""Large programs from Go modules, built once for all checkouts of a user, and modules whose files are read.

The programs are kept in `${XDG_CACHE_HOME:-~/.cache}/xds-interop/`, each in a file whose name states its
version, a hash of the versions of its dependencies, and the version and platform of Go.
`XDS_INTEROP_DEADLINE` states, in seconds since the epoch, when the run has to be over.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driver import workspace
from driver.checks import NotRun, Skip, comment

# Limit of a build when no deadline is stated. A cold build takes less than half of it on two busy cores.
_BUILD_PATIENCE = 3600.0
# A build is not started with less time than this.
_SHORTEST_BUILD = 60.0
_DOWNLOAD_PATIENCE = 600.0
_LOCK_INTERVAL = 1.0


def remaining() -> float:
    """Seconds until the run has to be over; infinite without a deadline."""
    stated = os.environ.get("XDS_INTEROP_DEADLINE", "")
    try:
        return float(stated) - time.time() if stated else float("inf")
    except ValueError:
        raise workspace.PreparationFailed(
            f"XDS_INTEROP_DEADLINE is {stated!r}: seconds since the epoch were expected, as `date +%s` prints them"
        ) from None


def require_time(seconds: float) -> None:
    """Ends a peer before it is played unless there is this much time until the deadline."""
    if (left := remaining()) < seconds:
        raise NotRun(
            f"its checks may take {seconds:.0f} s, and until the deadline there are {max(0.0, left):.0f} s"
        )


def program(module: str, name: str, package: str, reserve: float) -> Path:
    """Returns the program of a package, in the version of the `go.mod` of `module`.

    Builds it unless it is cached. A build ends `reserve` seconds before the deadline, which is the time that the
    checks take. If that is too short, the peer is not run. Compiled packages stay in Go's own cache, so that the
    next run has less to build.
    """
    directory = workspace.INTEROP / module
    file = _cache() / _key(directory, name, package)
    if file.exists():
        return file
    with _locked_cache(reserve):
        # Another run may have built it meanwhile.
        if not file.exists():
            _build(directory, package, file, reserve)
    return file


def module_directory(module: str, path: str) -> Path:
    """The source of the module `path`, in the version that the `go.mod` of `module` requires."""
    directory = workspace.INTEROP / module
    version = _required(directory, path)
    said = _go(directory, "mod", "download", "-json", f"{path}@{version}", patience=_DOWNLOAD_PATIENCE)
    return Path(json.loads(said)["Dir"])


def version_of(program: Path, path: str) -> str:
    """The version of a module that a program was built with, from its build information."""
    for line in _go(program.parent, "version", "-m", str(program)).splitlines():
        match line.split():
            case ["dep" | "mod", name, version, *_] if name == path:
                return version
    raise workspace.PreparationFailed(f"{program} does not say which {path} it has")


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "xds-interop"


def _key(directory: Path, name: str, package: str) -> str:
    """The name of the file that a program is cached in."""
    content = (directory / "go.mod").read_bytes() + (directory / "go.sum").read_bytes()
    sources = hashlib.sha256(content).hexdigest()[:12]
    go = "-".join(_go(directory, "env", "GOVERSION", "GOOS", "GOARCH").split())
    return f"{name}-{_required(directory, package)}-{sources}-{go}"


def _required(directory: Path, package: str) -> str:
    """The version of the module that a package is in."""
    required = {it["Path"]: it["Version"] for it in json.loads(_go(directory, "mod", "edit", "-json"))["Require"]}
    parents = [path for path in required if package == path or package.startswith(path + "/")]
    if not parents:
        raise workspace.PreparationFailed(f"{directory / 'go.mod'} requires no module with the package {package}")
    return str(required[max(parents, key=len)])


@contextmanager
def _locked_cache(reserve: float) -> Iterator[None]:
    """Keeps two checkouts from building the same at once."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                _time_to_build(reserve)
                time.sleep(_LOCK_INTERVAL)
        yield


def _time_to_build(reserve: float) -> float:
    """Seconds that a build may take."""
    left = remaining() - reserve
    if left < _SHORTEST_BUILD:
        raise NotRun(
            f"a program that it needs is not built yet, and until the deadline there are {max(0.0, remaining()):.0f} s"
        )
    return min(left, _BUILD_PATIENCE)


def _build(directory: Path, package: str, file: Path, reserve: float) -> None:
    patience = _time_to_build(reserve)
    comment(f"building {package}, for which there are {patience:.0f} s")
    # In the file system of the cache, so that the program can be renamed.
    with tempfile.TemporaryDirectory(dir=_cache(), prefix="building-") as made:
        try:
            _go(directory, "build", *workspace.GO_FLAGS, "-o", f"{made}/program", package, patience=patience)
        except subprocess.TimeoutExpired:
            raise NotRun(
                f"{package} was not built within {patience:.0f} s; the next run goes on from there"
            ) from None
        # Atomic: a file in the cache is always complete.
        (Path(made) / "program").replace(file)


def _go(directory: Path, *arguments: str, patience: float = 60.0) -> str:
    """Returns the output of Go. Kills it and its children when the time is over."""
    if shutil.which("go") is None:
        raise Skip("go is not installed")
    # No workspace of the user may change the pinned versions.
    environment = {**os.environ, **workspace.GO_ENVIRONMENT, "GOWORK": "off"}
    with subprocess.Popen(
        ["go", *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # A process group, to be killed as one. In a session of its own, its niceness would not count against other sessions.
        preexec_fn=os.setpgrp,
    ) as child:
        try:
            out, error = child.communicate(timeout=patience)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    if child.returncode != 0:
        if "requires go >=" in error:
            raise Skip(f"go is too old: {error.strip().splitlines()[-1]}")
        command = " ".join(("go", *arguments))
        raise workspace.PreparationFailed(f"{command}: exit code {child.returncode}\n{out}{error}")
    return out
