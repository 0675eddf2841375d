"""The resources of the scripts, as `Any`s in JSON."""

from __future__ import annotations

import base64
import socket
from collections.abc import Sequence
from typing import Any

from driver.xds import TYPE_URLS

Resource = dict[str, Any]

_HTTP = "type.googleapis.com/envoy.extensions.filters"
_ADS = {"ads": {}, "resource_api_version": "V3"}


def listener(routes: str = "routes", **manager: object) -> Resource:
    """What C-core asks for as the target `svc`; more fields of its connection manager on demand."""
    return _listener({"rds": {"route_config_name": routes, "config_source": _ADS}, **manager})


def listener_with_routes(*clusters: str) -> Resource:
    """One that needs no route configuration beside it."""
    inline = {key: value for key, value in routes("inline", *clusters).items() if key != "@type"}
    return _listener({"route_config": inline})


def invalid_listener() -> Resource:
    """One without HTTP filters, which both clients reject."""
    return listener(http_filters=[])


def _listener(manager: dict[str, object], name: str = "svc") -> Resource:
    router = {"name": "router", "typed_config": {"@type": f"{_HTTP}.http.router.v3.Router"}}
    return {
        "@type": TYPE_URLS["lds"],
        "name": name,
        "api_listener": {
            "api_listener": {
                "@type": f"{_HTTP}.network.http_connection_manager.v3.HttpConnectionManager",
                "http_filters": [router],
                **manager,
            }
        },
    }


def other_listener() -> Resource:
    """A good listener that nobody asked for."""
    return _listener({"rds": {"route_config_name": "routes", "config_source": _ADS}}, "other")


def invalid_other_listener() -> Resource:
    """A bad one that nobody asked for."""
    return _listener({"http_filters": []}, "other")


def routes(name: str, *clusters: str, domain: str = "*") -> Resource:
    """One route to one cluster, or to several by weight."""
    weighted = [{"name": cluster, "weight": 1} for cluster in clusters]
    return {
        "@type": TYPE_URLS["rds"],
        "name": name,
        "virtual_hosts": [
            {
                "name": "all",
                "domains": [domain],
                "routes": [{"match": {"prefix": "/"}, "route": {"weighted_clusters": {"clusters": weighted}}}],
            }
        ],
    }


def cluster(name: str, **fields: object) -> Resource:
    """A cluster whose endpoints are discovered; more fields on demand."""
    return {
        "@type": TYPE_URLS["cds"],
        "name": name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": _ADS},
        **fields,
    }


def invalid_cluster(name: str) -> Resource:
    """One of a kind that both clients reject."""
    return cluster(name, type="STATIC")


def endpoints(cluster: str, port: int = 1) -> Resource:
    """One endpoint, which need not be there: nobody calls it."""
    return localities(cluster, [(0, 1, [port])])


def localities(cluster: str, places: Sequence[tuple[int, int, Sequence[int]]]) -> Resource:
    """Localities, each by its priority, its weight and the ports of its endpoints."""
    return {
        "@type": TYPE_URLS["eds"],
        "cluster_name": cluster,
        "endpoints": [
            {
                "locality": {"region": "here" if index == 0 else f"there-{index}"},
                "priority": priority,
                "load_balancing_weight": weight,
                "lb_endpoints": [{"endpoint": {"address": _address(port)}} for port in ports],
            }
            for index, (priority, weight, ports) in enumerate(places)
        ],
    }


def closed_port() -> int:
    """A port of loopback where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _address(port: int) -> Resource:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def wrapped(name: str, resource: Resource | None, **fields: object) -> Resource:
    """A resource in the wrapper that states its name."""
    wrapper: Resource = {"@type": "type.googleapis.com/envoy.service.discovery.v3.Resource", "name": name}
    if resource is not None:
        wrapper["resource"] = resource
    return {**wrapper, **fields}


def undecodable(type_name: str) -> Resource:
    """Bytes that are no message of the type."""
    return {"type_url": TYPE_URLS[type_name], "base64": base64.b64encode(b"\xff\xff").decode()}
