"""Nodes of the clients of istiod, their bootstraps, and the secrets that Istio's agent has for them."""

from __future__ import annotations

from driver.envoy_world import Variant
from driver.istio_world import Json

SIDECAR = "sidecar~10.2.0.1~web-1.shop~shop.svc.cluster.local"
GATEWAY = "router~10.2.9.1~front-1.istio-system~istio-system.svc.cluster.local"
APPLICATION = "sidecar~10.2.8.1~client-1.shop~shop.svc.cluster.local"

# Names of the secrets that the agent of a proxy serves.
_SECRETS = (
    "default",
    "ROOTCA",
    "file-cert:/etc/certs/cert.pem~/etc/certs/key.pem",
    "file-root:system",
)


def proxy_bootstrap(node: str, variant: Variant, server: str, secrets: str) -> Json:
    """The bootstrap that Istio's agent writes for its proxy, without the parts that no check needs."""
    ads = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    return {
        "node": {
            "id": node,
            "cluster": "web.shop",
            "locality": {"region": "here", "zone": "a"},
            "metadata": _metadata(node),
        },
        "dynamic_resources": {
            "lds_config": ads,
            "cds_config": ads,
            "ads_config": {
                "api_type": variant.value,
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
            },
        },
        "static_resources": {"clusters": [_cluster("xds-grpc", server), _cluster("sds-grpc", secrets)]},
    }


def _metadata(node: str) -> Json:
    kind, address, name, _ = node.split("~")
    namespace = name.split(".")[1]
    labels = {"app": "web"} if kind == "sidecar" else {"istio": "ingressgateway"}
    return {
        "CLUSTER_ID": "Kubernetes",
        "INSTANCE_IPS": address,
        "INTERCEPTION_MODE": "REDIRECT",
        "ISTIO_VERSION": "1.29.0",
        "LABELS": labels,
        "NAMESPACE": namespace,
        "NAME": name.split(".")[0],
        "SERVICE_ACCOUNT": "web",
    }


def _cluster(name: str, address: str) -> Json:
    host, _, port = address.rpartition(":")
    endpoint = {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def grpc_bootstrap(server: str) -> Json:
    """The bootstrap that Istio's agent writes for a proxyless gRPC application."""
    metadata = {"GENERATOR": "grpc", "NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes"}
    return {
        "xds_servers": [
            {
                "server_uri": server,
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "node": {"id": APPLICATION, "metadata": metadata, "locality": {"region": "here", "zone": "a"}},
    }


def agent_secrets() -> list[Json]:
    """The secrets that a proxy asks its agent for."""
    return [_secret(name) for name in _SECRETS]


def _secret(name: str) -> Json:
    return {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        "name": name,
        "validation_context": {"trusted_ca": {"inline_string": "-"}},
    }
