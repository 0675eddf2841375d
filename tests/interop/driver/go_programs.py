"""Large programs from Go modules, built once for all checkouts of a user, and modules that are only read.

The programs are kept in `${XDG_CACHE_HOME:-~/.cache}/xds-interop/`, each in a file whose name says what it was built from: its
version, the versions of what it depends on, and Go's. Whoever starts a run may state in `XDS_INTEROP_DEADLINE`, in seconds since the epoch,
when the run has to be over.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from driver import workspace
from driver.checks import NotRun, Skip, comment

# A deadline that is not stated: on two busy cores, a build from nothing takes a third of it.
_BUILD_PATIENCE = 3600.0
# A build that has less time than this is not begun.
_SHORTEST_BUILD = 60.0
_DOWNLOAD_PATIENCE = 600.0
_LOCK_INTERVAL = 1.0


def remaining() -> float:
    """How many seconds there are until the run has to be over."""
    stated = os.environ.get("XDS_INTEROP_DEADLINE", "")
    try:
        return float(stated) - time.time() if stated else float("inf")
    except ValueError:
        raise workspace.PreparationFailed(
            f"XDS_INTEROP_DEADLINE is {stated!r}: seconds since the epoch were expected, as `date +%s` prints them"
        ) from None


def programs(module: str, packages: Mapping[str, str], reserve: float) -> dict[str, Path]:
    """The programs of these packages by name, as the `go.mod` of `module` has them.

    They are built if they are not there. Then `reserve` seconds are left until the deadline, which is what playing the peer takes; if there
    is no time for that, the peer is not run. What was compiled until then stays in Go's own cache, so that the next run goes on from there.
    """
    directory = workspace.INTEROP / module
    files = {name: _cache() / _key(directory, name, package) for name, package in packages.items()}
    if _are_there(files):
        return files
    with _locked_cache(reserve):
        # Another run may have built them meanwhile.
        if not _are_there(files):
            _build(directory, packages, files, reserve)
    return files


def module_directory(module: str, path: str) -> Path:
    """The source of the module `path`, in the version that the `go.mod` of `module` requires."""
    directory = workspace.INTEROP / module
    version = _required(directory, path)
    said = _go(directory, "mod", "download", "-json", f"{path}@{version}", patience=_DOWNLOAD_PATIENCE)
    return Path(json.loads(said)["Dir"])


def version_of(program: Path, path: str) -> str:
    """The version of a module inside a program, as the program says."""
    for line in _go(program.parent, "version", "-m", str(program)).splitlines():
        match line.split():
            case ["dep" | "mod", name, version, *_] if name == path:
                return version
    raise workspace.PreparationFailed(f"{program} does not say which {path} it has")


def _are_there(files: Mapping[str, Path]) -> bool:
    return all(file.exists() for file in files.values())


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "xds-interop"


def _key(directory: Path, name: str, package: str) -> str:
    """What a program is built from, as the name of a file."""
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
    """How long a build may take."""
    left = remaining() - reserve
    if left < _SHORTEST_BUILD:
        raise NotRun(
            f"its programs are not built yet, and until the deadline of the run there are {max(0.0, remaining()):.0f} s"
        )
    return min(left, _BUILD_PATIENCE)


def _build(directory: Path, packages: Mapping[str, str], files: Mapping[str, Path], reserve: float) -> None:
    patience = _time_to_build(reserve)
    comment(f"building {' and '.join(packages)}, for which there are {patience:.0f} s")
    # In the same file system as where they go, so that they can be renamed.
    with tempfile.TemporaryDirectory(dir=_cache(), prefix="building-") as made:
        # Neither symbols nor where it was built. Of a folder, Go names each program as its package.
        flags = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", f"{made}/")
        try:
            _go(directory, "build", *flags, *packages.values(), patience=patience)
        except subprocess.TimeoutExpired:
            raise NotRun(
                f"its programs were not built within {patience:.0f} s; the next run goes on from there"
            ) from None
        for name, package in packages.items():
            # Atomic: who finds a file finds all of it.
            (Path(made) / _last_part(package)).replace(files[name])


def _last_part(package: str) -> str:
    """How Go names the program of a package: not after its major version."""
    parts = package.split("/")
    return parts[-2] if parts[-1].lstrip("v").isdigit() else parts[-1]


def _go(directory: Path, *arguments: str, patience: float = 60.0) -> str:
    """What Go prints; ended with everything that it started when the time is over."""
    if shutil.which("go") is None:
        raise Skip("go is not installed")
    # Programs that run anywhere, and modules as they are pinned, whatever the environment says.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with subprocess.Popen(
        ["go", *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
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
