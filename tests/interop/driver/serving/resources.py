"""Listeners and routes of gRPC servers, as JSON. `$PORT` is the port of the server, `$ROW` the name of its row."""

from __future__ import annotations

from typing import Any

from driver.xds import TYPE_URLS

Resource = dict[str, Any]

CHECK = "/grpc.health.v1.Health/Check"
_HTTP = "type.googleapis.com/envoy.extensions.filters.http"
_MANAGER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
_ROUTER = {"name": "router", "typed_config": {"@type": f"{_HTTP}.router.v3.Router"}}
ANY = {"any": True}
SERVED: Resource = {"non_forwarding_action": {}}


def route(action: Resource = SERVED, overrides: Resource | None = None, **match: Any) -> Resource:
    """A route, which is for all calls unless it has a match."""
    return {"match": match or {"prefix": ""}, "typed_per_filter_config": overrides or {}, **action}


def host(*routes: Resource, domains: tuple[str, ...] = ("*",), overrides: Resource | None = None) -> Resource:
    """A virtual host; without routes, it has one for all calls."""
    return {
        "name": domains[0],
        "domains": list(domains),
        "routes": list(routes or (route(),)),
        "typed_per_filter_config": overrides or {},
    }


def routes(*hosts: Resource, name: str = "$ROW") -> Resource:
    """A route configuration; without virtual hosts, it has one for all calls."""
    return {"@type": TYPE_URLS["rds"], "name": name, "virtual_hosts": list(hosts or (host(),))}


def chain(
    *hosts: Resource,
    filters: tuple[Resource, ...] = (),
    rds: str | None = None,
    tls: Resource | None = None,
    match: Resource | None = None,
    **manager: Any,
) -> Resource:
    """A filter chain, whose routes are inline unless they have a name."""
    inline = {key: value for key, value in routes(*hosts).items() if key != "@type"}
    ads = {"ads": {}, "resource_api_version": "V3"}
    chosen = {"rds": {"route_config_name": rds, "config_source": ads}} if rds else {"route_config": inline}
    http = {"@type": _MANAGER, "http_filters": [*filters, _ROUTER], **chosen, **manager}
    made: Resource = {"filters": [{"name": "http", "typed_config": http}]}
    if match is not None:
        made["filter_chain_match"] = match
    if tls is not None:
        made["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": tls}
    return made


def only(outcome_path: str) -> Resource:
    """A virtual host that serves one path, which shows that its filter chain was chosen."""
    return host(route(path=outcome_path))


def listener(*chains: Resource, address: str = "127.0.0.1", port: Any = "$PORT", **fields: Any) -> Resource:
    """The listener of a server at an address."""
    return {
        "@type": TYPE_URLS["lds"],
        "name": "$LISTENER",
        "address": {"socket_address": {"address": address, "port_value": port}},
        "filter_chains": list(chains),
        **fields,
    }


def tls(
    identity: str | None = "server", roots: str | None = None, requires: bool = False, **validation: Any
) -> Resource:
    """TLS of a server, with instances of certificate providers."""
    common: Resource = {}
    if identity:
        common["tls_certificate_provider_instance"] = {"instance_name": identity}
    if roots:
        instance = {"ca_certificate_provider_instance": {"instance_name": roots}}
        common["validation_context"] = {**instance, **validation}
    return {"@type": _TLS, "common_tls_context": common, "require_client_certificate": requires}


def policy(permission: Resource = ANY, principal: Resource = ANY, **fields: Any) -> Resource:
    """A policy of RBAC."""
    return {"permissions": [permission], "principals": [principal], **fields}


def rbac(action: str | None, *policies: Resource, name: str = "rbac") -> Resource:
    """A filter with rules; without an action it has none."""
    config: Resource = {"@type": f"{_HTTP}.rbac.v3.RBAC"}
    if action:
        named = {f"policy {number}": one for number, one in enumerate(policies)}
        config["rules"] = {"action": action, "policies": named}
    return {"name": name, "typed_config": config}


def override(instead: Resource) -> Resource:
    """What a route or a virtual host says instead of the configuration of a filter with this name."""
    rules = {key: value for key, value in instead["typed_config"].items() if key != "@type"}
    per_route = {"@type": f"{_HTTP}.rbac.v3.RBACPerRoute"}
    return {instead["name"]: {**per_route, **({"rbac": rules} if rules else {})}}


def header(name: str, **match: Any) -> Resource:
    """A permission or principal for a header."""
    return {"header": {"name": name, **match}}


def exact(name: str, value: str) -> Resource:
    """A permission or principal for the value of a header."""
    return header(name, string_match={"exact": value})


def url(**match: Any) -> Resource:
    """A permission or principal for a path."""
    return {"url_path": {"path": match}}


def prefix(address: str, bits: int) -> Resource:
    """A range of addresses."""
    return {"address_prefix": address, "prefix_len": bits}


def authenticated(**match: Any) -> Resource:
    """A principal for the name in a client's certificate; any name without a match."""
    return {"authenticated": {"principal_name": match} if match else {}}
