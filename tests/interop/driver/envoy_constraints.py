"""Resources that keep or break a constraint of the API, and what both sides are expected to say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_CLUSTER = "envoy.config.cluster.v3.Cluster"
_LISTENER = "envoy.config.listener.v3.Listener"
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_MANAGER = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = "envoy.extensions.filters.http.router.v3.Router"

_BY_CONSTRAINT = "Proto constraint validation failed"


@dataclass(frozen=True)
class Case:
    """One resource."""

    about: str
    # Where it stands in a bootstrap: `clusters` or `listeners`.
    kind: str
    resource: Json
    # How our complaint begins, with the path of the field; `None` if there is none.
    ours: str | None = None
    # A part of Envoy's complaint; `None` if there is none.
    envoys: str | None = None
    # Why the two differ.
    explanation: str = ""

    def typed(self) -> Json:
        """The resource as `xds check` reads it."""
        return {"@type": _url(_CLUSTER if self.kind == "clusters" else _LISTENER), **self.resource}


def cases() -> list[Case]:
    """All of them; one that is expected to be accepted stands beside those that are not."""
    return [*_clusters(), *_health_checks(), *_listeners(), *_routes(), *_headers(), *_differences()]


def _url(name: str) -> str:
    return f"type.googleapis.com/{name}"


def _cluster(about: str, ours: str | None = None, **fields: Any) -> Case:
    return Case(about, "clusters", {"name": "c", **fields}, ours, _BY_CONSTRAINT if ours else None)


def _endpoint(port: int, **fields: Any) -> Json:
    return {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}, **fields}


def _endpoints(endpoint: Json, **fields: Any) -> Json:
    return {
        "type": "STATIC",
        "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [endpoint], **fields}]},
    }


def _clusters() -> list[Case]:
    group = "load_assignment.endpoints[0]"
    address = f"{group}.lb_endpoints[0].endpoint.address"
    return [
        _cluster("a cluster that keeps all", connect_timeout="1s", **_endpoints(_endpoint(80))),
        Case(
            "an empty string (min_len)",
            "clusters",
            {"connect_timeout": "1s"},
            # Nobody can ask for it, so it is refused before constraints are looked at.
            "the resource has no name",
            _BY_CONSTRAINT,
        ),
        _cluster(
            "a duration of zero (gt)",
            "connect_timeout: must be greater than 0s",
            connect_timeout="0s",
        ),
        Case(
            "a duration below zero (gt)",
            "clusters",
            {"name": "c", "connect_timeout": "-1s"},
            "connect_timeout: must be greater than 0s",
            "Expected positive duration",
        ),
        _cluster("the largest port (lte)", **_endpoints(_endpoint(65535))),
        _cluster(
            "a port that is too large (lte)",
            f"{address}.socket_address.port_value: must be at most 65535, is 65536",
            **_endpoints(_endpoint(65536)),
        ),
        _cluster(
            "a wrapped number that is too small (gte)",
            f"{group}.lb_endpoints[0].load_balancing_weight: must be at least 1, is 0",
            **_endpoints(_endpoint(80, load_balancing_weight=0)),
        ),
        _cluster(
            "a number that is too large (lte)",
            f"{group}.priority: must be at most 128, is 129",
            **_endpoints(_endpoint(80), priority=129),
        ),
        _cluster(
            "an address that is none (oneof required)",
            f"{address}: must have one of",
            **_endpoints({"endpoint": {"address": {}}}),
        ),
        _cluster(
            "an enum value that does not exist (defined_only)",
            "lb_policy: must be a value of the enum",
            lb_policy=99,
        ),
        _cluster(
            "a fraction that is too large (lte)",
            "common_lb_config.healthy_panic_threshold.value: must be at most 100, is 100.5",
            common_lb_config={"healthy_panic_threshold": {"value": 100.5}},
        ),
        _cluster(
            "a wrapped number that is too large (lte)",
            "ring_hash_lb_config.minimum_ring_size: must be at most 8388608, is 8388609",
            lb_policy="RING_HASH",
            ring_hash_lb_config={"minimum_ring_size": 8388609},
        ),
        _cluster(
            "a nested duration of zero (gt)",
            "outlier_detection.interval: must be greater than 0s",
            outlier_detection={"interval": "0s"},
        ),
        _cluster(
            "an Any in a map that lacks its oneof (oneof required)",
            f'typed_extension_protocol_options["{_HTTP_OPTIONS}"]: must have one of',
            typed_extension_protocol_options={_HTTP_OPTIONS: {"@type": _url(_HTTP_OPTIONS)}},
        ),
    ]


def _health_checks() -> list[Case]:
    complete = {
        "timeout": "1s",
        "interval": "1s",
        "unhealthy_threshold": 1,
        "healthy_threshold": 1,
        "tcp_health_check": {},
    }

    def check(about: str, ours: str | None = None, without: str = "", **fields: Any) -> Case:
        health_check = {name: value for name, value in complete.items() if name != without} | fields
        return _cluster(about, f"health_checks[0]{ours}" if ours else None, health_checks=[health_check])

    return [
        check("a complete health check"),
        check("a message that is missing (required)", ".timeout: must be set", without="timeout"),
        check("a required duration of zero (gt)", ".interval: must be greater than 0s", interval="0s"),
        check("a choice that is not made (oneof required)", ": must have one of", without="tcp_health_check"),
        check(
            "a path that is no value of a header (well_known_regex)",
            ".http_health_check.path: must be the value of an HTTP header",
            without="tcp_health_check",
            http_health_check={"path": "/a\u0001b"},
        ),
    ]


def _listener(about: str, ours: str | None, manager: Json) -> Case:
    """A listener with one HTTP connection manager; `ours` is about what is in that."""
    config = {
        "@type": _url(_MANAGER),
        "stat_prefix": "s",
        "http_filters": [{"name": "router", "typed_config": {"@type": _url(_ROUTER)}}],
        **manager,
    }
    resource = {
        "name": "l",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": "manager", "typed_config": config}]}],
    }
    path = f"filter_chains[0].filters[0].typed_config{ours}" if ours else None
    return Case(about, "listeners", resource, path, _BY_CONSTRAINT if ours else None)


_MATCH: Json = {"match": {"prefix": "/"}}
_ROUTE: Json = {**_MATCH, "direct_response": {"status": 200}}


def _host(route: Json, **fields: Any) -> Json:
    """A connection manager with one virtual host that has one route."""
    return {"route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [route], **fields}]}}


def _listeners() -> list[Case]:
    return [
        _listener("a listener that keeps all", None, _host(_ROUTE)),
        _listener(
            "an empty string in an Any (min_len)",
            ".stat_prefix: must not be empty",
            {"stat_prefix": "", **_host(_ROUTE)},
        ),
        _listener("a choice in an Any that is not made (oneof required)", ": must have one of", {}),
        _listener(
            "a list that is too short (min_items)",
            ".route_config.virtual_hosts[0].domains: must not be empty",
            _host(_ROUTE, domains=[]),
        ),
        _listener(
            "an element that is empty (repeated.items)",
            ".route_config.virtual_hosts[0].request_headers_to_remove[0]: must not be empty",
            _host(_ROUTE, request_headers_to_remove=[""]),
        ),
    ]


def _routes() -> list[Case]:
    path = ".route_config.virtual_hosts[0].routes[0]"
    return [
        _listener(
            "a message of an element that is missing (required)",
            f"{path}.match: must be set",
            _host({"direct_response": {"status": 200}}),
        ),
        _listener("an action that is none (oneof required)", f"{path}: must have one of", _host(_MATCH)),
        _listener(
            "a number at its open end (lt)",
            f"{path}.direct_response.status: must be less than 600, is 600",
            _host({**_MATCH, "direct_response": {"status": 600}}),
        ),
        _listener(
            "an empty string far down (min_len)",
            f"{path}.match.safe_regex.regex: must not be empty",
            _host({**_ROUTE, "match": {"safe_regex": {"regex": ""}}}),
        ),
    ]


def _headers() -> list[Case]:
    def matched(name: str) -> Json:
        return _host({**_ROUTE, "match": {"prefix": "/", "headers": [{"name": name, "present_match": True}]}})

    def added(key: str, value: str) -> Json:
        return _host(_ROUTE, request_headers_to_add=[{"header": {"key": key, "value": value}}])

    path = ".route_config.virtual_hosts[0].request_headers_to_add[0].header"
    return [
        _listener("the name of a header with a space (well_known_regex, not strict)", None, matched("a b")),
        _listener(
            "the name of a header over two lines (well_known_regex, not strict)",
            ".route_config.virtual_hosts[0].routes[0].match.headers[0].name: must be the name of an HTTP header",
            matched("a\nb"),
        ),
        _listener("the name of a header that is empty (min_len)", f"{path}.key: must not be empty", added("", "b")),
        _listener(
            "the value of a header over two lines (well_known_regex)",
            f"{path}.value: must be the value of an HTTP header",
            added("a", "b\nc"),
        ),
    ]


def _differences() -> list[Case]:
    return [
        Case(
            "an Any that is not used (min_len)",
            "clusters",
            {"name": "c", "metadata": {"typed_filter_metadata": {"x": {"@type": _url(_CLUSTER)}}}},
            'metadata.typed_filter_metadata["x"].name: must not be empty',
            None,
            "Envoy checks a message where it uses it, and nothing uses this one",
        ),
    ]
