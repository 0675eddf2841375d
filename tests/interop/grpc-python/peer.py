"""A gRPC application whose only knowledge of its backends comes from a management server.

Runs in the virtual environment of `requirements-grpc.txt`. It starts two backends that answer every
call with their own name, and obeys JSON commands on standard input, one a line; each is answered by
one JSON event on standard output:

    {"command": "connect", "server": "127.0.0.1:PORT", "node": ID}   -> {"event": "connected"}
                    and perhaps the target, and for TLS the names of three files with certificates and a key
    {"command": "call", "seconds": N}                                -> {"event": "answer", ...}
    {"command": "csds"}                                              -> {"event": "csds", ...}

It ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent import futures
from typing import Any

import grpc
import grpc_csds
from envoy.admin.v3 import config_dump_shared_pb2
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc

_SERVICE = "svc"
_METHOD = "/interop.Echo/WhoAreYou"


class _Backend(grpc.GenericRpcHandler):
    """Answers every method of every service with its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._name.encode())


def _credentials(
    server_certificate: str | None = None, client_certificate: str | None = None, client_key: str | None = None
) -> dict[str, Any]:
    """How the management server is spoken to, in the words of a bootstrap."""
    if server_certificate is None:
        return {"type": "insecure"}
    files = {
        "ca_certificate_file": server_certificate,
        "certificate_file": client_certificate,
        "private_key_file": client_key,
        "refresh_interval": "600s",
    }
    return {"type": "tls", "config": files}


def _start_server() -> tuple[grpc.Server, int]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    return server, server.add_insecure_port("127.0.0.1:0")


class _Peer:
    def __init__(self) -> None:
        self._servers: list[grpc.Server] = []
        self._channel: grpc.Channel | None = None
        csds, port = _start_server()
        grpc_csds.add_csds_servicer(csds)
        csds.start()
        self._servers.append(csds)
        self.admin = f"127.0.0.1:{port}"
        self._csds = csds_pb2_grpc.ClientStatusDiscoveryServiceStub(
            grpc.insecure_channel(self.admin)
        )

    def start_backend(self, name: str) -> int:
        """The port of a new backend."""
        server, port = _start_server()
        server.add_generic_rpc_handlers((_Backend(name),))
        server.start()
        self._servers.append(server)
        return port

    def connect(self, server: str, node: str, target: str = _SERVICE, **files: str) -> dict[str, Any]:
        """Makes the channel; C-core reads the bootstrap when it makes its first xds one."""
        # A bootstrap file of the environment would be preferred to ours.
        os.environ.pop("GRPC_XDS_BOOTSTRAP", None)
        os.environ["GRPC_XDS_BOOTSTRAP_CONFIG"] = json.dumps(
            {
                "xds_servers": [
                    {
                        "server_uri": server,
                        "channel_creds": [_credentials(**files)],
                        "server_features": ["xds_v3"],
                    }
                ],
                "node": {"id": node},
            }
        )
        self._channel = grpc.insecure_channel(f"xds:///{target}")
        return {"event": "connected"}

    def call(self, seconds: float) -> dict[str, Any]:
        """One RPC: who answered it, or how it failed."""
        assert self._channel is not None
        method = self._channel.unary_unary(_METHOD)
        try:
            name = method(b"", timeout=seconds)
            return {"event": "answer", "backend": name.decode(), "code": "OK", "details": None}
        except grpc.RpcError as error:
            return {"event": "answer", "backend": None, "code": error.code().name, "details": error.details()}

    def csds(self) -> dict[str, Any]:
        """What the client itself says about its resources."""
        status_name = config_dump_shared_pb2.ClientResourceStatus.Name
        response = self._csds.FetchClientStatus(csds_pb2.ClientStatusRequest(), timeout=5)
        return {
            "event": "csds",
            "resources": [
                {
                    "type_url": resource.type_url,
                    "name": resource.name,
                    "version": resource.version_info,
                    "status": status_name(resource.client_status),
                    "error": resource.error_state.details or None,
                }
                for config in response.config
                for resource in config.generic_xds_configs
            ],
        }


def _say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    peer = _Peer()
    backends = {name: peer.start_backend(name) for name in ("first", "second")}
    _say({"event": "ready", "version": grpc.__version__, "backends": backends, "admin": peer.admin})
    for line in sys.stdin:
        words = json.loads(line)
        _say(getattr(peer, words.pop("command"))(**words))
    # Not a normal end: C-core's threads may hold that up for seconds.
    os._exit(0)


if __name__ == "__main__":
    main()
