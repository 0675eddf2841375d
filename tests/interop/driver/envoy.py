"""A real Envoy, seen through its admin interface and through its listener."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driver.checks import Scenario
from driver.processes import Process
from driver.waiting import eventually, expect

_HTTP_PATIENCE = 5.0


class Envoy:
    """One Envoy process, bootstrapped from `config/envoy/bootstrap.yaml`."""

    def __init__(
        self,
        scenario: Scenario,
        binary: Path,
        bootstrap: str,
        workers: int = 1,
        options: Sequence[str] = (),
        directory: Path | None = None,
    ) -> None:
        directory = directory or scenario.directory
        config = directory / "bootstrap.yaml"
        config.write_text(bootstrap, encoding="utf-8")
        admin_address = directory / "admin-address.txt"
        self._process = scenario.spawn(
            Process,
            "envoy",
            [
                binary,
                "--config-path", config,
                "--admin-address-path", admin_address,
                "--disable-hot-restart",
                "--concurrency", str(workers),
                *options,
            ],
        )  # fmt: skip
        self._admin = eventually("Envoy's admin address", lambda: self._read_admin_address(admin_address))

    def _read_admin_address(self, file: Path) -> tuple[str, int]:
        self._process.expect_running()
        host, _, port = file.read_text().strip().rpartition(":")
        expect(port.isdigit(), f"not written yet: {file}")
        return host, int(port)

    @property
    def admin_address(self) -> str:
        """The address of the admin interface."""
        host, port = self._admin
        return f"{host}:{port}"

    def admin(self, path: str) -> str:
        """The body of one page of the admin interface."""
        self._process.expect_running()
        status, body = _get(*self._admin, path)
        expect(status == 200, f"admin {path}: HTTP {status}: {body}")
        return body

    def version(self) -> str:
        """The version as Envoy itself tells it: "1.40.0 RELEASE"."""
        _, number, _, build, _ = json.loads(self.admin("/server_info"))["version"].split("/")
        return f"{number} {build}"

    def wait_live(self) -> None:
        """Waits until all that Envoy initialises from has arrived."""
        eventually("Envoy ready", lambda: self.admin("/ready").strip() == "LIVE")

    def stat(self, name: str) -> int:
        """The value of one counter or gauge; 0 while Envoy does not know it."""
        text = self.admin(f"/stats?filter=^{re.escape(name)}$")
        return int(text.rpartition(":")[2]) if text.strip() else 0

    def wait_stat(self, name: str, value: int, patience: float | None = None) -> None:
        """Waits until a counter or gauge has a value."""

        def probe() -> bool:
            now = self.stat(name)
            expect(now == value, f"{name} is {now}")
            return True

        if patience is None:
            eventually(f"{name} = {value}", probe)
        else:
            eventually(f"{name} = {value}", probe, patience)

    def config(self, resource: str) -> list[dict[str, Any]]:
        """One repeated field of the configuration dump, `dynamic_active_clusters` for example."""
        dump = json.loads(self.admin(f"/config_dump?include_eds&resource={resource}"))
        entries: list[dict[str, Any]] = dump.get("configs", [])
        return entries

    def cluster(self, name: str) -> dict[str, Any] | None:
        """The definition of a dynamic cluster in use; `None` if there is no such cluster."""
        for entry in self.config("dynamic_active_clusters"):
            cluster: dict[str, Any] = entry["cluster"]
            if cluster["name"] == name:
                return cluster
        return None

    def clusters(self) -> list[str]:
        """The names of the clusters that requests can be sent to."""
        statuses = json.loads(self.admin("/clusters?format=json"))["cluster_statuses"]
        return [status["name"] for status in statuses]

    def endpoints(self, cluster: str) -> list[int]:
        """The ports of the endpoints that Envoy uses for a cluster."""
        for status in json.loads(self.admin("/clusters?format=json"))["cluster_statuses"]:
            if status["name"] == cluster:
                hosts = status.get("host_statuses", [])
                return sorted(host["address"]["socket_address"]["port_value"] for host in hosts)
        return []

    def listener_port(self) -> int:
        """The port that Envoy's only dynamic listener has on loopback."""
        listeners = json.loads(self.admin("/listeners?format=json")).get("listener_statuses", [])
        expect(len(listeners) == 1, f"Envoy has {len(listeners)} listeners")
        port: int = listeners[0]["local_address"]["socket_address"]["port_value"]
        return port

    def fetch(self) -> str:
        """The answer to one HTTP request through Envoy's only dynamic listener."""
        status, body = _get("127.0.0.1", self.listener_port(), "/")
        expect(status == 200, f"HTTP {status} through Envoy: {body}")
        return body

    def wait_fetch(self, *answers: str) -> None:
        """Waits until twenty requests in a row are answered by all the named backends and nobody else."""

        def probe() -> bool:
            seen = {self.fetch() for _ in range(20)}
            expect(seen == set(answers), f"answers came from {sorted(seen)}")
            return True

        eventually(f"requests answered by {' and '.join(answers)}", probe)


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    # Not urllib: that would honour proxies of the environment, also for loopback.
    connection = http.client.HTTPConnection(host, port, timeout=_HTTP_PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    finally:
        connection.close()
