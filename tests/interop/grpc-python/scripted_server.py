"""A management server without a mind of its own: it says what it is told to, and reports what it hears.

Runs in the virtual environment of `requirements-grpc.txt`. One process has any number of servers, each
with a name and a port of its own. JSON commands come on standard input, one a line:

    {"command": "listen", "server": NAME}                   a new server, or an old one on its old port
    {"command": "shut", "server": NAME}                     ends its streams and its port
    {"command": "respond", "server": NAME, "type_url": URL, "version": V, "nonce": N, "resources": [...]}
    {"command": "send", "server": NAME, "frame": BASE64}    any bytes in the place of a response
    {"command": "close", "server": NAME, "code": "OK"}      ends the newest stream with a status

A resource is an `Any` in JSON, or `{"type_url": URL, "base64": BYTES}` where it should be no message.
Responses go to the newest stream. What happens is told on standard output, one JSON event a line:

    {"event": "listening", "server": NAME, "port": PORT}
    {"event": "shut", "server": NAME}
    {"event": "request", "server": NAME, "stream": N, ...}  the fields of a DiscoveryRequest
    {"event": "end", "server": NAME, "stream": N}           the client will say nothing more on it
    {"event": "load", "server": NAME, "node": {...} or null, "clusters": [...]}

The last one is a message on a stream of load reports, with the fields of each `ClusterStats`. Such a stream asks
for the load of all clusters each second.

It ends when its standard input does.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc

# Imported for what they register: the types that may stand in an `Any`.
from envoy.config.cluster.v3 import cluster_pb2  # noqa: F401
from envoy.config.endpoint.v3 import endpoint_pb2  # noqa: F401
from envoy.config.listener.v3 import listener_pb2  # noqa: F401
from envoy.config.route.v3 import route_pb2  # noqa: F401
from envoy.extensions.clusters.aggregate.v3 import cluster_pb2 as aggregate_pb2  # noqa: F401
from envoy.extensions.filters.http.buffer.v3 import buffer_pb2  # noqa: F401
from envoy.extensions.filters.http.fault.v3 import fault_pb2  # noqa: F401
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2  # noqa: F401
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.http.stateful_session.v3 import stateful_session_pb2  # noqa: F401
from envoy.extensions.filters.network.http_connection_manager.v3 import (  # noqa: F401
    http_connection_manager_pb2,
)
from envoy.extensions.http.stateful_session.cookie.v3 import cookie_pb2  # noqa: F401
from envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3 import (  # noqa: F401
    client_side_weighted_round_robin_pb2,
)
from envoy.extensions.load_balancing_policies.least_request.v3 import least_request_pb2  # noqa: F401
from envoy.extensions.load_balancing_policies.maglev.v3 import maglev_pb2  # noqa: F401
from envoy.extensions.load_balancing_policies.round_robin.v3 import round_robin_pb2  # noqa: F401
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2  # noqa: F401
from envoy.service.discovery.v3 import discovery_pb2
from envoy.service.load_stats.v3 import lrs_pb2
from google.protobuf import any_pb2, json_format

_LOAD_METHOD = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"
_METHOD = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
# Each stream keeps a thread busy until it ends.
_STREAMS = 64

_print_lock = threading.Lock()


def _say(**event: object) -> None:
    with _print_lock:
        print(json.dumps(event), flush=True)


class _Stream:
    """One call; what is put into its queue is sent, in order."""

    def __init__(self, server: str, number: int) -> None:
        self._server = server
        self._number = number
        # Bytes to send, or the status to end with; `None`: the client is gone.
        self._outgoing: queue.SimpleQueue[bytes | grpc.StatusCode | None] = queue.SimpleQueue()

    def put(self, item: bytes | grpc.StatusCode) -> None:
        self._outgoing.put(item)

    def run(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        threading.Thread(target=self._listen, args=(requests,), daemon=True).start()
        while (item := self._outgoing.get()) is not None:
            if isinstance(item, bytes):
                yield item
            elif item is grpc.StatusCode.OK:
                return
            else:
                context.abort(item, "as the script says")

    def _listen(self, requests: Iterator[bytes]) -> None:
        try:
            for request in requests:
                self._report(discovery_pb2.DiscoveryRequest.FromString(request))
        except grpc.RpcError:
            # A cancelled call, or one that we have ended ourselves.
            pass
        _say(event="end", server=self._server, stream=self._number)
        self._outgoing.put(None)

    def _report(self, request: discovery_pb2.DiscoveryRequest) -> None:
        error = request.error_detail if request.HasField("error_detail") else None
        _say(
            event="request",
            server=self._server,
            stream=self._number,
            type_url=request.type_url,
            version=request.version_info,
            nonce=request.response_nonce,
            names=list(request.resource_names),
            node=_node(request.node) if request.HasField("node") else None,
            error_detail=error and {"code": error.code, "message": error.message},
        )


def _node(node: Any) -> dict[str, object]:
    return {
        "id": node.id,
        "user_agent_name": node.user_agent_name,
        "user_agent_version": node.user_agent_version,
        "client_features": list(node.client_features),
    }


class _Server(grpc.GenericRpcHandler):
    """One port. Its streams are numbered from 1 over all restarts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._streams: list[_Stream] = []
        self._port = 0
        self.listen()

    def listen(self) -> None:
        self._server = grpc.server(futures.ThreadPoolExecutor(_STREAMS), handlers=(self,))
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        self._server.start()
        _say(event="listening", server=self._name, port=self._port)

    def shut(self) -> None:
        self._server.stop(None).wait()
        _say(event="shut", server=self._name)

    def newest(self) -> _Stream:
        return self._streams[-1]

    def _take_load(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        wanted = lrs_pb2.LoadStatsResponse(send_all_clusters=True)
        wanted.load_reporting_interval.seconds = 1
        for number, bytes_of_request in enumerate(requests):
            request = lrs_pb2.LoadStatsRequest.FromString(bytes_of_request)
            _say(
                event="load",
                server=self._name,
                node=_node(request.node) if request.HasField("node") else None,
                clusters=[
                    json_format.MessageToDict(stats, preserving_proto_field_name=True)
                    for stats in request.cluster_stats
                ],
            )
            if number == 0:
                yield wanted.SerializeToString()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method == _LOAD_METHOD:
            return grpc.stream_stream_rpc_method_handler(self._take_load)
        if details.method != _METHOD:
            return None
        stream = _Stream(self._name, len(self._streams) + 1)
        self._streams.append(stream)
        return grpc.stream_stream_rpc_method_handler(stream.run)


class _Servers:
    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}

    def listen(self, server: str) -> None:
        if server in self._servers:
            self._servers[server].listen()
        else:
            self._servers[server] = _Server(server)

    def shut(self, server: str) -> None:
        self._servers[server].shut()

    def respond(
        self, server: str, type_url: str, version: str, nonce: str, resources: list[dict[str, Any]]
    ) -> None:
        response = discovery_pb2.DiscoveryResponse(
            version_info=version,
            type_url=type_url,
            nonce=nonce,
            resources=[_resource(resource) for resource in resources],
        )
        self._servers[server].newest().put(response.SerializeToString(deterministic=True))

    def send(self, server: str, frame: str) -> None:
        self._servers[server].newest().put(base64.b64decode(frame))

    def close(self, server: str, code: str) -> None:
        self._servers[server].newest().put(grpc.StatusCode[code])


def _resource(resource: dict[str, Any]) -> any_pb2.Any:
    if "base64" in resource:
        return any_pb2.Any(type_url=resource["type_url"], value=base64.b64decode(resource["base64"]))
    return json_format.ParseDict(resource, any_pb2.Any())


def main() -> None:
    servers = _Servers()
    _say(event="ready")
    for line in sys.stdin:
        words = json.loads(line)
        getattr(servers, words.pop("command"))(**words)
    # Not a normal end: open calls would hold it up.
    os._exit(0)


if __name__ == "__main__":
    main()
