"""Envoy behind `--ordering make-before-break` when a change of several clusters is rejected, and repaired by one of them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from driver import workspace
from driver.checks import Scenario, comment
from driver.config_dir import ConfigDir
from driver.envoy_world import WARMING_PATIENCE, Programs, Transport, resource_values
from driver.http_backend import HttpBackend
from driver.waiting import SILENCE, expect, stays
from driver.xds import Ordering

_SOUND = {"other_timeout": "1s", "other_kind": "type: STATIC"}


@dataclass(frozen=True)
class _Flaw:
    """What is wrong with a cluster, and what Envoy does with those beside it."""

    title: str
    values: dict[str, str]
    reason: str


_FLAWS = (
    # Found when the clusters are made, one by one: the others are taken, and warmed.
    _Flaw("is of an unknown kind", {"other_kind": "cluster_type: { name: no.such.kind }"}, "no.such.kind"),
    # Found before: nothing is taken.
    _Flaw("breaks a constraint", {"other_timeout": "0s"}, "ConnectTimeout"),
)


def repairs_a_rejected_change(scenario: Scenario, programs: Programs, transport: Transport) -> None:
    """The routes of a rejected change follow the repaired clusters at once, whatever Envoy took of them before."""
    with HttpBackend("blue") as blue, HttpBackend("green") as green:
        values = resource_values(transport, blue_port=blue.port, green_port=green.port)
        values |= {"blue_timeout": "1s", "green_timeout": "1s", "target": "blue", **_SOUND}
        config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
        config.fill({"clusters.yaml": "edits/one-piece.yaml", "routes.yaml": None})
        serve, envoy = programs.start(scenario, config.path, transport, ordering=Ordering.MAKE_BEFORE_BREAK)
        envoy.wait_live()
        envoy.wait_fetch("blue")
        targets = ("green", "blue")
        for number, (flaw, target) in enumerate(zip(_FLAWS, targets, strict=True), start=2):
            before = serve.settled()
            with scenario.check(f"a change in which a cluster {flaw.title} is rejected, and its routes wait"):
                for name, value in {**flaw.values, "blue_timeout": f"{number}s", "target": target}.items():
                    config.set(name, value)
                config.set("green_timeout", f"{number}s")
                config.replace("clusters.yaml", "edits/one-piece.yaml")
                row = serve.wait_row("cds", "NACKED", lambda row: row.state == "NACKED")
                expect(row.error and flaw.reason in row.error, f"error: {row.error}")
                routes = stays("the routes", lambda: serve.row("rds").sent, SILENCE)
                expect(routes == before["rds"].sent, "the routes went ahead")
            with scenario.check("once that one is repaired, the routes follow without a wait for a timeout"):
                for name, value in _SOUND.items():
                    config.set(name, value)
                began = time.monotonic()
                config.replace("clusters.yaml", "edits/one-piece.yaml")
                envoy.wait_fetch(target)
                seconds = time.monotonic() - began
                comment(f"{flaw.title}: the routes were in use after {seconds:.2f} s")
                expect(seconds < WARMING_PATIENCE, f"only after {seconds:.1f} s")
                envoy.wait_stat("cluster_manager.warming_clusters", 0, WARMING_PATIENCE)
                cluster = envoy.cluster("green")
                expect(cluster is not None and cluster["connect_timeout"] == f"{number}s", f"in use: {cluster}")
