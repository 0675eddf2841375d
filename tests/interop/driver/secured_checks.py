"""Envoy and gRPC as clients of `xds serve` over TLS with certificates of both sides, and servers that drain."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.config_dir import ConfigDir, render
from driver.envoy import Envoy
from driver.envoy_world import DELTA_ADS, NODE, REST, SOTW_ADS, Transport, envoy_program, resource_values
from driver.grpc_application import GrpcApplication
from driver.http_backend import HttpBackend
from driver.http_load import LoadThread
from driver.tls import Certificate, CertificateFiles
from driver.waiting import CheckFailed, eventually, expect
from driver.xds import TYPE_URLS, Ordering, StatusRow, XdsServe

NAME = "secured"

_TYPES = tuple(TYPE_URLS)
_GRPC_NODE = "grpc-1"
# A gRPC client that has lost its server waits a second, and more each time.
_RETURN = 40.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Prepares both peers and plays their scenarios."""
    maker, envoy = envoy_program()
    grpc = workspace.virtual_environment("grpc")
    xds = workspace.xds_binary()
    scenarios: dict[str, Callable[[Scenario], None]] = {}
    for transport in (SOTW_ADS, DELTA_ADS):
        story = partial(_envoy_moves, report=report, xds=xds, envoy=envoy, maker=maker, transport=transport)
        scenarios[f"secured, Envoy, {transport.title}: servers drain"] = story
    polls = partial(_envoy_polls, xds=xds, envoy=envoy, maker=maker)
    scenarios["secured, Envoy, REST: start and a change"] = polls
    scenarios["secured, gRPC: servers drain"] = partial(_grpc_returns, report=report, xds=xds, python=grpc, maker=maker)
    play(report, run_dir, scenarios)


@dataclass(frozen=True)
class _Identities:
    """Who a server says it is, who its clients are, and somebody whom it does not know."""

    server: CertificateFiles
    client: CertificateFiles
    stranger: CertificateFiles

    @classmethod
    def make(cls, scenario: Scenario, maker: Path) -> _Identities:
        made = (Certificate.make(maker, name) for name in ("server", "client", "stranger"))
        return cls(*(CertificateFiles.write(one, scenario.directory) for one in made))

    def flags(self) -> list[str | Path]:
        """What makes `xds serve` speak TLS, to clients with the right certificate."""
        files = self.server
        return ["--tls-cert", files.certificate, "--tls-key", files.key, "--client-ca", self.client.certificate]

    def expect_refusals(self, port: int, protocol: str = "h2") -> None:
        """Who has no certificate, or another one, is not talked to."""
        expect(self._is_let_in(port, protocol, self.client), "the right certificate is refused")
        for files in (None, self.stranger):
            let_in = self._is_let_in(port, protocol, files)
            expect(not let_in, f"let in: {files.certificate.stem if files else 'no certificate'}")

    def _is_let_in(self, port: int, protocol: str, files: CertificateFiles | None) -> bool:
        context = ssl.create_default_context(cafile=str(self.server.certificate))
        context.set_alpn_protocols([protocol])
        if files:
            context.load_cert_chain(files.certificate, files.key)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5.0, context=context)
        try:
            connection.connect()
            if protocol != "h2":
                connection.request("GET", "/")
                return connection.getresponse().status >= 400
            # The server's settings come first; what is wrong with a certificate is said in their place.
            return bool(connection.sock.recv(9))
        except (ssl.SSLError, ConnectionError):
            return False
        finally:
            connection.close()


def _envoy_moves(
    scenario: Scenario, report: PeerReport, xds: Path, envoy: Path, maker: Path, transport: Transport
) -> None:
    """Two servers, and each in its turn is drained while requests and changes go on."""
    identities = _Identities.make(scenario, maker)
    with LoadThread("blue", "green") as load:
        ports = {f"{name}_port": backend.port for name, backend in load.backends.items()}
        config = ConfigDir(
            scenario.directory / "resources",
            workspace.CONFIG / "envoy",
            resource_values(transport, generation=0, **ports),
        )
        config.replace("listener.yaml", "resources/listener.yaml")
        config.replace("generation.yaml", "edits/generation.yaml")

        def serve(listen: str = "127.0.0.1:0") -> XdsServe:
            gated = Ordering.MAKE_BEFORE_BREAK
            return XdsServe(scenario, xds, config.path, listen, ordering=gated, flags=identities.flags())

        servers = [serve(), serve()]
        with scenario.check("only clients with the right certificate are let in"):
            identities.expect_refusals(servers[0].port)
        values = {
            "node": NODE,
            "dynamic_resources": json.dumps(transport.dynamic_resources()),
            "first_port": servers[0].port,
            "second_port": servers[1].port,
            **_paths(identities),
        }
        bootstrap = render(workspace.CONFIG / "envoy" / "bootstrap-secured.yaml", values)
        proxy = Envoy(scenario, envoy, bootstrap, workers=2)
        with scenario.check("Envoy has everything it waits for, over TLS"):
            proxy.wait_live()
            report.version = f"Envoy {proxy.version()}"
            used = _server_of_the_client(servers)
            before = used.wait_acked(*_TYPES)
        load.start(proxy.listener_port(), kept=4, new=3, slow=4)

        for generation in (1, 2, 3):
            other = servers[1 - servers.index(used)]
            with scenario.check(f"drain {generation}: the server ends with exit code 0"):
                used.stop_cleanly()
            with scenario.check("Envoy turns to the other server, which has the same versions for it"):
                after = _returned(other, before)
            # Not where it was: nobody may find the way back by chance.
            servers[servers.index(used)] = serve(used.address)
            with scenario.check("a change that renames everything arrives from there"):
                config.set("generation", generation)
                config.replace("generation.yaml", "edits/generation.yaml")
                eventually(f"generation {generation}", partial(_has_generation, proxy, generation))
                other.wait_acked("cds", "eds", "rds", new_after=after)
            used, before = other, other.settled()

        with scenario.check("not one request failed meanwhile, and nothing was rejected"):
            tally = load.stop()
            expect(tally.failed == 0 and tally.answered > 100, str(tally))
            for name in ("cluster_manager.cds", "listener_manager.lds", "http.ingress.rds.routes"):
                expect(proxy.stat(f"{name}.update_rejected") == 0, f"{name} was rejected")


def _envoy_polls(scenario: Scenario, xds: Path, envoy: Path, maker: Path) -> None:
    """REST-JSON with the certificates of both sides."""
    identities = _Identities.make(scenario, maker)
    with HttpBackend("blue") as blue, HttpBackend("green") as green:
        values = resource_values(REST, blue_port=blue.port, green_port=green.port)
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
        config.fill()
        serve = XdsServe(
            scenario, xds, config.path, streams=REST.streams, rest="127.0.0.1:0", flags=identities.flags()
        )
        base = {
            "node": NODE,
            "xds_port": serve.port,
            "dynamic_resources": json.dumps(REST.dynamic_resources()),
            "layered_runtime": json.dumps({"layers": []}),
        }
        bootstrap = render(workspace.CONFIG / "envoy" / "bootstrap.yaml", base)
        own = {"rest_port": serve.rest_port, **_paths(identities)}
        bootstrap += render(workspace.CONFIG / "envoy" / "bootstrap-rest-secured.yaml", own)
        proxy = Envoy(scenario, envoy, bootstrap, workers=1)
        with scenario.check("Envoy has everything it waits for, polled over TLS"):
            proxy.wait_live()
            proxy.wait_fetch("blue")
        with scenario.check("a change arrives, and nothing failed or was rejected"):
            config.replace("routes.yaml", "edits/routes-to-green.yaml")
            proxy.wait_fetch("green")
            for name in ("cluster_manager.cds", "listener_manager.lds", "http.ingress.rds.routes"):
                for what in ("update_failure", "update_rejected"):
                    expect(proxy.stat(f"{name}.{what}") == 0, f"{name}.{what}")
        with scenario.check("only clients with the right certificate are let in there"):
            identities.expect_refusals(serve.rest_port, "http/1.1")


def _server_of_the_client(servers: list[XdsServe]) -> XdsServe:
    def probe() -> XdsServe:
        for server in servers:
            if server.rows():
                return server
        raise CheckFailed("no server has a client")

    return eventually("a server that has the client", probe)


def _returned(server: XdsServe, before: dict[str, StatusRow]) -> dict[str, StatusRow]:
    """The rows of a client that has come from elsewhere, once it has what it had there."""
    eventually("all types", lambda: set(server.rows()) >= set(_TYPES), _RETURN)
    rows = server.settled()
    for name, old in before.items():
        new = rows[name]
        # An incremental client is not sent what it says that it has.
        is_same = new.sent in ("", None, old.sent)
        expect(is_same and new.state != "NACKED" and new.nacks == 0, f"{new}; before: {old}")
    return rows


def _has_generation(proxy: Envoy, generation: int) -> bool:
    wanted = {f"blue-{generation}", f"green-{generation}"}
    return {name for name in proxy.clusters() if name != "xds"} == wanted


def _grpc_returns(scenario: Scenario, report: PeerReport, xds: Path, python: Path, maker: Path) -> None:
    """A server is drained, and another one is there in its place."""
    identities = _Identities.make(scenario, maker)
    program = workspace.INTEROP / "grpc-python" / "peer.py"
    client = GrpcApplication(scenario, [python, "-I", "-B", program])
    values: dict[str, object] = {f"{name}_port": port for name, port in client.ports.items()}
    config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "grpc", values)
    config.fill()
    serve = XdsServe(scenario, xds, config.path, flags=identities.flags())
    paths = {name: str(path) for name, path in _paths(identities).items()}
    client.connect(server=serve.address, node=_GRPC_NODE, **paths)
    with scenario.check("a channel resolves xds:///svc over TLS and completes an RPC"):
        client.expect_answer("first")
        report.version += f", C-core {client.version}"
        old = serve.wait_acked(*_TYPES)
    with scenario.check("a changed endpoint moves the RPCs, and none fails on the way"):
        config.replace("endpoints.yaml", "edits/endpoints-second.yaml")
        client.wait_answer("second")
        serve.wait_acked("eds", new_after=old)
        old = serve.settled()
    with scenario.check("the drained server ends with exit code 0, and RPCs go on"):
        serve.stop_cleanly()
        client.expect_answer("second")
    config.replace("endpoints.yaml", "resources/endpoints.yaml")
    new = XdsServe(scenario, xds, config.path, serve.address, flags=identities.flags())
    with scenario.check("the client comes back, and no RPC fails until what changed meanwhile is in use"):
        client.wait_answer("first", _RETURN)
        _returned(new, {name: row for name, row in old.items() if name != "eds"})


def _paths(identities: _Identities) -> dict[str, object]:
    return {
        "client_certificate": identities.client.certificate,
        "client_key": identities.client.key,
        "server_certificate": identities.server.certificate,
    }
