"""Listeners of servers, and routes for them, that both reject or both accept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.checks import Scenario
from driver.processes import Argv
from driver.serving.peers import Caller, Served
from driver.serving.resources import (
    ANY,
    Resource,
    authenticated,
    chain,
    exact,
    header,
    host,
    listener,
    override,
    policy,
    prefix,
    rbac,
    route,
    routes,
    tls,
    url,
)
from driver.serving.sides import Side
from driver.serving.tables import OK, REFUSED, UNAVAILABLE
from driver.waiting import INTERVAL

# A listener that has been accepted is in use soon afterwards.
_PATIENCE = 3.0


@dataclass(frozen=True)
class _Case:
    about: str
    resources: tuple[Resource, ...]
    is_rejected: bool = True
    type_name: str = "lds"
    # Those who judge otherwise, and why.
    differs: tuple[Side, ...] = ()
    why: str = ""


def _rules(about: str, rules: Resource, **fields: Any) -> _Case:
    return _Case(f"RBAC: {about}", (listener(chain(filters=(rbac("ALLOW", rules),))),), **fields)


def _tls(about: str, context: Resource, **fields: Any) -> _Case:
    return _Case(f"TLS: {about}", (listener(chain(tls=context)),), **fields)


def _chains(about: str, *chains: Resource, **fields: Any) -> _Case:
    return _Case(about, (listener(*chains),), **fields)


_CONSTRAINT = "C-core takes it as one that nothing fulfils; ours keeps to the constraint of the API"
# It is set, and that is enough.
_CEL: Resource = {}
_TWO_FILTERS = {"filters": chain()["filters"] * 2}


def _cases() -> tuple[_Case, ...]:
    same = {"source_prefix_ranges": [prefix("10.0.0.0", 8)]}
    named = {"exact": "client"}
    return (
        _rules("a header of gRPC", policy(header("grpc-timeout", present_match=True))),
        _rules("a principal's header of gRPC", policy(ANY, header("grpc-timeout", present_match=True))),
        _rules("the header :scheme", policy(exact(":scheme", "http"))),
        _rules("the header :path", policy(exact(":path", "/")), is_rejected=False),
        _rules(
            "a header of gRPC within another rule",
            policy({"not_rule": {"and_rules": {"rules": [exact("grpc-a", "1")]}}}),
        ),
        _rules("a condition", policy(condition=_CEL)),
        _rules("no permissions", {"permissions": [], "principals": [ANY]}, differs=(Side.CORE,), why=_CONSTRAINT),
        _rules("no principals", {"permissions": [ANY], "principals": []}, differs=(Side.CORE,), why=_CONSTRAINT),
        _rules("a permission without a rule", policy({})),
        _rules("a principal without a rule", policy(ANY, {})),
        _rules("an expression that is none", policy(url(safe_regex={"regex": "("}))),
        _rules(
            "an address that is none",
            policy({"destination_ip": prefix("10.0.0", 8)}),
            differs=(Side.CORE,),
            why="C-core takes it as one that no address is in",
        ),
        _rules(
            "a range of ports",
            policy({"destination_port_range": {"start": 1, "end": 2}}),
            differs=(Side.OURS,),
            why="ours supports them, as Envoy",
        ),
        _rules("the name of nobody", policy(ANY, authenticated(exact="")), is_rejected=False),
        _rules(
            "no rules in a conjunction", policy({"and_rules": {"rules": []}}), differs=(Side.CORE,), why=_CONSTRAINT
        ),
        _Case("RBAC: an action that is none", (listener(chain(filters=(rbac(7, policy()),))),)),  # type: ignore[arg-type]
        _Case("RBAC: rules that only log", (listener(chain(filters=(rbac("LOG", policy()),))),), is_rejected=False),
        _Case(
            "RBAC: a condition of a route's rules",
            (
                listener(chain(rds="$ROW")),
                routes(host(route(overrides=override(rbac("DENY", policy(condition=_CEL)))))),
            ),
            type_name="rds",
        ),
        _tls("a certificate", tls(), is_rejected=False),
        _tls("no certificate", tls(None)),
        _tls("an instance that the bootstrap does not have", tls("unknown")),
        _tls("roots that the bootstrap does not have", tls(roots="unknown")),
        _tls("a required certificate without roots", tls(requires=True)),
        _tls("a required certificate", tls(roots="roots", requires=True), is_rejected=False),
        _tls("names of clients", tls(roots="roots", requires=True, match_subject_alt_names=[named])),
        _tls(
            "names of clients with types",
            tls(roots="roots", match_typed_subject_alt_names=[{"san_type": "URI", "matcher": named}]),
            is_rejected=False,
        ),
        _tls("a server name that is required", {**tls(), "require_sni": True}),
        _tls("stapling", {**tls(), "ocsp_staple_policy": "MUST_STAPLE"}),
        _tls("resumption", {**tls(), "session_ticket_keys": {"keys": [{"inline_string": "k"}]}}, is_rejected=False),
        _tls("roots of the system", _with_system_roots()),
        _chains("no filter chains"),
        _chains("a filter chain without filters", {"filters": []}),
        _chains("a filter chain with two managers", _TWO_FILTERS),
        _chains("two filter chains without a match", chain(), chain()),
        _chains("two filter chains with the same match", chain(match=same), chain(match=same)),
        _chains("a match with an address that is none", chain(match={"prefix_ranges": [prefix("10.0.0", 8)]})),
        _chains("proxies that are trusted", chain(xff_num_trusted_hops=1)),
        _chains(
            "detection of original addresses",
            chain(original_ip_detection_extensions=[{"name": "x", "typed_config": rbac(None)["typed_config"]}]),
        ),
        _chains("no HTTP filters", {"filters": [_without_filters()]}),
        _chains("the router before another filter", {"filters": [_backwards()]}),
        _Case(
            "filters of the listener",
            (listener(chain(), listener_filters=[{"name": "f"}]),),
            differs=(Side.CORE,),
            why="C-core ignores them; by gRFC A36, the listener is to be rejected",
        ),
        _Case("the original destination", (listener(chain(), use_original_dst=True),)),
        _Case("a listener without routes", (listener({"filters": [_without_routes()]}),)),
        _Case("a good listener", (listener(chain()),), is_rejected=False),
    )


def _manager(**fields: Any) -> Resource:
    made = chain()["filters"][0]
    return {**made, "typed_config": {**made["typed_config"], **fields}}


def _without_filters() -> Resource:
    return _manager(http_filters=[])


def _backwards() -> Resource:
    return _manager(http_filters=[*chain()["filters"][0]["typed_config"]["http_filters"], rbac(None)])


def _without_routes() -> Resource:
    made = chain()["filters"][0]
    config = {key: value for key, value in made["typed_config"].items() if key != "route_config"}
    return {**made, "typed_config": config}


def _with_system_roots() -> Resource:
    context = tls()
    context["common_tls_context"]["validation_context"] = {"system_root_certs": {}}
    return context


def play_rejections(scenario: Scenario, python: Path, commands: Mapping[Side, Argv]) -> None:
    """The servers are sent the listeners of all cases at once; the port of a listener that is accepted is open."""
    providers, cases, caller = _providers(scenario), _cases(), Caller(scenario, python, {})
    hosts = ["127.0.0.1"] * len(cases)
    servers = [Served(scenario, side, command, hosts, providers) for side, command in commands.items()]
    for server in servers:
        for number, case in enumerate(cases):
            server.put(number, f"case-{number}", *case.resources)
        server.start()
    for server in servers:
        with scenario.check(f"{server.side.value}: NACKs of listeners and routes"):
            all_of_them = lambda row: row.state == "NACKED" and row.subscribed == len(cases)  # noqa: E731
            server.management.wait_row("lds", "a NACK", all_of_them)
            server.management.wait_row("rds", "a NACK", lambda row: row.state == "NACKED")
    for number, case in enumerate(cases):
        judges = " and ".join(side.value for side in commands if side not in case.differs)
        title = f"{case.about}: {'rejected' if case.is_rejected else 'accepted'} by {judges}"
        wrong = [judged for server in servers if (judged := _wrong(case, server, number, caller))]
        if wrong:
            scenario.failed = True
            scenario.report.not_ok(title, "\n".join(wrong))
        else:
            scenario.report.ok(f"{title}: {case.why}" if case.why else title)


def _wrong(case: _Case, server: Served, number: int, caller: Caller) -> str | None:
    """What a server does with a case, if it is not what the table says."""
    rejected = UNAVAILABLE.outcome if case.type_name == "rds" else REFUSED
    expected = case.is_rejected is not (server.side in case.differs)
    deadline = time.monotonic() + _PATIENCE
    while ((found := caller.calls(server.ports[number], [OK])) == [rejected]) is not expected:
        if time.monotonic() >= deadline:
            return f"{server.side.value}: {found}"
        time.sleep(INTERVAL)
    return None


def _providers(scenario: Scenario) -> Mapping[str, Mapping[str, str]]:
    """Their files are never read: no connection is made."""
    nowhere = str(scenario.directory / "nowhere.pem")
    return {
        "server": {"certificate_file": nowhere, "private_key_file": nowhere},
        "roots": {"ca_certificate_file": nowhere},
    }
