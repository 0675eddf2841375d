"""Sovereign, a control plane that is polled over REST-JSON, as the management server of `xds watch`."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario, play
from driver.processes import Process
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
    peer = _Peer(python.parent / "sovereign", workspace.xds_binary())
    play(report, run_dir, {"sovereign: xds watch --poll, a change and a restart": peer.follows})


class _Peer:
    def __init__(self, program: Path, xds: Path) -> None:
        self._program = program
        self._xds = xds

    def follows(self, scenario: Scenario) -> None:
        port = _free_port()
        server = self._serve(scenario, port, "1s", "2s")
        subscriptions = ("cds:blue", "cds:green")
        watch = XdsWatch(
            scenario,
            self._xds,
            f"127.0.0.1:{port}",
            _NODE,
            subscriptions,
            # It answers nobody who does not say which cluster it is in.
            ("--poll", "200ms", "--cluster", "any"),
        )
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

    def _serve(self, scenario: Scenario, port: int, blue: str, green: str) -> Process:
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
        process = scenario.spawn(Process, "sovereign", ["/usr/bin/env", *settings, self._program])
        eventually("sovereign answers", lambda: _answers(port), _PATIENCE)
        return process


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthcheck", timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _log(process: Process) -> str:
    return "\n".join(process.lines) + process.stderr_log.read_text(errors="replace")


def _timeouts(watch: XdsWatch, after: int) -> dict[str, str]:
    """By name: the timeout of each cluster that was printed."""
    changed = [event for event in watch.changes(after) if event["event"] == "changed"]
    return {event["name"]: event["resource"]["connect_timeout"] for event in changed}


def _has_ambient(watch: XdsWatch, after: int) -> bool:
    expect(any(event["event"] == "ambient" for event in watch.events[after:]), "nothing was told")
    return True
