"""Envoy and `xds watch` beside each other on the same files: both accept the same."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario
from driver.config_dir import ConfigDir, MountedConfigDir, render
from driver.envoy import Envoy
from driver.envoy_world import NODE, Programs
from driver.http_backend import HttpBackend
from driver.waiting import eventually, expect
from driver.xds import XdsWatch

_CDS = "cluster_manager.cds"

# What makes a content that neither side uses.
_UNUSABLE = {
    "cannot be parsed": "edits/clusters-broken.yaml",
    "has an unknown field": "edits/clusters-unknown-field.yaml",
    "breaks a constraint": "edits/clusters-invalid.yaml",
    "has resources of another type": "edits/clusters-of-another-type.yaml",
}


@dataclass(frozen=True)
class _World:
    config: ConfigDir
    envoy: Envoy
    watch: XdsWatch

    def expect_both_to_have(self, expected: dict[str, str]) -> None:
        """Waits until both have these clusters, each with its connect timeout."""

        def probe() -> bool:
            envoys, ours = _clusters_of_envoy(self.envoy), _clusters_of_watch(self.watch)
            expect(envoys == ours == expected, f"Envoy has {envoys}, xds watch {ours}, expected {expected}")
            return True

        eventually("the same clusters on both sides", probe)

    def refuse(self, template: str) -> None:
        """Waits until both say that they cannot use a content."""
        before = self._refusals()
        # Rejections of a type are logged once a second.
        time.sleep(1.1)
        warnings = self.watch.warnings()
        self.config.replace("clusters.yaml", template)
        eventually("a refusal of Envoy", lambda: self._refusals() > before)
        eventually("a warning of xds watch", lambda: self.watch.warnings() > warnings)

    def _refusals(self) -> int:
        return self.envoy.stat(f"{_CDS}.update_failure") + self.envoy.stat(f"{_CDS}.update_rejected")


def follows_files(scenario: Scenario, programs: Programs) -> None:
    """All formats at the start; then contents that are used, and contents that are not."""
    with HttpBackend("blue") as blue, HttpBackend("green") as green:
        directory = scenario.directory / "resources"
        ports = {"blue_port": blue.port, "green_port": green.port}
        config = ConfigDir(directory, workspace.CONFIG / "files", {"directory": directory, **ports})
        config.fill()
        with _world(scenario, programs, config, {}) as world:
            _follows(scenario, programs, world)


def _follows(scenario: Scenario, programs: Programs, world: _World) -> None:
    config, envoy = world.config, world.envoy
    with scenario.check("Envoy has everything it waits for at its start, and routes with it"):
        envoy.wait_live()
        envoy.wait_fetch("blue")
    with scenario.check("both have the same clusters"):
        world.expect_both_to_have({"blue": "1s", "green": "1s"})
    with scenario.check("both read listeners, routes and endpoints in each format"):
        for file, subscription in (
            ("listener.yml", "lds:ingress"),
            ("routes.json", "rds:routes"),
            ("endpoints-blue.pb_text", "eds:blue"),
            ("endpoints-green.json", "eds:green"),
        ):
            watch = XdsWatch(scenario, programs.xds, config.path / file, NODE, [subscription])
            changed = eventually(f"{subscription} read", lambda watch=watch: _last_changes(watch))
            name = subscription.partition(":")[2]
            expect(set(changed) == {name}, f"{file} has {sorted(changed)}")
            if subscription.startswith("eds"):
                ports = [
                    endpoint["endpoint"]["address"]["socket_address"]["port_value"]
                    for endpoint in changed[name]["endpoints"][0]["lb_endpoints"]
                ]
                expect(envoy.endpoints(name) == ports, f"Envoy has {envoy.endpoints(name)}, xds watch {ports}")
    with scenario.check("another file in its place is another state, and what it lacks is gone"):
        config.replace("clusters.yaml", "edits/clusters-others.yaml")
        world.expect_both_to_have({"blue": "2s", "yellow": "3s"})
    for what, template in _UNUSABLE.items():
        with scenario.check(f"neither uses anything of a content that {what}"):
            world.refuse(template)
            world.expect_both_to_have({"blue": "2s", "yellow": "3s"})
    with scenario.check("of a name that stands twice Envoy uses the first, and xds watch nothing of the content"):
        world.refuse("edits/clusters-twice.yaml")
        expect(_clusters_of_envoy(envoy) == {"blue": "6s"}, f"Envoy has {_clusters_of_envoy(envoy)}")
        ours = _clusters_of_watch(world.watch)
        expect(ours == {"blue": "2s", "yellow": "3s"}, f"xds watch has {ours}")
    with scenario.check("the next good content is used by both"):
        config.replace("clusters.yaml", "edits/clusters-repaired.yaml")
        world.expect_both_to_have({"blue": "8s", "green": "9s"})
    with scenario.check("a file that is deleted takes nothing away"):
        mark = world.watch.mark()
        config.remove("clusters.yaml")
        eventually("an error told by xds watch", lambda: _errors(world.watch, mark))
        world.expect_both_to_have({"blue": "8s", "green": "9s"})
    with scenario.check("one that comes back empty of resources takes all away"):
        config.replace("clusters.yaml", "edits/clusters-none.yaml")
        world.expect_both_to_have({})


def follows_a_mounted_file(scenario: Scenario, programs: Programs) -> None:
    """A file in a ConfigMap: Envoy is told of the directory, `xds watch` finds it by the links."""
    directory = scenario.directory / "resources"
    config = MountedConfigDir(directory, workspace.CONFIG / "files", {"directory": directory, "blue_port": 1})
    config.mount({"clusters.yaml": "edits/clusters-others.yaml", "listener.yml": "resources/listener.yml"})
    with _world(scenario, programs, config, {"watched_directory": {"path": str(directory)}}) as world:
        with scenario.check("both have the clusters of the first revision"):
            world.expect_both_to_have({"blue": "2s", "yellow": "3s"})
        with scenario.check("and those of the next one"):
            config.mount({"clusters.yaml": "edits/clusters-repaired.yaml", "listener.yml": "resources/listener.yml"})
            world.expect_both_to_have({"blue": "8s", "green": "9s"})


@contextmanager
def _world(scenario: Scenario, programs: Programs, config: ConfigDir, watched: dict[str, Any]) -> Iterator[_World]:
    def source(file: str) -> dict[str, Any]:
        return {"resource_api_version": "V3", "path_config_source": {"path": str(config.path / file), **watched}}

    values = {
        "node": NODE,
        # Nobody asks the management server that the template knows.
        "xds_port": 1,
        "dynamic_resources": json.dumps({"lds_config": source("listener.yml"), "cds_config": source("clusters.yaml")}),
        "layered_runtime": json.dumps({}),
    }
    bootstrap = render(workspace.CONFIG / "envoy" / "bootstrap.yaml", values)
    clusters: Path = config.path / "clusters.yaml"
    watch = XdsWatch(scenario, programs.xds, clusters, NODE, ["cds"])
    # Without this a field that Envoy does not know is passed over, and the rest of the content is used.
    envoy = Envoy(scenario, programs.envoy, bootstrap, options=["--reject-unknown-dynamic-fields"])
    yield _World(config, envoy, watch)


def _clusters_of_envoy(envoy: Envoy) -> dict[str, str]:
    entries = envoy.config("dynamic_active_clusters")
    return {entry["cluster"]["name"]: entry["cluster"]["connect_timeout"] for entry in entries}


def _clusters_of_watch(watch: XdsWatch) -> dict[str, str]:
    return {name: cluster["connect_timeout"] for name, cluster in _last_changes(watch).items()}


def _last_changes(watch: XdsWatch) -> dict[str, Any]:
    """What is in use after everything that was printed."""
    in_use: dict[str, Any] = {}
    for event in watch.events:
        if event["event"] == "changed":
            in_use[event["name"]] = event["resource"]
        elif event["event"] == "removed":
            in_use.pop(event["name"], None)
    return in_use


def _errors(watch: XdsWatch, mark: int) -> list[dict[str, Any]]:
    return [event for event in watch.events[mark:] if event["event"] in ("ambient", "error") and event["error"]]
