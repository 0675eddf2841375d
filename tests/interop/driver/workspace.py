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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver.checks import Skip, comment
from driver.processes import Argv

INTEROP = Path(__file__).resolve().parents[1]
CHECKOUT = INTEROP.parents[1]
CONFIG = INTEROP / "config"
# Ignored by git; everything that a run makes is in it.
SCRATCH = CHECKOUT / ".interop"

_BUILD_PATIENCE = 1800.0

# All builds with Go have the same flags, so that they share compiled packages. Without optimization, and with a rare
# garbage collection of the compiler, a build takes two thirds of the processor's time, and the programs run for a
# minute or two. They have no symbols, no paths of this machine, and need no shared libraries.
GO_FLAGS = ("-trimpath", "-buildvcs=false", "-gcflags=all=-N -l", "-ldflags=-s -w")
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOGC": "800"}


class PreparationFailed(Exception):
    """A tool that is there did not do its work; the text has its output."""


def run(argv: Sequence[str | Path], cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Standard output of a tool that has to succeed. `environment` is added to the variables of this process."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
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
            run([sys.executable, "-m", "venv", directory])
        except PreparationFailed as error:
            raise Skip(f"this Python cannot make virtual environments: {_last_line(error)}") from error
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements])
        shutil.copyfile(requirements, stamp)
    return python


def ask(python: Path, code: str) -> str:
    """What a line of Python prints in a virtual environment."""
    return run([python, "-I", "-c", code]).strip()


def run_program(python: Path, program: Path, *arguments: str) -> str:
    """What a Python program prints in a virtual environment."""
    return run([python, "-I", program, *arguments])


def run_binary(binary: Path, *arguments: str) -> str:
    """What a program prints."""
    return run([binary, *arguments])


@functools.cache
def xds_binary() -> Path:
    """The `xds` binary, freshly built; `XDS_BIN` names one to use as it is."""
    if given := os.environ.get("XDS_BIN"):
        return Path(given).resolve()
    if shutil.which("cargo") is None:
        raise PreparationFailed("cargo is not installed and XDS_BIN is not set: there is nothing to test")
    comment("building xds")
    return _cargo_build("-p", "xds-cli", product="xds")


@functools.cache
def xds_with_kubernetes() -> Path:
    """The `xds` binary with support for Kubernetes, freshly built, unless `XDS_BIN` names one."""
    if given := os.environ.get("XDS_BIN"):
        binary = Path(given).resolve()
        source = ["kube://", "--kubeconfig", os.devnull, "--listen", "127.0.0.1:0"]
        said = subprocess.run([binary, "serve", *source], capture_output=True, text=True, check=False)
        if "no support for Kubernetes" in said.stderr:
            raise Skip(f"{binary.name} is built without the feature `kube`")
        return binary
    if shutil.which("cargo") is None:
        raise PreparationFailed("cargo is not installed and XDS_BIN is not set: there is nothing to test")
    comment("building xds with the feature kube")
    built = _cargo_build("-p", "xds-cli", "--features", "kube", product="xds")
    # The next build without the feature replaces it.
    binary = SCRATCH / "xds-with-kubernetes"
    shutil.copy2(built, binary)
    return binary


def example(name: str, package: str = "xds-tests") -> Path:
    """An example of a package, freshly built; `XDS_EXAMPLES` names a directory with some to use as they are."""
    if (given := os.environ.get("XDS_EXAMPLES")) and (built := Path(given, name).resolve()).exists():
        return built
    if shutil.which("cargo") is None:
        raise Skip("cargo is not installed")
    comment(f"building {name}")
    return _cargo_build("-p", package, "--example", name, product=f"examples/{name}")


@functools.cache
def example_program(name: str) -> Path:
    """A program of `examples/`, freshly built, unless the directory above `XDS_EXAMPLES` has it."""
    if (given := os.environ.get("XDS_EXAMPLES")) and (built := Path(given).resolve().parent / name).exists():
        return built
    if shutil.which("cargo") is None:
        raise Skip("cargo is not installed")
    comment(f"building {name}")
    return _cargo_build("-p", "xds-examples", "--bin", name, product=name)


def _cargo_build(*what: str, product: str) -> Path:
    run(["cargo", "build", "--quiet", *what], cwd=CHECKOUT)
    metadata = run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=CHECKOUT)
    return Path(json.loads(metadata)["target_directory"]) / "debug" / product


def go_server() -> Path:
    """The management server of `go/`, freshly built."""
    return _go_build("go", "go-control-plane-server")


def go_version_2() -> Path:
    """The program of `go-version2/`, freshly built."""
    return _go_build("go-version2", "version2-descriptors")


def go_peer() -> Argv:
    """The application of `grpc-go/`, freshly built."""
    return [_go_build("grpc-go", "grpc-go-peer")]


def go_grpc_server() -> Path:
    """The server of `grpc-go/`, freshly built."""
    return _go_build("grpc-go", "grpc-go-server", "./server")


def _go_build(module: str, name: str, package: str = ".") -> Path:
    if shutil.which("go") is None:
        raise Skip("go is not installed")
    binary = SCRATCH / name
    comment(f"building {name}")
    with locked():
        try:
            # The checkout may belong to another user: do not ask version control about it.
            run(["go", "build", *GO_FLAGS, "-o", binary, package], cwd=INTEROP / module, environment=GO_ENVIRONMENT)
        except PreparationFailed as error:
            if "requires go >=" in str(error):
                raise Skip(f"go is too old: {_last_line(error)}") from error
            raise
    return binary


def js_peer() -> Argv:
    """The application of `grpc-js/`, with the packages of its lock file."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is not installed")
    source, directory = INTEROP / "grpc-js", SCRATCH / "grpc-js"
    stamp = directory / "installed.json"
    with locked():
        wanted = (source / "package-lock.json").read_text()
        if not stamp.exists() or stamp.read_text() != wanted:
            comment(f"installing the packages of {source.name}")
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            for file in ("package.json", "package-lock.json"):
                shutil.copyfile(source / file, directory / file)
            run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=directory)
            stamp.write_text(wanted)
    return ["env", f"NODE_PATH={directory / 'node_modules'}", "node", source / "peer.js"]


def java_peer() -> Argv:
    """The application of `grpc-java/`, compiled with the libraries of its `pom.xml`."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is not installed")
    source, directory = INTEROP / "grpc-java", SCRATCH / "grpc-java"
    libraries, stamp = directory / "lib", directory / "pom.xml"
    with locked():
        if not stamp.exists() or stamp.read_text() != (source / "pom.xml").read_text():
            comment(f"fetching the libraries of {source.name}")
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            copy = ["dependency:copy-dependencies", f"-DoutputDirectory={libraries}"]
            run(["mvn", "--quiet", "--batch-mode", "-f", source / "pom.xml", *copy])
            shutil.copyfile(source / "pom.xml", stamp)
        comment(f"compiling {source.name}")
        classes, path = directory / "classes", f"{libraries}/*"
        try:
            run(["javac", "--release", "11", "-proc:none", "-cp", path, "-d", classes, source / "Peer.java"])
        except PreparationFailed as error:
            if "release version 11 not supported" in str(error):
                raise Skip("java is older than 11") from error
            raise
    return ["java", "-cp", f"{classes}:{path}", "Peer"]


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
