"""An etcd cluster on loopback, and what an operator does to it, through the JSON gateway of its members."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.checks import Scenario
from driver.istio_world import free_ports
from driver.processes import Argv, Process
from driver.tls import CertificateFiles
from driver.waiting import CheckFailed, eventually, expect

# Three members elect a leader within two seconds, later on a busy machine.
_START_PATIENCE = 60.0
_REQUEST_PATIENCE = 10.0

Json = dict[str, Any]


class Member:
    """One member, with a data directory of its own."""

    def __init__(self, scenario: Scenario, argv: Argv, name: str, port: int, scheme: str) -> None:
        self.name = name
        self.port = port
        self._scenario, self._argv, self._scheme = scenario, argv, scheme
        # It is on loopback, and its certificate is for the client under test to judge.
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._process: Process
        self.start()

    def start(self) -> None:
        """Starts it, with the data that it has."""
        self._process = self._scenario.spawn(Process, self.name, self._argv)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._process.stop(signal.SIGKILL)

    @property
    def is_running(self) -> bool:
        """Whether it has not been killed."""
        return self._process.exit_code() is None

    def is_healthy(self) -> bool:
        """Whether it has a leader and can commit."""
        self._process.expect_running()
        with self._open(urllib.request.Request(self._url("/health"))) as answer:
            return bool(json.load(answer)["health"] == "true")

    def call(self, path: str, body: Mapping[str, object], token: str | None = None) -> Json:
        """Calls a method of the API; what goes wrong is an error with the text of etcd."""
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(self._url(path), json.dumps(body).encode(), headers)
        try:
            with self._open(request) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            raise CheckFailed(f"{path}: {error.code}: {error.read().decode(errors='replace')}") from None

    def _open(self, request: urllib.request.Request) -> Any:
        context = self._context if self._scheme == "https" else None
        return urllib.request.urlopen(request, timeout=_REQUEST_PATIENCE, context=context)

    def _url(self, path: str) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}{path}"


class EtcdCluster:
    """Three members, or another number."""

    def __init__(
        self, scenario: Scenario, program: Path, size: int = 3, certificate: CertificateFiles | None = None
    ) -> None:
        scheme = "https" if certificate else "http"
        ports = free_ports(2 * size)
        names = [f"etcd-{number}" for number in range(1, size + 1)]
        peers = {name: f"http://127.0.0.1:{port}" for name, port in zip(names, ports[size:])}
        self._token: str | None = None
        self.members: list[Member] = []
        for name, port in zip(names, ports):
            own = f"{scheme}://127.0.0.1:{port}"
            argv: list[str | Path] = [
                program,
                "--name", name,
                "--data-dir", scenario.directory / f"{name}-data",
                "--listen-client-urls", own,
                "--advertise-client-urls", own,
                "--listen-peer-urls", peers[name],
                "--initial-advertise-peer-urls", peers[name],
                "--initial-cluster", ",".join(f"{it}={url}" for it, url in peers.items()),
                "--log-level", "warn",
                "--unsafe-no-fsync",
            ]  # fmt: skip
            if certificate:
                argv += ["--cert-file", certificate.certificate, "--key-file", certificate.key]
                # Of tokens, in seconds.
                argv += ["--auth-token-ttl", "2"]
            self.members.append(Member(scenario, argv, name, port, scheme))
        self.wait_healthy()

    def wait_healthy(self) -> None:
        """Waits until every member that runs is healthy."""

        def probe() -> bool:
            return all(member.is_healthy() for member in self.members if member.is_running)

        eventually("etcd is healthy", probe, _START_PATIENCE)

    @property
    def ports(self) -> list[int]:
        """The ports of the members for clients."""
        return [member.port for member in self.members]

    def address(self, prefix: str, ports: Sequence[int] | None = None) -> str:
        """The address of the keys below a prefix, through these ports if they are given."""
        members = ",".join(f"127.0.0.1:{port}" for port in ports or self.ports)
        return f"etcd://{members}{prefix}"

    def leader(self) -> Member:
        """The member that leads; fails while there is none."""
        for member in self.members:
            if member.is_running:
                status = member.call("/v3/maintenance/status", {}, self._token)
                if status["header"]["member_id"] == status.get("leader"):
                    return member
        raise CheckFailed("no member leads")

    def put(self, key: str, value: str | bytes, lease: str | None = None) -> None:
        """Writes a key, past `xds apply`."""
        data = value.encode() if isinstance(value, str) else value
        extra = {"lease": lease} if lease else {}
        self.call("/v3/kv/put", {"key": _text(key.encode()), "value": _text(data), **extra})

    def delete(self, key: str) -> None:
        """Deletes a key."""
        self.call("/v3/kv/deleterange", {"key": _text(key.encode())})

    def keys(self, prefix: str) -> dict[str, str]:
        """The keys that begin with a prefix, with their values as far as they are text."""
        found = self.call("/v3/kv/range", _range(prefix))
        return {
            base64.b64decode(it["key"]).decode(): base64.b64decode(it.get("value", "")).decode(errors="replace")
            for it in found.get("kvs", [])
        }

    def revision(self) -> int:
        """The newest revision."""
        return int(self.call("/v3/kv/range", {"key": _text(b"-")})["header"]["revision"])

    def compact(self) -> None:
        """Forgets all revisions before the newest one, on all members."""
        self.call("/v3/kv/compaction", {"revision": str(self.revision()), "physical": True})

    def require_password(self, user: str, password: str, prefix: str) -> None:
        """Enables authentication; this user may read and write the keys with this prefix."""
        permission = {"permType": "READWRITE", **_range(prefix)}
        for role in ("root", user):
            self.call("/v3/auth/role/add", {"name": role})
            self.call("/v3/auth/user/add", {"name": role, "password": password})
            self.call("/v3/auth/user/grant", {"user": role, "role": role})
        self.call("/v3/auth/role/grant", {"name": user, "perm": permission})
        self.call("/v3/auth/enable", {})
        root = {"name": "root", "password": password}
        self._token = self.call("/v3/auth/authenticate", root)["token"]

    def call(self, path: str, body: Mapping[str, object]) -> Json:
        """Calls a method at the first member that answers."""
        failures = []
        for member in self.members:
            if member.is_running:
                try:
                    return member.call(path, body, self._token)
                except OSError as error:
                    failures.append(f"{member.name}: {error}")
        expect(False, f"{path}: no member answers: {failures}")
        raise AssertionError


def _range(prefix: str) -> dict[str, str]:
    """The keys that begin with a prefix, which is ASCII."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return {"key": _text(prefix.encode()), "range_end": _text(end.encode())}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
