"""`xds apply`, `xds pull` and `xds register` of the binary under test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.checks import Scenario
from driver.processes import Argv, Process
from driver.waiting import eventually, expect

_PATIENCE = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class XdsStore:
    """Resources below a prefix of an etcd cluster."""

    binary: Path
    address: str
    flags: Sequence[str | Path] = ()

    def try_apply(self, directory: Path, *options: str) -> Outcome:
        """Writes the resources in a directory, or fails to."""
        return self._run("apply", "-f", directory, "--to", self.address, *options)

    def apply(self, directory: Path, *options: str) -> str:
        """Does so, and has to succeed; what it says that it has changed."""
        outcome = self.try_apply(directory, *options)
        expect(outcome.code == 0, f"xds apply: {outcome}")
        return outcome.stdout

    def pull(self) -> str:
        """The resources as YAML."""
        outcome = self._run("pull", self.address)
        expect(outcome.code == 0, f"xds pull: {outcome}")
        return outcome.stdout

    def register(self, scenario: Scenario, cluster: str, port: int, ttl: str) -> Registration:
        """Registers an endpoint on loopback, until the registration ends."""
        endpoint: Argv = ["--cluster", cluster, "--endpoint", f"127.0.0.1:{port}", "--ttl", ttl]
        argv = [self.binary, "register", self.address, *endpoint, *self.flags]
        return Registration(scenario.spawn(Process, "xds-register", argv))

    def _run(self, *argv: str | Path) -> Outcome:
        done = subprocess.run(
            [self.binary, *argv, *self.flags],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            # No colours, and no proxy between the command and loopback.
            env={"PATH": os.environ.get("PATH", ""), "NO_COLOR": "1"},
        )
        return Outcome(done.returncode, done.stdout, done.stderr)


class Registration:
    """A running `xds register`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        eventually("xds register has registered", lambda: "registered" in "".join(process.lines))

    def kill(self) -> None:
        """Ends it as a crash does: the lease stays until its time is over."""
        self._process.stop(signal.SIGKILL)

    def end(self) -> None:
        """Ends it as an operator does; it has to exit with 0."""
        code = self._process.stop(signal.SIGTERM)
        expect(code == 0, f"xds register ended with {code}")


class WatchedResources:
    """What `xds watch` has printed, as the resources that its client has."""

    def __init__(self, events: Sequence[dict[str, object]]) -> None:
        self.resources: dict[tuple[str, str], dict[str, object]] = {}
        # In the order of their removal.
        self.removed: list[tuple[str, str]] = []
        for event in events:
            key = (str(event.get("type")), str(event.get("name")))
            if event["event"] == "changed":
                resource = event["resource"]
                assert isinstance(resource, dict)
                self.resources[key] = resource
            # Without a name, an error is one of the connection.
            elif event["event"] in ("removed", "error") and event["name"] is not None:
                self.resources.pop(key, None)
                self.removed.append(key)

    def text(self, type_name: str, name: str) -> str:
        """A resource as JSON; empty if the client does not have it."""
        resource = self.resources.get((type_name, name))
        return "" if resource is None else json.dumps(resource)
