"""gRPC C-core as a channel that makes calls, and the backends that it may reach.

Runs in the virtual environment of `requirements-grpc.txt`. It starts backends that answer every call with
their own port. Metadata `fail: CODE N` makes the first N attempts of a call fail with a status instead, and
`broken: PORT` all those that reach this port. `loads: PORT=UTILIZATION ...` makes backends report their load, and
`metrics: NAME=VALUE ...` named metrics, with a utilization of the CPU of 0.25. The
program obeys JSON commands on standard input:

    {"command": "open", "servers": ["127.0.0.1:PORT", ...], "node": ID, "providers": {NAME: FILES, ...}}
    {"command": "secure", "certificate": FILE, "key": FILE, "clients": FILE or null}
                                        one more backend, which speaks TLS and, if it is said whose certificates
                                        clients may have, wants one of those -> {"event": "secured", "port": N}
    {"command": "load", "utilizations": [N, ...]}           of the backends, which report it on streams (ORCA)
    {"command": "close"}                                    the channel, and with it all subscriptions
    {"command": "calls", "calls": [{"path": PATH, "metadata": [[NAME, VALUE], ...]}, ...]}
                                        -> {"event": "calls", "outcomes": [{"port": N} or {"code": N}, ...]}
                                        with "cookie": TEXT if the response sets one

It ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from xds.data.orca.v3 import orca_load_report_pb2

# Python that is isolated does not search the directory of the program.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from channel import open_channel, say  # noqa: E402

# Further commands without arguments, by name.
COMMANDS: dict[str, Callable[[], None]] = {}
_BACKENDS = 5
_CODES = {code.value[0]: code for code in grpc.StatusCode}
# A service of load reports, and its pause between two.
_REPORTS = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"
_REPORT_INTERVAL = 0.2
# How long a call may take that is not answered.
_PATIENCE = 5.0


class _Backend(grpc.GenericRpcHandler):
    """Answers every method of every service with its port, or as the metadata of the call says."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))
        if credentials is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()
        self.utilization = 0.0

    def _reports(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        while context.is_active():
            yield _report(self.utilization)
            time.sleep(_REPORT_INTERVAL)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if handler_call_details.method == _REPORTS:
            return grpc.unary_stream_rpc_method_handler(self._reports)
        metadata = dict(handler_call_details.invocation_metadata)
        code, failing = map(int, metadata.get("fail", "0 0").split())
        metrics = dict(metric.split("=") for metric in metadata.get("metrics", "").split())
        loads = dict(load.split("=") for load in metadata.get("loads", "").split())

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            if int(metadata.get("grpc-previous-rpc-attempts", "0")) < failing:
                context.abort(_CODES[code], "as the call says")
            if metadata.get("broken") == str(self.port):
                context.abort(grpc.StatusCode.UNAVAILABLE, "broken, as the call says")
            if str(self.port) in loads:
                context.set_trailing_metadata((("endpoint-load-metrics-bin", _report(float(loads[str(self.port)]))),))
            if metrics:
                named = {name: float(value) for name, value in metrics.items()}
                report = orca_load_report_pb2.OrcaLoadReport(cpu_utilization=0.25, named_metrics=named)
                context.set_trailing_metadata((("endpoint-load-metrics-bin", report.SerializeToString()),))
            return str(self.port).encode()

        return grpc.unary_unary_rpc_method_handler(answer)


def _report(utilization: float) -> bytes:
    """An `OrcaLoadReport` of 100 requests a second: its fields `cpu_utilization` and `rps_fractional`."""
    return struct.pack("<BdBd", 0x09, utilization, 0x31, 100.0)


def _secured(certificate: str, key: str, clients: str | None) -> _Backend:
    own = [(Path(key).read_bytes(), Path(certificate).read_bytes())]
    roots = Path(clients).read_bytes() if clients else None
    return _Backend(grpc.ssl_server_credentials(own, roots, require_client_auth=clients is not None))


def _outcome(channel: grpc.Channel, path: str, metadata: list[list[str]]) -> dict[str, Any]:
    try:
        pairs = [(name, value) for name, value in metadata]
        answer, call = channel.unary_unary(path).with_call(b"", timeout=_PATIENCE, metadata=pairs)
        return {"port": int(answer), **_cookie(call.initial_metadata())}
    except grpc.RpcError as error:
        # A response that consists of trailers has its headers there.
        return {"code": error.code().value[0], **_cookie(error.trailing_metadata())}


def _cookie(metadata: Any) -> dict[str, str]:
    found = [value for name, value in metadata or () if name == "set-cookie"]
    return {"cookie": ", ".join(found)} if found else {}


def main() -> None:
    backends = [_Backend() for _ in range(_BACKENDS)]
    channel: grpc.Channel | None = None
    say(event="ready", version=grpc.__version__, backends=[backend.port for backend in backends])
    for line in sys.stdin:
        words = json.loads(line)
        if words["command"] == "open":
            channel = open_channel(words["servers"], words["node"], words["providers"])
            continue
        if words["command"] == "load":
            for backend, utilization in zip(backends, words["utilizations"], strict=False):
                backend.utilization = utilization
            continue
        if words["command"] == "secure":
            backends.append(_secured(words["certificate"], words["key"], words["clients"]))
            say(event="secured", port=backends[-1].port)
            continue
        if words["command"] in COMMANDS:
            COMMANDS[words["command"]]()
            continue
        assert channel is not None
        if words["command"] == "close":
            channel.close()
        else:
            outcomes = [_outcome(channel, call["path"], call["metadata"]) for call in words["calls"]]
            say(event="calls", outcomes=outcomes)
    # Not a normal end: C-core's threads may hold that up for seconds.
    os._exit(0)


if __name__ == "__main__":
    main()
