"""Sovereign, a control plane that is polled over REST-JSON, as the management server of `xds watch`."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.processes import Argv, Event, Process
from driver.tls import Certificate
from driver.waiting import SILENCE, eventually, expect, stays
from driver.xds import XdsWatch

NAME = "sovereign"

_NODE = "test-id"
_PATIENCE = 30.0


def run(report: PeerReport, run_dir: Path) -> None:
    """Makes its environment and plays its scenario."""
    python = workspace.virtual_environment(NAME)
    version = workspace.ask(python, "from importlib.metadata import version; print(version('sovereign'))")
    report.version = f"sovereign {version}"
    peer = _Peer(python, workspace.xds_binary())
    play(
        report,
        run_dir,
        {
            "sovereign: xds watch --poll, a change and a restart": peer.follows,
            "sovereign over TLS: xds watch --poll, and whom it does not know": peer.follows_over_tls,
        },
    )


class _Peer:
    def __init__(self, python: Path, xds: Path) -> None:
        self._python = python
        self._xds = xds

    def follows(self, scenario: Scenario) -> None:
        port = _free_port()
        server = self._serve(scenario, port, "1s", "2s")
        watch = self._watch(scenario, port)
        with scenario.check("xds watch prints both clusters, as the templates have them"):
            eventually("both", lambda: _timeouts(watch, 0) == {"blue": "1s", "green": "2s"}, _PATIENCE)
        with scenario.check("that there is nothing new is answered with 304, and changes nothing"):
            before = watch.mark()
            stays("the events of xds watch", lambda: watch.events[before:], SILENCE)
            expect('"status": "304"' in _log(server), "no request was answered with 304")
        before = watch.mark()
        server.stop(signal.SIGTERM)
        with scenario.check("it stops: that is told beside what is in use"):
            eventually("word of it", lambda: _has_ambient(watch, before), _PATIENCE)
        before = watch.mark()
        self._serve(scenario, port, "1s", "7s")
        with scenario.check("it comes back with one cluster changed, and that one is printed"):
            eventually("green", lambda: _timeouts(watch, before) == {"green": "7s"}, _PATIENCE)
            stays("the changes", lambda: _timeouts(watch, before), SILENCE)
        with scenario.check("xds watch ends with exit code 0 when interrupted"):
            watch.stop_cleanly()

    def follows_over_tls(self, scenario: Scenario) -> None:
        port = _free_port()
        files = {}
        for name in ("server", "stranger"):
            made = Certificate.make(self._python, name)
            files[name] = (scenario.directory / f"{name}.pem", scenario.directory / f"{name}-key.pem")
            files[name][0].write_text(made.certificate)
            files[name][1].write_text(made.private_key)
        trusted, unknown = files["server"][0], files["stranger"][0]
        server = self._serve(scenario, port, "1s", "2s", files["server"])
        watch = self._watch(scenario, port, "--tls", "--ca", str(trusted))
        with scenario.check("xds watch that trusts its certificate prints both clusters"):
            eventually("both", lambda: _timeouts(watch, 0) == {"blue": "1s", "green": "2s"}, _PATIENCE)
        with scenario.check("it polls on over the same connection, and is answered with 304"):
            eventually("304", lambda: '"status": "304"' in _log(server), _PATIENCE)
            ports = {line.split('"src_port": "')[1].split('"')[0] for line in _requests(server)}
            expect(len(ports) == 1, f"asked over {len(ports)} connections")
        asked = len(_requests(server))
        stranger = self._watch(scenario, port, "--tls", "--ca", str(unknown))
        with scenario.check("one that trusts another says why, and has nothing"):
            eventually("the reason", lambda: _says(stranger.events, "certificate"), _PATIENCE)
            expect(_timeouts(stranger, 0) == {}, "it has clusters")
        plain = self._watch(scenario, port)
        with scenario.check("and so does one that asks without TLS"):
            eventually("a failure", lambda: _says(plain.events, "cds blue"), _PATIENCE)
            expect(_timeouts(plain, 0) == {}, "it has clusters")
        with scenario.check("the first one has polled on meanwhile, without a word"):
            eventually("more requests", lambda: len(_requests(server)) > asked, _PATIENCE)
            expect(len(watch.events) == 2, f"{watch.events}")

    def _watch(self, scenario: Scenario, port: int, *options: str) -> XdsWatch:
        """Our client. Sovereign answers nobody who does not say which cluster it is in."""
        flags = ("--poll", "200ms", "--cluster", "any", *options)
        return XdsWatch(scenario, self._xds, f"127.0.0.1:{port}", _NODE, ("cds:blue", "cds:green"), flags)

    def _serve(
        self, scenario: Scenario, port: int, blue: str, green: str, tls: tuple[Path, Path] | None = None
    ) -> Process:
        """The program, on templates in which the clusters have these timeouts."""
        clusters = [
            {"name": name, "connect_timeout": timeout} for name, timeout in (("blue", blue), ("green", green))
        ]
        template = scenario.directory / "clusters.yaml"
        template.write_text(json.dumps({"resources": clusters}))
        # It insists on a source of data, though the template uses none.
        config = {
            "sources": [{"type": "inline", "config": {"instances": [{"name": "x", "service_clusters": ["*"]}]}}],
            "templates": {"default": {"clusters": f"file+jinja://{template}"}},
        }
        path = scenario.directory / "sovereign.yaml"
        path.write_text(json.dumps(config))
        settings = [
            f"SOVEREIGN_CONFIG=file://{path}",
            "SOVEREIGN_HOST=127.0.0.1",
            f"SOVEREIGN_PORT={port}",
            "SOVEREIGN_WORKERS=1",
        ]
        program: Argv = [self._python.parent / "sovereign"]
        if tls:
            program = [self._python, "-B", workspace.INTEROP / "sovereign" / "serve_tls.py", *tls]
        process = scenario.spawn(Process, "sovereign", ["/usr/bin/env", *settings, *program])
        eventually("sovereign answers", lambda: _answers(port, tls[0] if tls else None), _PATIENCE)
        return process


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _answers(port: int, trusted: Path | None = None) -> bool:
    scheme = "https" if trusted else "http"
    context = ssl.create_default_context(cafile=trusted) if trusted else None
    try:
        url = f"{scheme}://127.0.0.1:{port}/healthcheck"
        with urllib.request.urlopen(url, timeout=2, context=context):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _log(process: Process) -> str:
    return "\n".join(process.lines) + process.stderr_log.read_text(errors="replace")


def _requests(process: Process) -> list[str]:
    """What it has written of each request for clusters."""
    return [line for line in _log(process).splitlines() if "/v3/discovery:clusters" in line]


def _says(events: list[Event], word: str) -> bool:
    expect(any(word in event.get("error", "") for event in events), f"{events}")
    return True


def _timeouts(watch: XdsWatch, after: int) -> dict[str, str]:
    """By name: the timeout of each cluster that was printed."""
    changed = [event for event in watch.changes(after) if event["event"] == "changed"]
    return {event["name"]: event["resource"]["connect_timeout"] for event in changed}


def _has_ambient(watch: XdsWatch, after: int) -> bool:
    expect(any(event["event"] == "ambient" for event in watch.events[after:]), "nothing was told")
    return True
