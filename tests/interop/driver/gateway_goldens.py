"""Envoy Gateway's golden files: lists of resources in YAML, the expected output of its translator's tests.

A file has resources of one type, which only its name states. The standard library has no YAML parser, and
none is needed: every file is a block list at the left margin, so that items can be copied into other texts.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Folders inside the module.
_FOLDERS = ("xds-ir", "extension-xds-ir")
_GOLDENS = Path("internal", "xds", "translator", "testdata", "out")

# A file of Envoy Gateway's deployment.
_CERTIFICATE = "/certs/ca.crt"

_TYPE_URL = "type.googleapis.com/envoy"
TYPES = {
    "clusters": f"{_TYPE_URL}.config.cluster.v3.Cluster",
    "endpoints": f"{_TYPE_URL}.config.endpoint.v3.ClusterLoadAssignment",
    "listeners": f"{_TYPE_URL}.config.listener.v3.Listener",
    "routes": f"{_TYPE_URL}.config.route.v3.RouteConfiguration",
    "secrets": f"{_TYPE_URL}.extensions.transport_sockets.tls.v3.Secret",
}
_MANAGER = f"{_TYPE_URL}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = f"{_TYPE_URL}.extensions.filters.http.router.v3.Router"


@dataclass(frozen=True)
class Golden:
    """One file."""

    # The folder and the name, without the suffix that states the type.
    case: str
    # A key of `TYPES`.
    kind: str
    # Each resource, as a mapping at the left margin.
    resources: tuple[str, ...]

    @property
    def name(self) -> str:
        """The path below the folder of golden files."""
        return f"{self.case}.{self.kind}.yaml"

    def typed(self) -> str:
        """The list with the type of each resource, as `xds_format` parses it."""
        return "".join(_item(f'"@type": {TYPES[self.kind]}\n{resource}') for resource in self.resources)


def read(module: Path) -> list[Golden]:
    """Reads all files of the module that hold xDS resources."""
    found = []
    for folder in _FOLDERS:
        for file in sorted((module / _GOLDENS / folder).iterdir()):
            case, kind = file.name.removesuffix(".yaml").rsplit(".", 1)
            if kind in TYPES:
                found.append(Golden(f"{folder}/{case}", kind, tuple(_items(file))))
    return found


def _items(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    if text.strip() in ("", "[]"):
        return
    before, *items = re.split(r"^- ", text, flags=re.MULTILINE)
    if before:
        raise ValueError(f"{file.name} is not a list at the left margin: {before!r}")
    yield from (textwrap.dedent("  " + item) for item in items)


def bootstrap(files: Sequence[Golden], certificate: Path) -> str:
    """An Envoy bootstrap with every resource of these files.

    Routes are in a listener and endpoints in a cluster, where Envoy validates them. The certificate replaces
    a file of Envoy Gateway's deployment that Envoy reads.
    """
    parts: dict[str, list[str]] = {"clusters": [_ADS_CLUSTER], "listeners": [], "secrets": []}
    for golden in files:
        for number, resource in enumerate(golden.resources):
            match golden.kind:
                case "endpoints":
                    parts["clusters"].append(_cluster_of(f"interop-endpoints-{number}", resource))
                case "routes":
                    parts["listeners"].append(_listener_of(f"interop-routes-{number}", resource))
                case kind:
                    parts[kind].append(resource)
    static = "".join(f"{kind}:\n{_indented(map(_item, items))}" for kind, items in parts.items() if items)
    return f"{_BOOTSTRAP}static_resources:\n{textwrap.indent(static, '  ')}".replace(
        _CERTIFICATE, str(certificate)
    )


def _item(mapping: str) -> str:
    """A mapping as an item of a list."""
    return "- " + textwrap.indent(mapping.rstrip("\n"), "  ").removeprefix("  ") + "\n"


def _indented(items: Iterable[str]) -> str:
    return textwrap.indent("".join(items), "  ")


def _cluster_of(name: str, endpoints: str) -> str:
    """A cluster with these endpoints. Host names need a cluster that resolves them; Envoy does not when it validates."""
    hosts = re.findall(r"^\s+address: (\S+)$", endpoints, flags=re.MULTILINE)
    discovery = "STATIC" if all(re.fullmatch(r"[0-9.]+|'?[0-9a-f:]+'?", host) for host in hosts) else "STRICT_DNS"
    return f"name: {name}\ntype: {discovery}\nconnect_timeout: 1s\nload_assignment:\n{textwrap.indent(endpoints, '  ')}"


def _listener_of(name: str, routes: str) -> str:
    # Routes from RDS may refer to unknown clusters, static ones may not unless this is off.
    routes = f"validate_clusters: false\n{routes}"
    return f"""\
name: {name}
address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
filter_chains:
- filters:
  - name: manager
    typed_config:
      "@type": {_MANAGER}
      stat_prefix: interop
      http_filters: [{{ name: router, typed_config: {{ "@type": {_ROUTER} }} }}]
      route_config:
{textwrap.indent(routes, "        ")}"""


_ADS_CLUSTER = """\
name: interop-ads
type: STATIC
connect_timeout: 1s
"""
_BOOTSTRAP = """\
node: { id: interop, cluster: interop }
dynamic_resources:
  ads_config:
    api_type: GRPC
    transport_api_version: V3
    grpc_services: [{ envoy_grpc: { cluster_name: interop-ads } }]
"""
