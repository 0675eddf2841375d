"""Envoy as the client of `xds serve`: both variants, over one aggregated stream and over one for each type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from driver import workspace
from driver.checks import PeerReport, Scenario
from driver.config_dir import MountedConfigDir
from driver.envoy import Envoy
from driver.envoy_constraints_checks import agrees_on_constraints
from driver.envoy_files_checks import follows_a_mounted_file, follows_files
from driver.envoy_load_checks import changes_under_load
from driver.envoy_load_reports_checks import reports_load
from driver.envoy_moves_checks import moves_and_rejections_under_load
from driver.envoy_repair_checks import repairs_a_rejected_change
from driver.envoy_rest_checks import follows_over_rest
from driver.envoy_runtime_checks import follows_async_std
from driver.envoy_secrets_checks import follows_secrets_and_runtime
from driver.envoy_spelling_checks import agrees_on_spellings
from driver.envoy_status_checks import shows_the_configuration_dump
from driver.envoy_world import (
    DELTA_ADS,
    DELTA_PER_TYPE,
    NODE,
    SOTW_ADS,
    SOTW_PER_TYPE,
    WARMING_PATIENCE,
    Programs,
    Transport,
    Variant,
    World,
    envoy_program,
    resource_values,
)
from driver.http_backend import HttpBackend
from driver.side_by_side import play_side_by_side
from driver.waiting import SILENCE, eventually, expect, settled, stays
from driver.xds import TYPE_URLS, Streams, XdsServe

NAME = "envoy"

_TYPES = tuple(TYPE_URLS)
_REJECTION = "ConnectTimeout: value must be greater than 0s"

# Where Envoy counts what came of the responses of each type.
_STATS = {
    "lds": "listener_manager.lds",
    "rds": "http.ingress.rds.routes",
    "cds": "cluster_manager.cds",
    "eds": "cluster.blue",
}


def run(report: PeerReport, run_dir: Path) -> None:
    """Prepares Envoy and plays its scenarios."""
    python, envoy = envoy_program()
    programs = Programs(workspace.xds_binary(), envoy)
    scenarios: dict[str, Callable[[Scenario], None]] = {}
    for transport in (SOTW_ADS, DELTA_ADS, SOTW_PER_TYPE, DELTA_PER_TYPE):
        peer = _EnvoyPeer(programs, transport)
        secrets = partial(follows_secrets_and_runtime, programs=programs, transport=transport, python=python)
        stories: dict[str, Callable[[Scenario], None]] = {
            "configuration arrives, and follows the files": peer.follows_the_files,
            "a cluster turns bad and is repaired": peer.rejects_an_update,
            "a cluster is bad from the first response on": peer.rejects_the_first_response,
            "the management server is killed and started again": peer.reconnects,
            "a certificate and runtime values": secrets,
        }
        if transport is SOTW_ADS:
            stories["resources in a mounted ConfigMap"] = peer.follows_a_config_map
        if transport.streams is Streams.AGGREGATED:
            stories |= changes_under_load(programs, transport)
            stories["200 changes under load, with moves between views and rejections"] = partial(
                moves_and_rejections_under_load, programs=programs, transport=transport
            )
            stories["a rejected change is repaired, --ordering make-before-break"] = partial(
                repairs_a_rejected_change, programs=programs, transport=transport
            )
        scenarios |= {f"envoy, {transport.title}: {title}": story for title, story in stories.items()}
    scenarios["envoy, REST: start, changes, a rejection, a restart"] = partial(follows_over_rest, programs=programs)
    for transport in (SOTW_PER_TYPE, DELTA_PER_TYPE):
        story = partial(follows_async_std, programs=programs, transport=transport)
        scenarios[f"envoy, {transport.title}: a server on async-std"] = story
    scenarios["envoy, its configuration dump through xds status"] = partial(
        shows_the_configuration_dump, programs=programs
    )
    scenarios["envoy, load reports"] = partial(reports_load, programs=programs)
    scenarios["envoy, its own verdict on constraints"] = partial(agrees_on_constraints, programs=programs)
    scenarios["envoy, its own verdict on spellings"] = partial(agrees_on_spellings, programs=programs)
    scenarios["envoy, files: the same is accepted"] = partial(follows_files, programs=programs)
    scenarios["envoy, files: a mounted ConfigMap"] = partial(follows_a_mounted_file, programs=programs)
    # Most of a story is waiting, so two share the processors.
    play_side_by_side(report, run_dir, scenarios, at_once=2)


class _EnvoyPeer:
    def __init__(self, programs: Programs, transport: Transport) -> None:
        self._programs = programs
        self._transport = transport

    def follows_the_files(self, scenario: Scenario) -> None:
        with self._programs.world(scenario, self._transport) as world:
            config, serve, envoy = world.config, world.serve, world.envoy

            with scenario.check("Envoy has everything it waits for at its start"):
                envoy.wait_live()
                scenario.report.version = envoy.version()
            with scenario.check("the configuration dump has what LDS, RDS, CDS and EDS brought"):
                _expect_everything_in_dump(world)
            with scenario.check("Envoy counts one accepted and no rejected response of each type"):
                for type_name, prefix in _STATS.items():
                    envoy.wait_stat(f"{prefix}.update_success", 1)
                    expect(envoy.stat(f"{prefix}.update_rejected") == 0, f"{type_name} was rejected")
            with scenario.check("xds serve has each type as ACKed, CDS and LDS as wildcards"):
                rows = serve.wait_acked(*_TYPES)
                subscribed = {name: row.subscribed for name, row in rows.items()}
                expect(subscribed == {"lds": "*", "rds": 1, "cds": "*", "eds": 2}, str(subscribed))
            with scenario.check("the node of the first message counts for the whole stream"):
                nodes = {name: row.node for name, row in serve.rows().items()}
                expect(set(nodes.values()) == {NODE}, str(nodes))
            with scenario.check("an HTTP request through Envoy reaches the backend of the route"):
                envoy.wait_fetch("blue")
            with scenario.check("nothing is sent while nothing changes"):
                counters = settled("counters", serve.counters, SILENCE)
                # Two clusters have a stream each for their endpoints, if there is one for each type.
                streams = 1 if self._transport.streams is Streams.AGGREGATED else 2
                once = dict.fromkeys(TYPE_URLS, (1, 1, 0))
                expect(counters == {**once, "eds": (streams, streams, 0)}, str(counters))

            rows, mark = serve.settled(), serve.mark()
            with scenario.check("renaming a new route file over the old one moves the traffic"):
                config.replace("routes.yaml", "edits/routes-to-green.yaml")
                envoy.wait_fetch("green")
            with scenario.check("only the routes were sent for it, and they are ACKed"):
                serve.wait_acked("rds", new_after=rows)
                _expect_one_reload(serve, mark, changed=1, removed=0)
                serve.expect_sent(rows, rds=1)

            rows, mark = serve.settled(), serve.mark()
            with scenario.check("saving the route file in place moves the traffic back"):
                config.save("routes.yaml", "resources/routes.yaml")
                envoy.wait_fetch("blue")
            with scenario.check("the half-written file was never taken for the new state"):
                serve.wait_acked("rds", new_after=rows)
                _expect_one_reload(serve, mark, changed=1, removed=0)
                serve.expect_sent(rows, rds=1)

            rows = serve.settled()
            with scenario.check("an endpoint added to the file gets its share of the traffic"):
                config.replace("endpoints.yaml", "edits/endpoints-blue-grown.yaml")
                envoy.wait_fetch("blue", "green")
                serve.wait_acked("eds", new_after=rows)
            with scenario.check("an endpoint taken out of the file gets no traffic any more"):
                config.replace("endpoints.yaml", "resources/endpoints.yaml")
                eventually("one endpoint", lambda: envoy.endpoints("blue") == [world.blue.port])
                envoy.wait_fetch("blue")

            self._redefines_a_cluster(scenario, world)
            self._adds_and_removes_a_cluster(scenario, world)
            self._survives_a_broken_file(scenario, world)

            with scenario.check("Envoy has rejected nothing in all this"):
                for type_name, prefix in _STATS.items():
                    expect(envoy.stat(f"{prefix}.update_rejected") == 0, f"{type_name} was rejected")
            with scenario.check("xds serve ends with exit code 0 when asked to"):
                serve.stop_cleanly()

    @staticmethod
    def _redefines_a_cluster(scenario: Scenario, world: World) -> None:
        serve, envoy = world.serve, world.envoy
        rows = serve.settled()
        with scenario.check("a redefined cluster whose endpoints stay does not keep Envoy warming"):
            world.config.replace("clusters.yaml", "edits/clusters-blue-redefined.yaml")

            def redefined() -> bool:
                cluster = envoy.cluster("blue")
                expect(cluster is not None and cluster["connect_timeout"] == "2s", f"in use: {cluster}")
                return True

            eventually("the new definition in use", redefined, WARMING_PATIENCE)
            envoy.wait_stat("cluster_manager.warming_clusters", 0, WARMING_PATIENCE)
            envoy.wait_fetch("blue")
        with scenario.check("the endpoints were sent once more for it, though they did not change"):
            serve.wait_acked("cds", new_after=rows)
            if world.transport.streams is Streams.AGGREGATED:
                serve.wait_acked("eds")
                serve.expect_sent(rows, cds=1, eds=1)
            else:
                # The stream of the old definition is gone, that of the new one has had one response.
                serve.expect_sent(rows, cds=1, eds=2 - rows["eds"].responses)
                expect(serve.row("eds").stream != rows["eds"].stream, f"no new stream: {serve.row('eds')}")

    @staticmethod
    def _adds_and_removes_a_cluster(scenario: Scenario, world: World) -> None:
        serve, envoy = world.serve, world.envoy
        rows, mark = serve.settled(), serve.mark()
        with scenario.check("a new file with a cluster and its endpoints arrives as a whole"):
            world.config.replace("yellow.json", "edits/yellow.json")
            eventually("endpoints of yellow", lambda: envoy.endpoints("yellow") == [world.green.port])
            envoy.wait_stat("cluster_manager.warming_clusters", 0, WARMING_PATIENCE)
            serve.wait_acked("cds", "eds", new_after=rows)
            _expect_one_reload(serve, mark, changed=2, removed=0)
        rows, mark = serve.settled(), serve.mark()
        with scenario.check("deleting the file takes the cluster away from Envoy"):
            world.config.remove("yellow.json")
            eventually("yellow gone", lambda: envoy.cluster("yellow") is None)
            serve.wait_acked("cds", new_after=rows)
            _expect_one_reload(serve, mark, changed=0, removed=2)
            eventually("EDS subscription without yellow", lambda: serve.row("eds").subscribed == 2)

    @staticmethod
    def _survives_a_broken_file(scenario: Scenario, world: World) -> None:
        serve, envoy = world.serve, world.envoy
        rows, mark = serve.settled(), serve.mark()
        with scenario.check("a file that cannot be parsed is reported by name, with the reason"):
            world.config.replace("routes.yaml", "edits/routes-broken.yaml")
            event = serve.wait("file_error", mark)
            expect(Path(event["file"]).name == "routes.yaml" and event["error"], str(event))
        with scenario.check("its last good resources stay, and nothing is sent"):
            expect(stays("rows", serve.rows, SILENCE) == rows, f"before: {rows}; now: {serve.rows()}")
            expect(not serve.since(mark, "reloaded"), "a reload was reported")
            envoy.wait_fetch("blue")
        with scenario.check("the repaired file is taken over"):
            world.config.replace("routes.yaml", "edits/routes-to-green.yaml")
            envoy.wait_fetch("green")

    def rejects_an_update(self, scenario: Scenario) -> None:
        with self._programs.world(scenario, self._transport) as world:
            config, serve, envoy = world.config, world.serve, world.envoy
            envoy.wait_live()
            serve.wait_acked(*_TYPES)
            good = serve.settled()

            with scenario.check("the reason of Envoy's NACK stands in the row of xds serve"):
                config.replace("clusters.yaml", "edits/clusters-green-invalid.yaml")
                row = serve.wait_row("cds", "NACKED", lambda row: row.state == "NACKED")
                expect(row.error and _REJECTION in row.error, f"error: {row.error}")
                expect(row.nacks == 1, str(row))
                expect(row.sent != good["cds"].sent, f"the version did not change: {row}")
                expect(row.acked == good["cds"].acked, f"the accepted version did not stay: {row}")
            with scenario.check("the rejected response is not sent again"):
                _expect_silence(serve, envoy)
                expect(serve.row("cds").responses == good["cds"].responses + 1, str(serve.row("cds")))
                expect(envoy.stat("cluster_manager.cds.update_rejected") == 1, "rejected more than once")
            with scenario.check("the accepted clusters stay in use"):
                envoy.wait_fetch("blue")
                expect(envoy.stat("cluster_manager.warming_clusters") == 0, "a cluster is warming")
            with scenario.check("a change of another type goes through meanwhile, and CDS stays silent"):
                config.replace("routes.yaml", "edits/routes-to-green.yaml")
                envoy.wait_fetch("green")
                serve.wait_acked("rds", new_after=good)
                _expect_silence(serve, envoy)
                expect(serve.row("cds").responses == good["cds"].responses + 1, str(serve.row("cds")))
            with scenario.check("the repaired cluster is sent, accepted and used"):
                accepted = envoy.stat("cluster_manager.cds.update_success")
                config.replace("clusters.yaml", "edits/clusters-green-repaired.yaml")
                row = serve.wait_row("cds", "ACKED", lambda row: row.state == "ACKED")
                expect(row.error is None, f"the old error is still there: {row}")
                expect(row.responses == good["cds"].responses + 2, str(row))
                envoy.wait_stat("cluster_manager.cds.update_success", accepted + 1)
                envoy.wait_stat("cluster_manager.warming_clusters", 0, WARMING_PATIENCE)
                cluster = envoy.cluster("green")
                expect(cluster is not None and cluster["connect_timeout"] == "3s", f"in use: {cluster}")
                envoy.wait_fetch("green")

    def rejects_the_first_response(self, scenario: Scenario) -> None:
        with self._programs.world(
            scenario, self._transport, instead={"clusters.yaml": "edits/clusters-green-invalid.yaml"}
        ) as world:
            config, serve, envoy = world.config, world.serve, world.envoy

            with scenario.check("Envoy has no accepted version, and its NACK is understood all the same"):
                row = serve.wait_row("cds", "NACKED", lambda row: row.state == "NACKED")
                expect(row.error and _REJECTION in row.error, f"error: {row.error}")
                expect(row.acked in ("", None), f"an accepted version is shown: {row}")
            with scenario.check("a rejected first response is not sent again either"):
                # After its rejection Envoy goes on with its start and asks for the listeners.
                serve.wait_acked("lds", "rds")
                _expect_silence(serve, envoy)
                expect(serve.row("cds").responses == 1, str(serve.row("cds")))
                expect(envoy.stat("cluster_manager.cds.update_rejected") == 1, "rejected more than once")
            with scenario.check("the repaired cluster file brings everything up"):
                config.replace("clusters.yaml", "resources/clusters.yaml")
                envoy.wait_live()
                serve.wait_acked(*_TYPES)
                envoy.wait_fetch("blue")

    def reconnects(self, scenario: Scenario) -> None:
        with self._programs.world(scenario, self._transport) as world:
            envoy = world.envoy
            envoy.wait_live()
            old = world.serve.wait_acked(*_TYPES)
            world.serve.kill()
            with scenario.check("traffic goes on without a management server"):
                envoy.wait_stat("control_plane.connected_state", 0)
                envoy.wait_fetch("blue")
            serve = XdsServe(
                scenario,
                self._programs.xds,
                world.config.path,
                world.serve.address,
                streams=self._transport.streams,
            )
            with scenario.check("Envoy comes back and subscribes to the same as before"):
                # Its backoff is random, up to 30 s after some failures.
                wanted = {name: row.subscribed for name, row in old.items()}

                def subscribed() -> bool:
                    now = {name: row.subscribed for name, row in serve.rows().items()}
                    expect(now == wanted, f"subscribed: {now}")
                    return True

                eventually(f"subscribed to {wanted}", subscribed, 40.0)
                for row in serve.settled().values():
                    expect(row.node == NODE, str(row))
                    expect(row.state != "NACKED" and row.nacks == 0, str(row))
            with scenario.check("versions come from the content, so they are the same as before"):
                for name, row in serve.rows().items():
                    expect(row.sent in ("", None, old[name].sent), f"{row}; before: {old[name]}")
            if self._transport.variant is Variant.INCREMENTAL:
                with scenario.check("names whose resource Envoy says it has are not answered"):
                    # Wildcards are, with nothing in it.
                    responses = {name: row.responses for name, row in serve.rows().items()}
                    expect(responses == {"lds": 1, "rds": 0, "cds": 1, "eds": 0}, f"responses: {responses}")
            with scenario.check("the new server's edits arrive"):
                world.config.replace("routes.yaml", "edits/routes-to-green.yaml")
                envoy.wait_fetch("green")
                envoy.wait_stat("cluster_manager.warming_clusters", 0)

    def follows_a_config_map(self, scenario: Scenario) -> None:
        resources = {
            name: f"resources/{name}"
            for name in ("clusters.yaml", "endpoints.yaml", "listener.yaml", "routes.yaml")
        }
        with HttpBackend("blue") as blue, HttpBackend("green") as green:
            values = resource_values(SOTW_ADS, blue_port=blue.port, green_port=green.port)
            config = MountedConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
            config.mount(resources)
            serve, envoy = self._programs.start(scenario, config.path)
            envoy.wait_live()
            envoy.wait_fetch("blue")
            serve.wait_acked(*_TYPES)
            rows, mark = serve.settled(), serve.mark()
            with scenario.check("swapping the revision of a mounted ConfigMap moves the traffic"):
                config.mount({**resources, "routes.yaml": "edits/routes-to-green.yaml"})
                envoy.wait_fetch("green")
            with scenario.check("only what differs between the revisions was sent"):
                serve.wait_acked("rds", new_after=rows)
                _expect_one_reload(serve, mark, changed=1, removed=0)
                serve.expect_sent(rows, rds=1)


def _expect_everything_in_dump(world: World) -> None:
    listeners = [
        entry["name"] for entry in world.envoy.config("dynamic_listeners") if "active_state" in entry
    ]
    expect(listeners == ["ingress"], f"active listeners: {listeners}")
    routes = [entry["route_config"]["name"] for entry in world.envoy.config("dynamic_route_configs")]
    expect(routes == ["routes"], f"route configurations: {routes}")
    clusters = sorted(entry["cluster"]["name"] for entry in world.envoy.config("dynamic_active_clusters"))
    expect(clusters == ["blue", "green"], f"active clusters: {clusters}")
    assignments = sorted(
        entry["endpoint_config"]["cluster_name"] for entry in world.envoy.config("dynamic_endpoint_configs")
    )
    expect(assignments == ["blue", "green"], f"endpoints of clusters: {assignments}")
    for backend in (world.blue, world.green):
        ports = world.envoy.endpoints(backend.name)
        expect(ports == [backend.port], f"endpoints of {backend.name}: {ports}")


def _expect_one_reload(serve: XdsServe, mark: int, changed: int, removed: int) -> None:
    """One edit is one reload, whole from the beginning."""
    reloads = serve.since(mark, "reloaded")
    seen = [(event["changed"], event["removed"]) for event in reloads]
    expect(seen == [(changed, removed)], f"reloads (changed, removed): {seen}")
    errors = serve.since(mark, "file_error")
    expect(not errors, f"file errors: {errors}")


def _expect_silence(serve: XdsServe, envoy: Envoy) -> None:
    """For a while neither side's counters move."""

    def counters() -> tuple[object, ...]:
        attempts = [
            envoy.stat(f"cluster_manager.cds.{name}") for name in ("update_attempt", "update_rejected")
        ]
        return (serve.counters(), *attempts)

    settled("counters of xds serve and of Envoy's CDS", counters, SILENCE)
