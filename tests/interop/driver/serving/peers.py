"""gRPC servers that are configured by xDS, each of which has a management server of its own with equal resources."""

from __future__ import annotations

import json
import random
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario, Skip, comment
from driver.processes import Argv, EventProcess, Process
from driver.serving.resources import Resource
from driver.serving.sides import Side
from driver.serving.tables import Call, Row
from driver.tls import CertificateFiles
from driver.waiting import CheckFailed, eventually
from driver.xds import StatusRow, XdsServe

_CALLS_PATIENCE = 60.0
_PROGRAMS = workspace.INTEROP / "grpc-python"


# Ports that the system does not give to connections. Each is used once.
_PORTS = iter(random.sample(range(20_000, 32_000), 12_000))


def free_port() -> int:
    """A port where nobody listens."""
    for port in _PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
        return port
    raise CheckFailed("no port is free")


def programs(python: Path) -> dict[Side, Argv]:
    """The commands of the servers, without the addresses; grpc-go is missing where Go is."""
    found: dict[Side, Argv] = {
        Side.OURS: [workspace.example_program("grpc_server")],
        # C-core keeps deleted resources (gRFC A88) only with this variable.
        Side.CORE: [
            "env",
            "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING=true",
            python,
            "-I",
            "-B",
            _PROGRAMS / "server.py",
        ],
    }
    try:
        found[Side.GO] = [workspace.go_grpc_server()]
    except Skip as missing:
        comment(f"without grpc-go: {missing}")
    return found


class Served:
    """One process with a server for each address, and its management server."""

    def __init__(
        self,
        scenario: Scenario,
        side: Side,
        command: Argv,
        hosts: Sequence[str],
        providers: Mapping[str, Mapping[str, str]] | None = None,
        features: Sequence[str] = (),
    ) -> None:
        self.side = side
        self._directory = scenario.directory / f"resources-{side.value}"
        self._directory.mkdir()
        self.ports = [free_port() for _ in hosts]
        self._hosts = hosts
        self.management = XdsServe(scenario, workspace.xds_binary(), self._directory)
        bootstrap = {
            "xds_servers": [
                {
                    "server_uri": self.management.address,
                    "channel_creds": [{"type": "insecure"}],
                    "server_features": ["xds_v3", *features],
                }
            ],
            "node": {"id": f"server-{side.value}"},
            "server_listener_resource_name_template": "servers/%s",
            "certificate_providers": {
                name: {"plugin_name": "file_watcher", "config": {**files, "refresh_interval": "600s"}}
                for name, files in (providers or {}).items()
            },
        }
        file = scenario.directory / f"bootstrap-{side.value}.json"
        file.write_text(json.dumps(bootstrap), encoding="utf-8")
        self._argv = ["env", f"GRPC_XDS_BOOTSTRAP={file}", *command]
        self._scenario = scenario
        self._process: Process | None = None

    def start(self) -> None:
        """Starts the servers."""
        addresses = [f"{host}:{port}" for host, port in zip(self._hosts, self.ports, strict=True)]
        self._process = self._scenario.spawn(Process, f"server-{self.side.value}", [*self._argv, *addresses])

    def expect_running(self) -> None:
        """Fails if the process has ended."""
        assert self._process is not None
        self._process.expect_running()

    def interrupt(self) -> int:
        """Ends the process as a user does with Ctrl-C, and returns its exit code."""
        assert self._process is not None
        return self._process.stop(signal.SIGINT)

    @property
    def version(self) -> str:
        """The version, in the first line that it prints."""
        assert self._process is not None
        process = self._process
        return str(json.loads(eventually("a line of the server", lambda: process.lines)[0])["version"])

    def put(self, number: int, name: str, *resources: Resource) -> None:
        """Writes the resources of a server."""
        host, port = self._hosts[number], self.ports[number]
        text = json.dumps(resources).replace('"$PORT"', str(port)).replace("$ROW", name)
        text = text.replace("$LISTENER", f"servers/{host}:{port}")
        new = self._directory / f".{number}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self._directory / f"{number:03}.json")

    def remove(self, number: int) -> None:
        """Removes the resources of a server."""
        (self._directory / f"{number:03}.json").unlink()

    def wait_answer(self, type_name: str, before: StatusRow) -> StatusRow:
        """The row of a type once a response after an older row has been answered."""

        def answered(row: StatusRow) -> bool:
            return row.responses > before.responses and row.responses == row.acks + row.nacks

        return self.management.wait_row(type_name, "an answer", answered)

    def listeners(self) -> StatusRow:
        """The row of listeners, once every response has been answered."""
        return self.management.settled()["lds"]


class Caller:
    """A plain gRPC client."""

    def __init__(self, scenario: Scenario, python: Path, certificates: Mapping[str, CertificateFiles]) -> None:
        argv: Argv = [python, "-I", "-B", _PROGRAMS / "server_calls.py"]
        self._process = scenario.spawn(EventProcess, "caller", argv)
        self._certificates = certificates

    def calls(self, port: int, calls: Sequence[Call], channel: str | None = None) -> list[str]:
        """What becomes of these calls, which are made in parallel."""
        words = [self._words(port, call, channel) for call in calls]
        return list(self._ask("calls", "outcomes", calls=words))

    def watch(self, port: int, name: str, call: Call) -> str:
        """Begins a call that does not end, on the channel with this name."""
        return str(self._ask("watch", "outcome", name=name, call=self._words(port, call, name)))

    def watched(self, name: str) -> str:
        """What has become of it."""
        return str(self._ask("watched", "outcome", name=name))

    def _ask(self, command: str, answer: str, **words: object) -> Any:
        mark = len(self._process.events)
        self._process.tell(json.dumps({"command": command, **words}))
        wanted = lambda event: event["event"] == command  # noqa: E731
        return self._process.wait_event(command, wanted, mark, _CALLS_PATIENCE)[answer]

    def _words(self, port: int, call: Call, channel: str | None) -> dict[str, Any]:
        words: dict[str, Any] = {
            "host": call.destination,
            "port": port,
            "path": call.path,
            "authority": call.authority,
            "metadata": call.metadata,
        }
        if call.source is not None:
            words["source"] = [call.source, call.source_port]
        if channel is not None:
            words["channel"] = channel
        if call.tls is not None:
            words["tls"] = self._tls(call.tls)
        return words

    def _tls(self, name: str) -> dict[str, str]:
        made = {"roots": str(self._certificates["server"].certificate), "name": "server.example"}
        if name:
            own = self._certificates[name]
            made |= {"certificate": str(own.certificate), "key": str(own.key)}
        return made


def hosts_of(rows: Sequence[Row]) -> list[str]:
    """The address of each row."""
    return [str(row.listener["address"]["socket_address"]["address"]) for row in rows]
