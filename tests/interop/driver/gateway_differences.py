"""Golden files of Envoy Gateway that only Envoy or only our parser rejects, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Files that only one side rejects, all for one reason."""

    # `Envoy` or `ours`.
    by: str
    # A part of its error message.
    words: str
    why: str
    files: tuple[str, ...]


def _clusters(*cases: str) -> tuple[str, ...]:
    return tuple(f"extension-xds-ir/{case}.clusters.yaml" for case in cases)


DIFFERENCES = (
    Difference(
        "Envoy",
        "malformed IP address: exampleservice.examplenamespace.svc.cluster.local",
        "a cluster of type STATIC has the name of a host, which is no rule of the API",
        _clusters(
            "empty",
            "extensionpolicy-extension-server",
            "extensionpolicy-tcp-udp-http",
            "http-route",
            "http-route-extension-filter",
            "http-route-extension-listener-error",
            "http-route-extension-route-error",
            "http-route-extension-virtualhost-error",
            "listener-policy",
            "multiple-listeners-same-port-error",
            "post-translate-listeners-routes",
        ),
    ),
    Difference(
        "Envoy",
        "LB policy ROUND_ROBIN is not valid for Cluster type ORIGINAL_DST",
        "the policy does not go with the type of the cluster, which is no rule of the API",
        _clusters("http-route-custom-backend", "http-route-custom-backends-mixed"),
    ),
    Difference(
        "Envoy",
        "address is necessary",
        "a listener has neither an address nor an API listener, which is no rule of the API",
        (
            "extension-xds-ir/extensionpolicy-extension-server.listeners.yaml",
            "extension-xds-ir/post-translate-listeners-routes.listeners.yaml",
        ),
    ),
    Difference(
        "Envoy",
        "Only a single wildcard domain is permitted",
        "two virtual hosts are for every domain, which is no rule of the API",
        (
            "xds-ir/client-listener-scoped-timeout.routes.yaml",
            "xds-ir/client-timeout.routes.yaml",
            "xds-ir/multiple-listeners-same-port.routes.yaml",
        ),
    ),
    Difference(
        "Envoy",
        "no argument for repetition operator: *",
        "a regular expression cannot be compiled, which is no rule of the API",
        ("xds-ir/cors.routes.yaml",),
    ),
    Difference(
        "Envoy",
        "has the same matching rules defined as",
        "two filter chains match the same connections, which is no rule of the API",
        ("xds-ir/multiple-simple-tcp-route-same-port.listeners.yaml",),
    ),
    Difference(
        "Envoy",
        "can set ipv4_compat",
        "an IPv4 address has a field that is for IPv6, which is no rule of the API",
        ("xds-ir/tcp-listener-ipfamily.listeners.yaml",),
    ),
    Difference(
        "Envoy",
        "Failed to load dynamic module",
        "the library of a dynamic module is not on this machine",
        ("xds-ir/dynamicmodule.listeners.yaml",),
    ),
    Difference(
        "Envoy",
        "Unable to open Maxmind database file",
        "the database of addresses is not on this machine",
        (
            "xds-ir/geoip-authorization-direct-source-ip.listeners.yaml",
            "xds-ir/geoip-authorization.listeners.yaml",
        ),
    ),
    Difference(
        "Envoy",
        "ended by signal 11",
        "Envoy's validation crashes on a cluster for a dynamic forward proxy",
        (
            "xds-ir/http-route-dynamic-resolver-with-host-rewriting.clusters.yaml",
            "xds-ir/http-route-dynamic-resolver.clusters.yaml",
        ),
    ),
)
