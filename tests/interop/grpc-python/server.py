"""gRPC C-core as a server that is configured by xDS: `server.py ADDRESS...`, with the bootstrap of the environment.

Runs in the virtual environment of `requirements-grpc.txt`. At each address it serves two methods of the health
service, by hand. It ends when its standard input does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent import futures
from threading import Event

import grpc

# Python that is isolated does not search the directory of the program.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from channel import say  # noqa: E402

# A `HealthCheckResponse` that says `SERVING`.
_SERVING = b"\x08\x01"


class _Health(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        match handler_call_details.method:
            case "/grpc.health.v1.Health/Check":
                return grpc.unary_unary_rpc_method_handler(lambda request, context: _SERVING)
            case "/grpc.health.v1.Health/Watch":
                return grpc.unary_stream_rpc_method_handler(_watch)
        # C-core 1.85 ends the process (`pipe.h`) when a server with xDS rejects a method that it does not know.
        return grpc.unary_unary_rpc_method_handler(_refuse)


def _refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
    context.send_initial_metadata(())
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
    raise AssertionError


def _watch(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    ended = Event()
    context.add_callback(ended.set)
    yield _SERVING
    ended.wait()


def main() -> None:
    executor = futures.ThreadPoolExecutor(8)
    servers = []
    for address in sys.argv[1:]:
        server = grpc.server(executor, handlers=(_Health(),), xds=True)
        server.add_secure_port(address, grpc.xds_server_credentials(grpc.insecure_server_credentials()))
        server.start()
        servers.append(server)
    say(event="ready", version=grpc.__version__)
    sys.stdin.read()
    # Not a normal end: C-core's threads may hold that up for seconds.
    os._exit(0)


if __name__ == "__main__":
    main()
