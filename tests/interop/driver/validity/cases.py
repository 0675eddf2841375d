"""The table: resources that keep or break one rule each, and who rejects them.

Each case replaces the resource that both clients have of that type. Where only one of the two rejects it, the
reason stands beside it.
"""

from __future__ import annotations

import base64
import enum
from dataclasses import dataclass
from typing import Any

from driver.differential import resources
from driver.differential.resources import Resource
from driver.xds import TYPE_URLS

_HTTP = "type.googleapis.com/envoy.extensions.filters.http"
_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
_ADS = {"ads": {}}
_FILTERS = "type.googleapis.com/envoy.extensions.filters"
_POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies"
# The name that both clients have a certificate provider of.
_PROVIDER = {"instance_name": "certificates"}


class Verdict(enum.Enum):
    """Who rejects a resource."""

    NEITHER = "neither"
    BOTH = "both"
    OURS = "ours alone"
    CORE = "C-core alone"


@dataclass(frozen=True)
class Case:
    """A resource of a type, and who rejects it."""

    type_name: str
    about: str
    resource: Resource
    verdict: Verdict = Verdict.BOTH
    why: str = ""


def _varint(number: int) -> bytes:
    more, last = divmod(number, 128)
    return bytes([last]) if more == 0 else bytes([last + 128]) + _varint(more)


def _wire(number: int, *parts: bytes | str) -> bytes:
    """A field of protobuf's binary form, for what JSON cannot say."""
    content = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return _varint(number * 8 + 2) + _varint(len(content)) + content


def _packed(type_url: str, content: bytes) -> bytes:
    """The content of an `Any`."""
    return _wire(1, type_url) + _wire(2, content)


def _binary(type_name: str, content: bytes) -> Resource:
    return {"type_url": TYPE_URLS[type_name], "base64": base64.b64encode(content).decode()}


def _set(config: Any, name: str = "f") -> Any:
    """A route that sets this for a filter."""
    return {**_route(), "typed_per_filter_config": {name: config}}


def _table(*routes: Any, **fields: Any) -> Resource:
    host = {"name": "all", "domains": ["*"], "routes": list(routes)}
    return {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": [host], **fields}


def _hosts(*domains: list[str]) -> Resource:
    routes = [_route()]
    hosts = [{"name": f"host {index}", "domains": each, "routes": routes} for index, each in enumerate(domains)]
    return _table(virtual_hosts=hosts)


def _route(match: Any = None, /, **action: Any) -> Any:
    return {"match": {"prefix": ""} if match is None else match, "route": action or {"cluster": "one"}}


def _header(**fields: Any) -> Any:
    return _route({"prefix": "", "headers": [{"name": "h", **fields}]})


def _weighted(*clusters: Any, **fields: Any) -> Any:
    return _route(weighted_clusters={"clusters": list(clusters), **fields})


def _retry(**fields: Any) -> Any:
    return _route(cluster="one", retry_policy={"retry_on": "unavailable", **fields})


def _routes() -> list[Case]:
    def case(about: str, resource: Resource, verdict: Verdict = Verdict.BOTH, why: str = "") -> Case:
        return Case("rds", about, resource, verdict, why)

    fine = Verdict.NEITHER
    spare = _route()
    return [
        case("a virtual host without domains", _hosts([])),
        case("an empty domain", _hosts([""])),
        case("a domain with an asterisk in it", _hosts(["a.*.b"])),
        case("a domain with two asterisks", _hosts(["*a*"]), Verdict.OURS, "an asterisk is for either end, not for both"),
        case("a domain twice", _hosts(["a"], ["b", "a"]), fine),
        case("a domain twice in one host", _hosts(["a", "a"]), fine),
        case("domains that differ, and one for all", _hosts(["*.a", "a.*"], ["*"]), fine),
        case("no virtual host for the name", _hosts(["elsewhere"]), fine),
        case("a route without a match", _table({"route": {"cluster": "one"}})),
        case("a match without a path", _table(_route({"headers": []}))),
        case("a path without a slash", _table(_route({"path": "a/b"}), spare), fine),
        case("a prefix without a slash", _table(_route({"prefix": "a"}), spare), fine),
        case("a prefix of two slashes", _table(_route({"prefix": "//a"}), spare), fine),
        case("a path of three parts", _table(_route({"path": "/a/b/c"}), spare), fine),
        case("only routes that no call can take", _table(_route({"path": "a/b"})), fine),
        case("an expression that is none", _table(_route({"safe_regex": {"regex": "("}}))),
        case("an expression", _table(_route({"safe_regex": {"regex": "/a/.*"}})), fine),
        case("query parameters", _table(_route({"prefix": "", "query_parameters": [{"name": "q"}]}), spare), fine),
        case("a header without a rule", _table(_header())),
        case("a header that is present", _table(_header(present_match=True)), fine),
        case("an empty range", _table(_header(range_match={"start": 5, "end": 5})), fine),
        case("a range that ends before it begins", _table(_header(range_match={"start": 5, "end": 4}))),
        case("a header's expression that is none", _table(_header(safe_regex_match={"regex": "["}))),
        case("an empty prefix of a header", _table(_header(prefix_match="")), fine),
        case("an empty suffix of a header", _table(_header(suffix_match="")), fine),
        case("a text matched with its case ignored", _table(_header(string_match={"exact": "A", "ignore_case": True})), fine),
        case(
            "an expression matched with its case ignored",
            _table(_header(string_match={"safe_regex": {"regex": "a+"}, "ignore_case": True})),
        ),
        case(
            "a path that no call has, and a header without a rule",
            _table(_route({"path": "a/b", "headers": [{"name": "h"}]}), spare),
            fine,
        ),
        case("a text without a rule", _table(_header(string_match={}))),
        case(
            "a fraction of an unknown whole",
            _table(_route({"prefix": "", "runtime_fraction": {"default_value": {"numerator": 1, "denominator": 7}}})),
        ),
        case(
            "a fraction without a value",
            _table(_route({"prefix": "", "runtime_fraction": {"runtime_key": "k"}})),
            fine,
        ),
        case("an empty cluster", _table(_route(cluster=""))),
        case("no cluster", _table(_route(timeout="1s"), spare), fine),
        case("a cluster by header", _table(_route(cluster_header="h"), spare), fine),
        case("a cluster by header, and no retries", _table(_route(cluster_header="h", retry_policy={"num_retries": 0}), spare)),
        case("no cluster, and a hash of a header without a name", _table(_route(hash_policy=[{"header": {}}]), spare)),
        case(
            "no cluster, and a longest duration below zero",
            _table(_route(max_stream_duration={"max_stream_duration": "-1s"}), spare),
        ),
        case(
            "a longest duration below zero that does not count",
            _table(
                _route(cluster="one", max_stream_duration={"max_stream_duration": "-1s", "grpc_timeout_header_max": "1s"})
            ),
            fine,
        ),
        case("weights of nothing", _table(_weighted())),
        case("weights of zero", _table(_weighted({"name": "one", "weight": 0}))),
        case("a weight that is not set", _table(_weighted({"name": "one"}))),
        case("a weighted cluster without a name", _table(_weighted({"name": "", "weight": 1}))),
        case(
            "weights that overflow",
            _table(_weighted({"name": "one", "weight": 4294967295}, {"name": "two", "weight": 1})),
        ),
        case("a weight of zero among others", _table(_weighted({"name": "one", "weight": 1}, {"name": "two", "weight": 0})), fine),
        case("no retries", _table(_retry(num_retries=0))),
        case("retries without a base", _table(_retry(retry_back_off={"max_interval": "1s"}))),
        case(
            "retries of a base of zero",
            _table(_retry(retry_back_off={"base_interval": "0s"})),
            Verdict.OURS,
            "the API says that it is above zero (A44)",
        ),
        case(
            "retries whose pause shrinks",
            _table(_retry(retry_back_off={"base_interval": "2s", "max_interval": "1s"})),
            Verdict.OURS,
            "A44 wants it rejected",
        ),
        case("retries for what gRPC does not know", _table(_retry(retry_on="5xx, gateway-error")), fine),
        case("a longest duration below zero", _table(_route(cluster="one", max_stream_duration={"max_stream_duration": "-1s"}))),
        case("a route that redirects", _table({"match": {"prefix": ""}, "redirect": {}}), fine),
        case("a route of servers", _table({"match": {"prefix": ""}, "non_forwarding_action": {}}), fine),
        case("a route without an action", _table({"match": {"prefix": ""}}), fine),
        case("a plugin that is not there", _table(_route(cluster_specifier_plugin="p"))),
        case("a hash of a header without a name", _table(_route(cluster="one", hash_policy=[{"header": {}}]))),
        case(
            "a hash by an expression that is none",
            _table(
                _route(
                    cluster="one",
                    hash_policy=[{"header": {"header_name": "h", "regex_rewrite": {"pattern": {"regex": "("}}}}],
                )
            ),
        ),
        case(
            "a hash by an empty expression",
            _table(
                _route(
                    cluster="one",
                    hash_policy=[{"header": {"header_name": "h", "regex_rewrite": {"pattern": {"regex": ""}}}}],
                )
            ),
        ),
        case("settings for the filter that sends on", _table(_set({"@type": f"{_HTTP}.router.v3.Router"}))),
        case("settings for a filter without a name", _table(_set({"@type": f"{_HTTP}.fault.v3.HTTPFault"}, ""))),
        case("settings of faults", _table(_set({"@type": f"{_HTTP}.fault.v3.HTTPFault", "max_active_faults": 1})), fine),
        case(
            "settings of faults with a status that is none",
            _table(_set({"@type": f"{_HTTP}.fault.v3.HTTPFault", "abort": {"grpc_status": 99}})),
        ),
        case("settings of permissions", _table(_set({"@type": f"{_HTTP}.rbac.v3.RBACPerRoute"})), fine),
        case("settings of permissions in the filter's own form", _table(_set({"@type": f"{_HTTP}.rbac.v3.RBAC"}))),
        case(
            "settings of sessions",
            _table(_set({"@type": f"{_HTTP}.stateful_session.v3.StatefulSessionPerRoute", "disabled": True})),
            fine,
        ),
        case(
            "settings for a filter that nobody knows",
            _table({**spare, "typed_per_filter_config": {"f": {"@type": f"{_HTTP}.buffer.v3.BufferPerRoute"}}}),
        ),
        case(
            "settings for a filter that nobody has to know",
            _table(
                {
                    **spare,
                    "typed_per_filter_config": {
                        "f": {
                            "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                            "is_optional": True,
                            "config": {"@type": f"{_HTTP}.buffer.v3.BufferPerRoute"},
                        }
                    },
                }
            ),
            fine,
        ),
        case("any case", _table(_route({"path": "/A/b", "case_sensitive": False})), fine),
    ]


def _clusters() -> list[Case]:
    def case(about: str, fields: Any, verdict: Verdict = Verdict.BOTH, why: str = "") -> Case:
        return Case("cds", about, resources.cluster("one", **fields), verdict, why)

    fine = Verdict.NEITHER
    address = {"socket_address": {"address": "dns.example", "port_value": 1}}
    lb_endpoint = {"endpoint": {"address": address}}

    def dns(*localities: Any) -> Any:
        return {"type": "LOGICAL_DNS", "eds_cluster_config": None, "load_assignment": {"endpoints": list(localities)}}

    def aggregate(*names: str) -> Any:
        config = {"@type": "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig", "clusters": names}
        return {"type": None, "cluster_type": {"name": "envoy.clusters.aggregate", "typed_config": config}}

    def tls(**context: Any) -> Any:
        config = {"@type": f"{_TLS}.UpstreamTlsContext", "common_tls_context": context}
        return {"transport_socket": {"name": "tls", "typed_config": config}}

    def validated(**context: Any) -> Any:
        return {"validation_context": {"ca_certificate_provider_instance": _PROVIDER, **context}}

    trusted = validated()

    def policies(*configs: Any) -> Any:
        return {
            "load_balancing_policy": {
                "policies": [{"typed_extension_config": {"name": "p", "typed_config": each}} for each in configs]
            }
        }

    round_robin = {"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"}
    reported = {"@type": f"{_POLICIES}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"}
    # A cluster `one` of type EDS, its source, and a list of one policy.
    undecodable = _binary(
        "cds",
        _wire(1, "one")
        + bytes([2 * 8, 3])
        + _wire(3, _wire(1, _wire(3)))
        + _wire(41, _wire(1, _wire(4, _wire(1, "p"), _wire(2, _packed(reported["@type"], b"\xff"))))),
    )
    maglev = {"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.maglev.v3.Maglev"}
    return [
        case("a cluster of fixed endpoints", {"type": "STATIC"}),
        case("a cluster of strict DNS", {"type": "STRICT_DNS"}),
        case("endpoints from nowhere", {"eds_cluster_config": None}),
        case("endpoints without a source", {"eds_cluster_config": {}}),
        case("endpoints from a file", {"eds_cluster_config": {"eds_config": {"path": "/tmp/eds"}}}),
        case("endpoints from the same server", {"eds_cluster_config": {"eds_config": {"self": {}}}}, fine),
        case("a service of another name", {"eds_cluster_config": {"eds_config": _ADS, "service_name": "of-one"}}, fine),
        case("the policy Maglev", {"lb_policy": "MAGLEV"}),
        case("the policy random", {"lb_policy": "RANDOM"}),
        case(
            "the policy of fewest requests",
            {"lb_policy": "LEAST_REQUEST"},
            Verdict.CORE,
            "A48 has it; C-core has no such policy",
        ),
        case("a ring", {"lb_policy": "RING_HASH"}, fine),
        case("a ring of too many", {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"maximum_ring_size": 8388609}}),
        case(
            "a ring that is larger than it may be",
            {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 9, "maximum_ring_size": 8}},
        ),
        case("a ring by another hash", {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"hash_function": "MURMUR_HASH_2"}}),
        case("reports to another server", {"lrs_server": _ADS}),
        case("reports to the same server", {"lrs_server": {"self": {}}}, fine),
        case("a name of DNS", dns({"lb_endpoints": [lb_endpoint]}), fine),
        case("a name of DNS that is not there", {"type": "LOGICAL_DNS"}),
        case("names of DNS in no place", dns()),
        case("names of DNS in two places", dns({"lb_endpoints": [lb_endpoint]}, {"lb_endpoints": [lb_endpoint]})),
        case("two names of DNS", dns({"lb_endpoints": [lb_endpoint, lb_endpoint]})),
        case("a name of DNS without an address", dns({"lb_endpoints": [{"endpoint": {}}]})),
        case(
            "a name of DNS without a port",
            dns({"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "dns.example"}}}}]}),
        ),
        case("a cluster of clusters", aggregate("two", "three"), fine),
        case("a cluster of no clusters", aggregate()),
        case("a share of more than all that may be ejected", {"outlier_detection": {"max_ejection_percent": 101}}),
        case("outliers every negative second", {"outlier_detection": {"interval": "-1s"}}),
        case("a success rate enforced on more than all", {"outlier_detection": {"enforcing_success_rate": 101}}),
        case("outliers by default", {"outlier_detection": {}}, fine),
        case("a limit of requests", {"circuit_breakers": {"thresholds": [{"max_requests": 5}]}}, fine),
        case("TLS that trusts nobody", tls()),
        case(
            "TLS by a provider that the bootstrap does not have",
            tls(validation_context={"ca_certificate_provider_instance": {"instance_name": "p"}}),
        ),
        case("TLS by a provider", tls(**trusted), fine),
        case("TLS by the system", tls(validation_context={"system_root_certs": {}}), fine),
        case("TLS from secrets", tls(**trusted, tls_certificate_sds_secret_configs=[{"name": "s"}])),
        case("TLS with a certificate that is written down", tls(**trusted, tls_certificates=[{}])),
        case(
            "TLS from secrets that a provider has, too",
            tls(
                **trusted,
                tls_certificate_sds_secret_configs=[{"name": "s"}],
                tls_certificate_provider_instance=_PROVIDER,
            ),
            fine,
        ),
        case(
            "TLS by providers as it was said before",
            tls(
                tls_certificate_certificate_provider_instance=_PROVIDER,
                combined_validation_context={"validation_context_certificate_provider_instance": _PROVIDER},
            ),
            fine,
        ),
        case("TLS by roots that are a secret", tls(validation_context_sds_secret_config={"name": "s"})),
        case("TLS with parameters", tls(**trusted, tls_params={})),
        case("TLS by another handshake", tls(**trusted, custom_handshaker={"name": "h"})),
        case("TLS with certificates that were taken back", tls(**validated(crl={"inline_string": "c"}))),
        case("TLS with another judge", tls(**validated(custom_validator_config={"name": "v"}))),
        case("TLS for some certificates", tls(**validated(verify_certificate_hash=["a" * 64]))),
        case(
            "TLS for names by an expression with its case ignored",
            tls(**validated(match_subject_alt_names=[{"safe_regex": {"regex": "a"}, "ignore_case": True}])),
        ),
        case("a transport of another kind", {"transport_socket": {"name": "raw", "typed_config": round_robin}}),
        case("policies of which one is known", policies(maglev, round_robin), fine),
        case("policies of which none is known", policies(maglev)),
        case("no policies in the list", policies()),
        case("a policy of reports", policies(reported), fine),
        case("a policy of reports in a negative period", policies({**reported, "blackout_period": "-1s"})),
        case("a policy of reports with a negative penalty", policies({**reported, "error_utilization_penalty": -0.5})),
        Case("cds", "a policy of reports that cannot be read", undecodable),
        case(
            "the policy of fewest requests in the list",
            policies({"@type": f"{_POLICIES}.least_request.v3.LeastRequest"}),
            Verdict.CORE,
            "A48 has it; C-core has no such policy",
        ),
    ]


def _endpoints() -> list[Case]:
    def endpoint(port: int = 1, host: str = "127.0.0.1", **fields: Any) -> Any:
        return {"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}, **fields}

    def place(region: str, *lb_endpoints: Any, **fields: Any) -> Any:
        found = list(lb_endpoints) or [endpoint()]
        return {"locality": {"region": region}, "load_balancing_weight": 1, "lb_endpoints": found, **fields}

    def case(about: str, *places: Any, verdict: Verdict = Verdict.BOTH, why: str = "", **fields: Any) -> Case:
        resource = {"@type": TYPE_URLS["eds"], "cluster_name": "one", "endpoints": list(places), **fields}
        return Case("eds", about, resource, verdict, why)

    def drops(**overload: Any) -> Any:
        return {"policy": {"drop_overloads": [overload]}}

    fine = Verdict.NEITHER
    half = {"numerator": 50}
    return [
        case("no endpoints at all", verdict=fine),
        case("a place without a name", {**place("a"), "locality": None}),
        case("a place without a weight", {**place("a"), "load_balancing_weight": None}, verdict=fine),
        case("a priority that is missing", place("a", priority=1)),
        case("priorities", place("a"), place("b", endpoint(2), priority=1), verdict=fine),
        case("a place twice", place("a"), place("a", endpoint(2))),
        case("a place in two priorities", place("a"), place("a", endpoint(2), priority=1), verdict=fine),
        case("an address twice", place("a"), place("b")),
        case("an address twice in other words", place("a", endpoint(host="::1"), endpoint(host="0:0:0:0:0:0:0:1"))),
        case(
            "an address without a port",
            place("a", {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1"}}}}),
            verdict=Verdict.OURS,
            why="nobody can be reached there; C-core takes it for port 0",
        ),
        case("weights of places that overflow", {**place("a"), "load_balancing_weight": 4294967295}, place("b", endpoint(2))),
        case(
            "weights of endpoints that overflow",
            place("a", endpoint(1, load_balancing_weight=4294967295), endpoint(2, load_balancing_weight=1)),
            verdict=Verdict.OURS,
            why="the API says that they must not, and no policy could add them up",
        ),
        case("an endpoint of weight zero", place("a", endpoint(load_balancing_weight=0))),
        case("an endpoint without an address", place("a", {"endpoint": {}})),
        case("an endpoint that is none", place("a", {"health_status": "HEALTHY"})),
        case("a port that is none", place("a", endpoint(70000))),
        case("a name in the place of an address", place("a", endpoint(host="localhost"))),
        case("an endpoint that is ill", place("a", endpoint(health_status="UNHEALTHY")), verdict=fine),
        case("drops without a reason", place("a"), **drops(drop_percentage=half)),
        case("drops without a share", place("a"), **drops(category="c")),
        case("drops of an unknown whole", place("a"), **drops(category="c", drop_percentage={"numerator": 1, "denominator": 9})),
        case("drops of more than all", place("a"), verdict=fine, **drops(category="c", drop_percentage={"numerator": 300})),
    ]


def _listeners() -> list[Case]:
    def case(about: str, resource: Resource, verdict: Verdict = Verdict.BOTH, why: str = "") -> Case:
        return Case("lds", about, resource, verdict, why)

    def filters(*names: Any) -> Resource:
        return resources.listener(http_filters=list(names))

    def filter_of(name: str, kind: str, **fields: Any) -> Any:
        return {"name": name, "typed_config": {"@type": f"{_HTTP}.{kind}"}, **fields}

    def faults(**config: Any) -> Resource:
        config = {"@type": f"{_HTTP}.fault.v3.HTTPFault", **config}
        return filters({"name": "fault", "typed_config": config}, router)

    def session(state: Any) -> Resource:
        cookie = "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState"
        config = {
            "@type": f"{_HTTP}.stateful_session.v3.StatefulSession",
            "session_state": {"name": "s", "typed_config": {"@type": cookie, **state}},
        }
        return filters({"name": "session", "typed_config": config}, router)

    def unreadable(first: str, *rest: str) -> Resource:
        """The listener `svc` with filters of which the first has garbage for a configuration."""
        kinds = [(first, b"\xff"), *((kind, b"") for kind in rest)]
        manager = _wire(3, _wire(1, _wire(3)), _wire(2, "routes"))
        for kind, content in kinds:
            manager += _wire(5, _wire(1, kind), _wire(4, _packed(f"{_HTTP}.{kind}", content)))
        url = f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager"
        return _binary("lds", _wire(1, "svc") + _wire(19, _wire(1, _packed(url, manager))))

    fine = Verdict.NEITHER
    router = filter_of("router", "router.v3.Router")
    fault = filter_of("fault", "fault.v3.HTTPFault")
    buffer = filter_of("buffer", "buffer.v3.Buffer")
    bare = {"@type": TYPE_URLS["lds"], "name": "svc"}
    cluster = {"@type": TYPE_URLS["cds"], "name": "one"}
    return [
        case("a listener of nothing", bare),
        case("a listener for clients that is something else", {**bare, "api_listener": {"api_listener": cluster}}),
        case("a listener for clients without anything", {**bare, "api_listener": {}}),
        case("no filters", filters()),
        case("filters of which none sends on", filters(fault)),
        case("filters after the one that sends on", filters(router, fault)),
        case("two that send on", filters(router, {**router, "name": "again"})),
        case("a filter before the one that sends on", filters(fault, router), fine),
        case("filters of the same name", filters(fault, fault, router)),
        case("a filter without a name", filters({**fault, "name": ""}, router)),
        case("a filter that nobody knows", filters(buffer, router)),
        case("a filter that nobody has to know", filters({**buffer, "is_optional": True}, router), fine),
        case("a filter without a configuration", filters({"name": "f"}, router)),
        Case("lds", "faults that cannot be read", unreadable("fault.v3.HTTPFault", "router.v3.Router")),
        Case("lds", "sessions that cannot be read", unreadable("stateful_session.v3.StatefulSession", "router.v3.Router")),
        Case("lds", "settings of the last filter that cannot be read", unreadable("router.v3.Router")),
        case("faults with a status", faults(abort={"grpc_status": 8}), fine),
        case("faults with a status that is none", faults(abort={"grpc_status": 99})),
        case("faults that take a while", faults(delay={"fixed_delay": "1s"}), fine),
        case("faults that take a while below zero", faults(delay={"fixed_delay": "-1s"})),
        case("faults of an unknown whole", faults(abort={"percentage": {"denominator": 9}}), fine),
        case("sessions", session({"cookie": {"name": "c"}}), fine),
        case("sessions of a cookie without a name", session({"cookie": {}})),
        case("sessions without a cookie", session({})),
        case("what a server has", filters(filter_of("rbac", "rbac.v3.RBAC"), router)),
        case(
            "an address beside what is for clients",
            {**resources.listener(), "address": {"socket_address": {"address": "0.0.0.0", "port_value": 1}}},
            fine,
        ),
        case("routes from nowhere", resources.listener(rds={"route_config_name": "routes"})),
        case("routes from a file", resources.listener(rds={"route_config_name": "routes", "config_source": {"path": "/tmp/rds"}})),
        case(
            "routes without a name",
            resources.listener(rds={"config_source": _ADS}),
            Verdict.OURS,
            "there is no such name to ask for; C-core asks for it",
        ),
        case("routes by scope", resources.listener(rds=None, scoped_routes={"name": "s"})),
        case("no routes", resources.listener(rds=None)),
        case("hops that are trusted", resources.listener(xff_num_trusted_hops=1)),
        case("extensions that find the caller", resources.listener(original_ip_detection_extensions=[filter_of("x", "fault.v3.HTTPFault")])),
        case(
            "a longest duration below zero",
            resources.listener(common_http_protocol_options={"max_stream_duration": "-1s"}),
        ),
        case("a longest duration", resources.listener(common_http_protocol_options={"max_stream_duration": "5s"}), fine),
        case("routes in it that are invalid", resources.listener(rds=None, route_config={"virtual_hosts": [{"name": "h"}]})),
    ]


def _servers() -> list[Case]:
    """Listeners of servers, which a client judges, too, though it can do nothing with them."""

    def case(
        about: str, *matches: Any, verdict: Verdict = Verdict.BOTH, why: str = "", **fields: Any
    ) -> Case:
        chains = [{"filter_chain_match": match, "filters": manager()} for match in matches]
        address = {"socket_address": {"address": "0.0.0.0", "port_value": 443}}
        server = {"@type": TYPE_URLS["lds"], "name": "svc", "address": address, "filter_chains": chains, **fields}
        return Case("lds", f"of a server: {about}", server, verdict, why)

    def manager(**fields: Any) -> list[Any]:
        config = resources.listener(**fields)["api_listener"]["api_listener"]
        return [{"name": "hcm", "typed_config": config}]

    def at(**address: Any) -> Any:
        return {"socket_address": address}

    def secured(**context: Any) -> Any:
        config = {"@type": f"{_TLS}.DownstreamTlsContext", "common_tls_context": context}
        return {"filters": manager(), "transport_socket": {"name": "tls", "typed_config": config}}

    def with_filter(config: Any) -> Any:
        router = {"name": "router", "typed_config": {"@type": f"{_HTTP}.router.v3.Router"}}
        return {"filters": manager(http_filters=[{"name": "f", "typed_config": config}, router])}

    own = {"tls_certificate_provider_instance": _PROVIDER}
    rbac = f"{_HTTP}.rbac.v3.RBAC"
    by_scheme = {
        "permissions": [{"header": {"name": ":scheme", "exact_match": "http"}}],
        "principals": [{"any": True}],
    }

    def ranges(*prefixes: str) -> list[Any]:
        return [{"address_prefix": prefix, "prefix_len": 8} for prefix in prefixes]

    fine = Verdict.NEITHER
    first = {"prefix_ranges": ranges("10.0.0.0", "11.0.0.0"), "source_ports": [1, 2]}
    second = {"prefix_ranges": ranges("12.0.0.0", "11.1.2.3"), "source_ports": [2, 3]}
    apart = {"prefix_ranges": ranges("12.0.0.0", "11.1.2.3"), "source_ports": [3, 4]}
    return [
        case("one chain for all", {}, verdict=fine),
        case("no chain"),
        case("chains for the same", {}, {}),
        case("chains that have one combination in common", first, second),
        case("chains that have a range in common, but no port", first, apart, verdict=fine),
        case("a chain that lists a range twice", {"prefix_ranges": ranges("10.0.0.0", "10.1.0.0")}),
        case("chains of which one names the protocol", {}, {"transport_protocol": "raw_buffer"}, verdict=fine),
        case("chains for the same that take no connection", *[{"destination_port": 1}] * 2, verdict=fine),
        case(
            "filters of listeners",
            {},
            verdict=Verdict.OURS,
            why="A36 asks for it; C-core does not look",
            listener_filters=[{"name": "f"}],
        ),
        case("the original destination", {}, use_original_dst=True),
        case("at a name", {}, verdict=fine, address=at(address="host", port_value=443)),
        case("without a port", {}, verdict=fine, address=at(address="0.0.0.0")),
        case("for datagrams", {}, address=at(address="0.0.0.0", port_value=443, protocol="UDP")),
        case("with TLS", verdict=fine, filter_chains=[secured(**own)]),
        case("with TLS without a certificate", filter_chains=[secured()]),
        case(
            "with clients that the system vouches for",
            filter_chains=[secured(**own, validation_context={"system_root_certs": {}})],
        ),
        case("with permissions", verdict=fine, filter_chains=[with_filter({"@type": rbac})]),
        case("with the permissions of a route", filter_chains=[with_filter({"@type": f"{rbac}PerRoute"})]),
        case(
            "with permissions by a header that there is not",
            filter_chains=[with_filter({"@type": rbac, "rules": {"policies": {"p": by_scheme}}})],
        ),
    ]


def cases() -> list[Case]:
    """All of them, in an order in which no case takes the type of a later one out of use."""
    return [*_endpoints(), *_clusters(), *_routes(), *_listeners(), *_servers()]
