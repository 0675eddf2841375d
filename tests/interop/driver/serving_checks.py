"""Ours, gRPC C-core and grpc-go serve as the same listeners say: the same calls have the same outcomes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.processes import Argv
from driver.serving.access import access
from driver.serving.changes import play_changes
from driver.serving.meshed import play_meshed
from driver.serving.peers import Caller, Served, free_port, hosts_of, programs
from driver.serving.rejections import play_rejections
from driver.serving.sides import Side
from driver.serving.tables import MISSING, OK, Row, calls, connections, secured
from driver.tls import Certificate, CertificateFiles
from driver.waiting import INTERVAL, eventually, expect, stays

NAME = "serving"

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
    """Plays every row: all servers have its listener and get the same calls."""
    python, maker = workspace.virtual_environment("grpc"), workspace.virtual_environment("envoy")
    commands = programs(python)
    # grpc-go opens its ports before it has a listener, so they do not show what it accepts.
    both: dict[Side, Argv] = {side: command for side, command in commands.items() if side is not Side.GO}

    # The last row needs 15 seconds, after which resources that are not sent do not exist.
    rows = [*connections(free_port(), _external()), *calls(), *access(), *secured(), MISSING]
    scenarios: dict[str, Callable[[Scenario], None]] = {
        f"{NAME}: connections and calls": lambda scenario: _play(rows, scenario, python, maker, commands, report),
        f"{NAME}: changes": lambda scenario: play_changes(scenario, python, commands),
        f"{NAME}: what is rejected": lambda scenario: play_rejections(scenario, python, both),
    }

    def meshed(scenario: Scenario) -> None:
        made = _certificates(maker, scenario.directory)
        play_meshed(scenario, python, commands, _providers(made, scenario.directory))

    scenarios[f"{NAME}: channels that are configured by xDS"] = meshed
    play(report, run_dir, scenarios)


def _external() -> str | None:
    """An address of this machine that is not on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(unsent.getsockname()[0])


def _play(
    rows: list[Row],
    scenario: Scenario,
    python: Path,
    maker: Path,
    commands: Mapping[Side, Argv],
    report: PeerReport,
) -> None:
    made = _certificates(maker, scenario.directory)
    providers, caller = _providers(made, scenario.directory), Caller(scenario, python, made)
    servers = [Served(scenario, side, command, hosts_of(rows), providers) for side, command in commands.items()]
    for server in servers:
        for number, row in enumerate(rows):
            server.put(number, f"row-{number}", row.listener, *row.routes)
        server.start()
    report.version = ", ".join(f"{server.side.value} {server.version}" for server in servers[1:])
    for server in servers:
        with scenario.check(f"{server.side.value}: {len(rows)} listeners are accepted"):
            row = eventually("all listeners", lambda server=server: server.listeners())
            expect(row.subscribed == len(rows), str(row))
            expect(row.state == "ACKED" or server.side is Side.GO, str(row))
    for number, row in enumerate(rows):
        _judge(row, number, servers, caller, scenario)
    # grpc-go does not keep deleted resources (gRFC A88).
    for server in (server for server in servers if server.side is not Side.GO):
        about = "a listener that is deleted stays in use without `fail_on_data_errors`"
        with scenario.check(f"{server.side.value}: {about}"):
            before = server.listeners()
            server.remove(0)
            server.wait_answer("lds", before)
            found = stays("what becomes of calls", lambda server=server: caller.calls(server.ports[0], [OK]), 1.0)
            expect(found == ["OK"], str(found))


def _certificates(maker: Path, directory: Path) -> dict[str, CertificateFiles]:
    return {
        name: CertificateFiles.write(Certificate.make(maker, name, *names), directory)
        for name, names in _CERTIFICATES.items()
    }


def _judge(row: Row, number: int, servers: list[Served], caller: Caller, scenario: Scenario) -> None:
    """One check for a row; the next rows do not depend on it."""
    title = f"{row.about}: {len(row.calls)} calls, {', '.join(sorted({call.outcome for call in row.calls}))}"
    wrong = []
    for server in servers:
        wanted = [row.differs.get((server.side, index), call.outcome) for index, call in enumerate(row.calls)]
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
    deadline = time.monotonic() + row.patience
    while True:
        found = caller.calls(port, row.calls)
        if found == wanted or time.monotonic() >= deadline:
            return found
        time.sleep(INTERVAL)


def _providers(made: Mapping[str, CertificateFiles], directory: Path) -> dict[str, dict[str, str]]:
    """Certificates of servers and clients, and whom they believe."""
    clients = directory / "clients.pem"
    clients.write_text(
        "".join(made[name].certificate.read_text(encoding="utf-8") for name in _CLIENTS), encoding="utf-8"
    )
    identities = {
        name: {"certificate_file": str(made[name].certificate), "private_key_file": str(made[name].key)}
        for name in ("server", "other", "named", "stranger")
    }
    roots = {"ca_certificate_file": str(made["server"].certificate)}
    return {**identities, "clients": {"ca_certificate_file": str(clients)}, "roots": roots}
