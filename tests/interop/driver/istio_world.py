"""etcd and kube-apiserver, and the control plane of the scenarios with Istio, all on loopback."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario
from driver.processes import Argv, Process
from driver.tls import Certificate, CertificateFiles
from driver.waiting import eventually, expect

Json = dict[str, Any]

# kube-apiserver needs several seconds to become ready, more on a busy machine.
_START_PATIENCE = 120.0
_REQUEST_PATIENCE = 10.0
_TOKEN = "interop"
_REJECTS = re.compile(r"^pilot_total_xds_rejects(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class KubernetesPrograms:
    """The programs of a Kubernetes without nodes."""

    etcd: Path
    apiserver: Path
    # With the package `cryptography`.
    python: Path


@dataclass(frozen=True)
class Programs(KubernetesPrograms):
    """The programs of a scenario with Istio."""

    istiod: Path
    xds: Path


class Kubernetes:
    """etcd and kube-apiserver. No controller runs, so that only the checks write objects."""

    def __init__(self, scenario: Scenario, programs: KubernetesPrograms) -> None:
        self._directory = scenario.directory
        self._scenario, self._programs = scenario, programs
        self._etcd, peers, self._port = free_ports(3)
        self._start_etcd(scenario, programs.etcd, self._etcd, peers)
        signer = Certificate.make(programs.python, "accounts")
        self._signer = CertificateFiles.write(signer, self._directory)
        self._apiserver = self.start_apiserver()

    def _start_etcd(self, scenario: Scenario, program: Path, port: int, peers: int) -> None:
        own, among_peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
        argv: Argv = [
            program,
            "--data-dir", self._directory / "etcd-data",
            "--listen-client-urls", own,
            "--advertise-client-urls", own,
            "--listen-peer-urls", among_peers,
            "--initial-advertise-peer-urls", among_peers,
            "--initial-cluster", f"default={among_peers}",
            "--log-level", "warn",
            "--unsafe-no-fsync",
        ]  # fmt: skip
        process = scenario.spawn(Process, "etcd", argv)

        def healthy() -> bool:
            process.expect_running()
            with urllib.request.urlopen(f"{own}/health", timeout=_REQUEST_PATIENCE) as answer:
                return bool(json.load(answer)["health"] == "true")

        eventually("etcd is healthy", healthy, _START_PATIENCE)

    def start_apiserver(self) -> Process:
        """Starts the API server, and waits until it is ready."""
        signer = self._signer
        tokens = self._directory / "tokens.csv"
        tokens.write_text(f"{_TOKEN},admin,admin,system:masters\n", encoding="utf-8")
        argv: Argv = [
            self._programs.apiserver,
            "--etcd-servers", f"http://127.0.0.1:{self._etcd}",
            "--bind-address", "127.0.0.1",
            "--secure-port", str(self._port),
            "--cert-dir", self._directory / "apiserver-certificates",
            "--service-account-issuer", "https://kubernetes.default",
            "--service-account-signing-key-file", signer.key,
            # A public key of this kind is accepted inside a certificate only.
            "--service-account-key-file", signer.certificate,
            "--service-cluster-ip-range", "10.0.0.0/24",
            "--authorization-mode", "AlwaysAllow",
            "--token-auth-file", tokens,
            "--disable-admission-plugins", "ServiceAccount",
            # Loopback is no valid address for the endpoints of the `kubernetes` service.
            "--endpoint-reconciler-type", "none",
        ]  # fmt: skip
        process = self._scenario.spawn(Process, "kube-apiserver", argv)
        self._apiserver = process

        def ready() -> bool:
            process.expect_running()
            return self._request("GET", "/readyz") == "ok"

        eventually("kube-apiserver is ready", ready, _START_PATIENCE)
        return process

    def kill_apiserver(self) -> None:
        """Ends the API server without warning; etcd goes on."""
        self._apiserver.stop(signal.SIGKILL)

    def kubeconfig(self) -> Path:
        """Writes a kubeconfig for it."""
        file = self._directory / "kubeconfig.json"
        server = {"server": f"https://127.0.0.1:{self._port}", "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": server}],
            "users": [{"name": "admin", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}],
            "current-context": "it",
        }
        file.write_text(json.dumps(config), encoding="utf-8")
        return file

    def create(self, path: str, thing: Json) -> None:
        """Posts an object below `/api/v1` or another path of the API."""
        self._request("POST", path, thing)

    def replace(self, path: str, thing: Json) -> None:
        """Replaces an object, whatever its version."""
        self._request("PUT", path, thing)

    def patch(self, path: str, changes: Json) -> None:
        """Changes fields of an object (RFC 7386)."""
        self._request("PATCH", path, changes)

    def get(self, path: str) -> Json:
        """An object or a list."""
        answer: Json = json.loads(self._request("GET", path))
        return answer

    def store(self, key: str, thing: Json) -> None:
        """Writes an object into etcd, past the API server, which rejects endpoints on loopback."""
        encode = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
        data = json.dumps({"key": encode(key), "value": encode(json.dumps(thing))}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._etcd}/v3/kv/put", data)
        with urllib.request.urlopen(request, timeout=_REQUEST_PATIENCE) as answer:
            answer.read()

    def delete(self, path: str) -> None:
        """Deletes an object."""
        self._request("DELETE", path)

    def _request(self, method: str, path: str, body: Json | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": kind}
        request = urllib.request.Request(f"https://127.0.0.1:{self._port}{path}", data, headers, method=method)
        # Its certificate is self-signed, and it is on loopback.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_PATIENCE, context=context) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            expect(False, f"{method} {path}: {error.code}: {error.read().decode(errors='replace')}")
            raise


class Istiod:
    """istiod, with an API server and a directory of Istio resources."""

    def __init__(
        self, scenario: Scenario, programs: Programs, kubernetes: Kubernetes, config: Path, mesh: Path
    ) -> None:
        self._scenario = scenario
        grpc, http, self._monitoring = free_ports(3)
        self._http = http
        self.address = f"127.0.0.1:{grpc}"
        environment = [
            "POD_NAMESPACE=istio-system",
            "POD_NAME=istiod-0",
            "PILOT_CERT_PROVIDER=none",
            "PILOT_ENABLE_MONGO_FILTER=true",
            "PILOT_ENABLE_MYSQL_FILTER=true",
            "PILOT_ENABLE_REDIS_FILTER=true",
        ]
        self._argv: Argv = [
            "/usr/bin/env", *environment, programs.istiod, "discovery",
            "--kubeconfig", kubernetes.kubeconfig(),
            "--configDir", config,
            "--meshConfig", mesh,
            "--registries", "Kubernetes",
            "--grpcAddr", self.address,
            "--httpAddr", f"127.0.0.1:{http}",
            "--httpsAddr", "",
            "--secureGRPCAddr", "",
            "--monitoringAddr", f"127.0.0.1:{self._monitoring}",
            "--ctrlz_port", "0",
        ]  # fmt: skip
        self._process = self.start()

    def start(self) -> Process:
        """Starts it on its ports."""
        self._process = self._scenario.spawn(Process, "istiod", self._argv)
        eventually("istiod is ready", lambda: self._get(self._http, "/ready") is not None, _START_PATIENCE)
        return self._process

    def kill(self) -> None:
        """Kills it, as a crash would."""
        self._process.stop(signal.SIGKILL)

    def rejects(self) -> float:
        """How many responses clients have rejected, as its metrics say."""
        return sum(map(float, _REJECTS.findall(self._get(self._monitoring, "/metrics"))))

    def synced(self, node: str) -> dict[str, Json]:
        """Nonces of the last response sent to a node and of the last one acknowledged, and the last error, by type URL."""
        proxies = json.loads(self._get(self._http, "/debug/syncz"))
        # istiod identifies a proxy by the third part of its node id.
        name = node.split("~")[2]
        return next((proxy["resources"] for proxy in proxies if proxy["proxy"] == name), {})

    def _get(self, port: int, path: str) -> str:
        self._process.expect_running()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=_REQUEST_PATIENCE) as answer:
            return str(answer.read().decode())


def free_ports(count: int) -> list[int]:
    """Unused ports on loopback, for programs that cannot choose one themselves."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def mesh_config() -> Path:
    """The mesh configuration of every scenario."""
    return workspace.CONFIG / "istio" / "mesh.yaml"
