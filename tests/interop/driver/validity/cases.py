"""The table: resources that keep or break one rule each, and who rejects them.

Each case replaces the resource that both clients have of that type. Where only one of the two rejects it, the
reason stands beside it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from driver.differential import resources
from driver.differential.resources import Resource
from driver.xds import TYPE_URLS

_HTTP = "type.googleapis.com/envoy.extensions.filters.http"
_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
_ADS = {"ads": {}}


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

    def policies(*configs: Any) -> Any:
        return {
            "load_balancing_policy": {
                "policies": [{"typed_extension_config": {"name": "p", "typed_config": each}} for each in configs]
            }
        }

    round_robin = {"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"}
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
        case("TLS from secrets", tls(tls_certificate_sds_secret_configs=[{"name": "s"}])),
        case("a transport of another kind", {"transport_socket": {"name": "raw", "typed_config": round_robin}}),
        case("policies of which one is known", policies(maglev, round_robin), fine),
        case("policies of which none is known", policies(maglev)),
        case("no policies in the list", policies()),
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
        filters = resources.listener()["api_listener"]["api_listener"]
        chains = [
            {"filter_chain_match": match, "filters": [{"name": "hcm", "typed_config": filters}]} for match in matches
        ]
        address = {"socket_address": {"address": "0.0.0.0", "port_value": 443}}
        server = {"@type": TYPE_URLS["lds"], "name": "svc", "address": address, "filter_chains": chains, **fields}
        return Case("lds", f"of a server: {about}", server, verdict, why)

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
    ]


def cases() -> list[Case]:
    """All of them, in an order in which no case takes the type of a later one out of use."""
    return [*_endpoints(), *_clusters(), *_routes(), *_listeners(), *_servers()]
