"""A gRPC channel that is configured by xDS (C-core) calls servers that are, with certificates of both sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario
from driver.differential import resources
from driver.processes import Argv, EventProcess
from driver.serving.peers import Served
from driver.serving.resources import Resource, authenticated, chain, listener, policy, rbac, tls, url
from driver.serving.sides import Side
from driver.waiting import eventually, expect

_UPSTREAM = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
# By path: the method is not one of the service, which the call reaches; RBAC denies it; there is no connection.
_OUTCOMES = {"/named/m": 12, "/named/denied": 7, "/stranger/m": 14, "/plain/m": 14}


def play_meshed(
    scenario: Scenario,
    python: Path,
    commands: Mapping[Side, Argv],
    providers: Mapping[str, Mapping[str, str]],
) -> None:
    """Channels with clusters for each certificate of a client, and one for none."""
    uri = policy(url(suffix="/m"), authenticated(prefix="spiffe://"))
    served = listener(chain(filters=(rbac("ALLOW", uri),), tls=tls(roots="clients", requires=True)))
    for side, command in commands.items():
        server = Served(scenario, side, command, ["127.0.0.1"], providers)
        server.put(0, "server", served, *_channel(server.ports[0]))
        server.start()
        program = workspace.INTEROP / "grpc-python" / "caller.py"
        caller = scenario.spawn(EventProcess, f"channel-{side.value}", [python, "-I", "-B", program])
        address = server.management.address
        caller.tell(json.dumps({"command": "open", "servers": [address], "node": "channel", "providers": providers}))
        with scenario.check(f"{side.value}: calls of a channel with mutual TLS reach it, by RBAC and certificates"):
            eventually("the outcomes of calls", lambda caller=caller: _have_outcomes(caller))


def _have_outcomes(caller: EventProcess) -> bool:
    mark = len(caller.events)
    calls = [{"path": path, "metadata": []} for path in _OUTCOMES]
    caller.tell(json.dumps({"command": "calls", "calls": calls}))
    made = caller.wait_event("calls", lambda event: event["event"] == "calls", mark)["outcomes"]
    expect(made == [{"code": code} for code in _OUTCOMES.values()], str(made))
    return True


def _channel(port: int) -> list[Resource]:
    """The resources of the channel `xds:///svc`."""
    routes = [{"match": {"prefix": f"/{name}/"}, "route": {"cluster": name}} for name in ("named", "stranger", "plain")]
    hosts = {"name": "routes", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]}
    made = [resources.listener(), {**resources.routes("routes"), **hosts}]
    for name in ("named", "stranger", "plain"):
        made += [resources.cluster(name, **_security(name)), resources.endpoints(name, port)]
    return made


def _security(identity: str) -> dict[str, Any]:
    if identity == "plain":
        return {}
    validation = {
        "ca_certificate_provider_instance": {"instance_name": "roots"},
        "match_subject_alt_names": [{"exact": "server.example"}],
    }
    common = {
        "validation_context": validation,
        "tls_certificate_provider_instance": {"instance_name": identity},
    }
    config = {"@type": _UPSTREAM, "common_tls_context": common}
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": config}}
