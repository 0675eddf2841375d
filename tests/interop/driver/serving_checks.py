"""Ours and gRPC C-core serve as the same listeners say: the same calls of a client have the same outcomes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.serving.access import access
from driver.serving.changes import play_changes
from driver.serving.peers import BOTH, Caller, Served, Side, argv_of, free_port, hosts_of
from driver.serving.rejections import play_rejections
from driver.serving.tables import MISSING, OK, Row, calls, connections, secured
from driver.tls import Certificate, CertificateFiles
from driver.waiting import INTERVAL, eventually, expect, stays

NAME = "serving"
# A listener that has been accepted is in use soon afterwards.
_PATIENCE = 20.0

# The names in certificates: those of DNS and URIs.
_CERTIFICATES = {
    "server": ("server.example",),
    "other": ("server.example",),
    "named": ("named.example", "spiffe://example/ns/one"),
    "dns": ("dns.example",),
    "bare": (),
    "stranger": (),
}
_CLIENTS = ("named", "dns", "bare")


def run(report: PeerReport, run_dir: Path) -> None:
    """Plays every row: both servers have its listener and get the same calls."""
    python, maker = workspace.virtual_environment("grpc"), workspace.virtual_environment("envoy")
    ours = workspace.example_program("grpc_server")

    # The last row needs 15 seconds, after which resources that are not sent do not exist.
    rows = [*connections(free_port(), _external()), *calls(), *access(), *secured(), MISSING]
    scenarios: dict[str, Callable[[Scenario], None]] = {
        f"{NAME}: connections and calls": lambda scenario: _play(rows, scenario, python, maker, ours, report),
        f"{NAME}: changes": lambda scenario: play_changes(scenario, python, ours),
        f"{NAME}: what is rejected": lambda scenario: play_rejections(scenario, python, ours),
    }
    play(report, run_dir, scenarios)


def _external() -> str | None:
    """An address of this machine that is not on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(unsent.getsockname()[0])


def _play(rows: list[Row], scenario: Scenario, python: Path, maker: Path, ours: Path, report: PeerReport) -> None:
    made = {
        name: CertificateFiles.write(Certificate.make(maker, name, *names), scenario.directory)
        for name, names in _CERTIFICATES.items()
    }
    providers, caller = _providers(made, scenario.directory), Caller(scenario, python, made)
    servers = [Served(scenario, side, argv_of(side, python, ours), hosts_of(rows), providers) for side in BOTH]
    for server in servers:
        for number, row in enumerate(rows):
            server.put(number, f"row-{number}", row.listener, *row.routes)
        server.start()
    report.version = f"C-core {servers[1].version} (Python)"
    for server in servers:
        with scenario.check(f"{server.side.value}: {len(rows)} listeners are accepted"):
            row = eventually("all listeners", lambda server=server: server.listeners())
            expect(row.state == "ACKED" and row.subscribed == len(rows), str(row))
    for number, row in enumerate(rows):
        _judge(row, number, servers, caller, scenario)
    for server in servers:
        with scenario.check(
            f"{server.side.value}: a listener that is deleted stays in use without `fail_on_data_errors`"
        ):
            before = server.listeners()
            server.remove(0)
            server.wait_answer("lds", before)
            stays("what becomes of calls", lambda server=server: caller.calls(server.ports[0], [OK]) == ["OK"], 1.0)


def _judge(row: Row, number: int, servers: list[Served], caller: Caller, scenario: Scenario) -> None:
    """One check for a row; the next rows do not depend on it."""
    title = f"{row.about}: {len(row.calls)} calls, {', '.join(sorted({call.outcome for call in row.calls}))}"
    wrong = []
    for server in servers:
        wanted = [call.outcome for call in row.calls]
        if server.side is not Side.OURS:
            wanted = [row.differs.get(index, outcome) for index, outcome in enumerate(wanted)]
        found = _outcomes(row, server.ports[number], wanted, caller)
        server.expect_running()
        if found != wanted:
            wrong.append(f"{server.side.value}: {found} instead of {wanted}")
    if wrong:
        scenario.failed = True
        scenario.report.not_ok(title, "\n".join(wrong))
    else:
        scenario.report.ok(f"{title}, but {row.why}" if row.why else title)


def _outcomes(row: Row, port: int, wanted: list[str], caller: Caller) -> list[str]:
    """What becomes of the calls, or what is still wrong after a while."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        found = caller.calls(port, row.calls)
        if found == wanted or time.monotonic() >= deadline:
            return found
        time.sleep(INTERVAL)


def _providers(made: Mapping[str, CertificateFiles], directory: Path) -> dict[str, dict[str, str]]:
    """Certificates of servers, and whom they believe."""
    clients = directory / "clients.pem"
    clients.write_text(
        "".join(made[name].certificate.read_text(encoding="utf-8") for name in _CLIENTS), encoding="utf-8"
    )
    identities = {
        name: {"certificate_file": str(made[name].certificate), "private_key_file": str(made[name].key)}
        for name in ("server", "other")
    }
    return {**identities, "clients": {"ca_certificate_file": str(clients)}}
