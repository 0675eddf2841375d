"""Session affinity by cookies (A55, A60, A75): both clients send a session to the same backend, and set the same
cookie."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from driver.checks import Scenario
from driver.differential import resources
from driver.differential.stage import BOTH, Side, Stage
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

_FILTERS = "type.googleapis.com/envoy.extensions.filters.http"
_STATE = "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState"
_AGGREGATE = "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig"
_ROUTER = {"name": "router", "typed_config": {"@type": f"{_FILTERS}.router.v3.Router"}}
_TIMES = 10
_USABLE = ["UNKNOWN", "HEALTHY"]
# Clusters with two backends.
_WITH_TWO = ("kept", "lost", "healthy", "none")
_OUTLIERS = {
    "interval": "0.5s",
    "base_ejection_time": "600s",
    "max_ejection_time": "600s",
    "max_ejection_percent": 20,
    "enforcing_success_rate": 0,
    "enforcing_failure_percentage": 100,
    "failure_percentage_threshold": 50,
    "failure_percentage_minimum_hosts": 5,
    "failure_percentage_request_volume": 5,
}

Outcome = dict[str, Any]


@dataclass(frozen=True)
class _Case:
    """Calls with a cookie, and the backends that answer them."""

    about: str
    path: str
    # Headers named `cookie`.
    cookies: tuple[str, ...] = ()
    # Why the clients send these calls elsewhere, or set different cookies.
    explained: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()


def _session(name: str = "k", **cookie: Any) -> dict[str, Any]:
    state = {"@type": _STATE, "cookie": {"name": name, **cookie}}
    return {"session_state": {"name": "cookie", "typed_config": state}}


def _override(**config: Any) -> dict[str, Any]:
    return {"sessions": {"@type": f"{_FILTERS}.stateful_session.v3.StatefulSessionPerRoute", **config}}


def _replaced(**cookie: Any) -> dict[str, Any]:
    return _override(stateful_session=_session(**cookie))


def _route(prefix: str, cluster: str, override: dict[str, Any] | None = None) -> dict[str, Any]:
    route: dict[str, Any] = {"match": {"prefix": prefix}, "route": {"cluster": cluster}}
    if override is not None:
        route["typed_per_filter_config"] = override
    return route


def _routes() -> list[dict[str, Any]]:
    """By the beginning of the path, with overrides of the filter."""
    weighted = {"clusters": [{"name": "one", "weight": 1}, {"name": "two", "weight": 1}]}
    named = {"name": "one", "weight": 1, "typed_per_filter_config": _replaced(name="weighted")}
    retried = {"retry_on": "unavailable", "num_retries": 2}
    return [
        _route("/many/", "many"),
        _route("/one/", "one"),
        _route("/path/", "one", _replaced(path="/path")),
        _route("/exact/", "one", _replaced(path="/exact/m")),
        _route("/slash/", "one", _replaced(path="/slash/")),
        _route("/elsewhere/", "one", _replaced(path="/else")),
        _route("/root/", "one", _replaced(path="/", ttl="120s")),
        _route("/short/", "one", _replaced(ttl="0.5s")),
        _route("/shortest/", "one", _replaced(ttl="0.000001s")),
        _route("/name/", "one", _replaced(name="other")),
        _route("/off/", "one", _override(disabled=True)),
        _route("/on/", "one", _override(disabled=False)),
        _route("/empty/", "one", _override()),
        _route("/stateless/", "one", _override(stateful_session={})),
        {"match": {"prefix": "/weighted/"}, "route": {"weighted_clusters": weighted}},
        {"match": {"prefix": "/named/"}, "route": {"weighted_clusters": {"clusters": [named]}}},
        {"match": {"prefix": "/retried/"}, "route": {"cluster": "many", "retry_policy": retried}},
        *(_route(f"/{name}/", name) for name in (*_WITH_TWO, "lower", "twice", "ejecting", "all")),
    ]


def _encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _cookie(port: int, cluster: str | None, name: str = "k") -> str:
    value = f"127.0.0.1:{port}" + ("" if cluster is None else f";{cluster}")
    return f"{name}={_encoded(value)}"


def play_sessions(scenario: Scenario, stage: Stage) -> None:
    """First the sessions begin; then each case is a cookie, with which both make the same calls."""
    with scenario.check("both clients take a filter for sessions"):
        _serve(stage)
    with scenario.check("a call without cookie begins a session at the backend that has answered"):
        _begin(stage)
    for case in _cases(stage.backends):
        calls = [{"path": f"{case.path}/m", "metadata": _metadata(case)}] * _TIMES
        ours, core = (_settled(stage, side, calls) for side in (Side.OURS, Side.CORE))
        title = f"{case.about}: {_told(ours)}"
        if case.explained is not None:
            title += f", but C-core {_told(core)}: {case.explained}"
        with scenario.check(title):
            expect((ours == core) == (case.explained is None), f"ours {ours}, C-core {core}")
    _change(stage, scenario)
    _eject(stage, scenario)


def _change(stage: Stage, scenario: Scenario) -> None:
    """The backend of a session drains and is removed, in a cluster that allows draining ones and in another one."""
    first, second, *_ = stage.backends
    for name in ("kept", "lost"):
        for about, ports, status in (
            ("healthy", [first, second], "HEALTHY"),
            ("draining", [first, second], "DRAINING"),
            ("removed", [first], "HEALTHY"),
            ("back", [first, second], "UNKNOWN"),
        ):
            made = _endpoints(stage.backends)
            made[name] = resources.localities(name, [(0, 1, ports)])
            made[name]["endpoints"][0]["lb_endpoints"][-1]["health_status"] = status
            stage.respond("eds", f"{name}: {about}", *made.values())
            new = [{"path": f"/{name}/m", "metadata": []}] * _TIMES
            open_to = {first} if status == "DRAINING" else set(ports)
            for side in BOTH:
                eventually(
                    f"{side.value} uses the change",
                    lambda side=side: {it.get("port") for it in stage.calls(side, new)} == open_to,
                )
            calls = [{"path": f"/{name}/m", "metadata": [["cookie", _cookie(second, name)]]}] * _TIMES
            ours, core = (_settled(stage, side, calls) for side in (Side.OURS, Side.CORE))
            with scenario.check(f"a backend of the cluster `{name}` is {about}: its session has {_told(ours)}"):
                expect(ours == core, f"ours {ours}, C-core {core}")


def _eject(stage: Stage, scenario: Scenario) -> None:
    """The backend of a session is ejected because calls to it fail."""
    name, second = "ejecting", stage.backends[1]
    broken = [{"path": f"/{name}/m", "metadata": [["broken", str(second)]]}] * 100
    for side in BOTH:
        # Calls without session do not fail any more.
        eventually(
            f"{side.value} ejects a backend",
            lambda side=side: all("port" in it for it in stage.calls(side, broken)),
        )
    calls = [{"path": f"/{name}/m", "metadata": [["cookie", _cookie(second, name)]]}] * _TIMES
    ours, core = (_settled(stage, side, calls) for side in (Side.OURS, Side.CORE))
    with scenario.check(f"an ejected backend: its session has {_told(ours)}"):
        expect(ours == core, f"ours {ours}, C-core {core}")


def _metadata(case: _Case) -> list[list[str]]:
    return [*(["cookie", value] for value in case.cookies), *(list(pair) for pair in case.metadata)]


def _settled(stage: Stage, side: Side, calls: Sequence[Outcome]) -> list[Outcome]:
    """What becomes of calls, as a set: the first one may have waited for a connection."""
    found: list[Outcome] = []
    for outcome in stage.calls(side, calls):
        if outcome not in found:
            found.append(outcome)
    return sorted(found, key=str)


def _told(outcomes: Sequence[Outcome]) -> str:
    """What becomes of calls, without the numbers of ports."""
    sets = any("cookie" in outcome for outcome in outcomes)
    codes = sorted({outcome["code"] for outcome in outcomes if "code" in outcome})
    backends = len({outcome["port"] for outcome in outcomes if "port" in outcome})
    what = [f"{backends} of the backends"] if backends else []
    what += [f"status {code}" for code in codes]
    return " and ".join(what) + (", which sets a cookie" if sets else "")


def _begin(stage: Stage) -> None:
    """Of a cluster with three backends, without cookies. The cookie leads to the backend that has set it."""
    wanted = set(stage.backends[:3])
    calls = [{"path": "/many/m", "metadata": []}] * 60
    for side in BOTH:
        eventually(
            "all backends answer", lambda side=side: {it.get("port") for it in stage.calls(side, calls)} == wanted
        )
        for outcome in stage.calls(side, calls):
            port = outcome["port"]
            expected = f"{_cookie(port, 'many')}; HttpOnly"
            expect(outcome == {"port": port, "cookie": expected}, f"{side.value}: {outcome} instead of {expected}")
        for port in wanted:
            again = [{"path": "/many/m", "metadata": [["cookie", _cookie(port, "many")]]}] * _TIMES
            found = stage.calls(side, again)
            expect(found == [{"port": port}] * _TIMES, f"{side.value}: {found} instead of {port}")


def _cases(ports: Sequence[int]) -> list[_Case]:
    first, second, third, fourth, _ = ports
    good, unknown = _cookie(first, "one"), _cookie(second, "healthy")
    fails, broken = (("fail", "5 9"),), (("broken", str(second)),)
    bare = _encoded(f"127.0.0.1:{first};one").rstrip("=")
    listed = f"127.0.0.1:1,127.0.0.1:{second},text;many"
    joined = "it joins several headers with a comma, and finds no cookie behind or before one"
    return [
        *(_Case(f"the session of {port}", "/many", (_cookie(port, "many"),)) for port in (first, second, third)),
        _Case("a cookie without a cluster", "/one", (_cookie(first, None),)),
        _Case("a cookie with another cluster", "/one", (_cookie(first, "two"),)),
        _Case("an unknown address", "/one", (_cookie(1, "one"),)),
        _Case("an address of another cluster", "/one", (_cookie(fourth, "one"),)),
        _Case("no address", "/one", (f"k={_encoded(';one')}",)),
        _Case("a text for an address", "/one", (f"k={_encoded('text;one')}",)),
        _Case("a list with unknown addresses", "/many", (f"k={_encoded(listed)}",)),
        _Case("a name for an address", "/one", (f"k={_encoded(f'localhost:{first};one')}",)),
        _Case("no base64", "/one", ("k=*",)),
        _Case("base64 without padding", "/one", (f"k={bare}",)),
        _Case("an empty cookie", "/one", ("k=",)),
        _Case("a cookie without value", "/one", ("k",)),
        _Case("a name in capitals", "/one", (good.replace("k=", "K="),)),
        _Case("the second of several cookies", "/one", (f"a=b; {good}; c=d",)),
        _Case("the first of two with the name", "/many", (f"{_cookie(second, 'many')}; {_cookie(third, 'many')}",)),
        _Case("the second with the name, after one that is not read", "/one", (f"k=*; {good}",)),
        _Case(
            "a cookie after a semicolon without space",
            "/one",
            (f"a=b;{good}",),
            "it splits cookies at a semicolon with a space",
        ),
        _Case("a cookie in the second header", "/one", ("a=b", good), joined),
        _Case("a cookie in the first header", "/one", (good, "a=b"), joined),
        _Case("a path that matches", "/path", (good,)),
        _Case("a path that matches, at first", "/path"),
        _Case("the path of the cookie", "/exact"),
        _Case("a path that ends in a slash", "/slash"),
        _Case("a path that does not match", "/elsewhere"),
        _Case("a path that does not match, with a cookie", "/elsewhere", (good,)),
        _Case("all paths, and a lifetime", "/root"),
        _Case("a lifetime below a second", "/short"),
        _Case("a lifetime below a millisecond", "/shortest"),
        _Case("another name of the cookie", "/name", (good,)),
        _Case("another name of the cookie, which is sent", "/name", (_cookie(first, "one", "other"),)),
        _Case("a route that disables sessions", "/off", (good,)),
        _Case("a route that does not disable them, and has no state", "/on"),
        _Case("an override without contents", "/empty"),
        _Case("an override without state", "/stateless"),
        _Case("the first of two clusters by weight", "/weighted", (good,)),
        _Case("the second of two clusters by weight", "/weighted", (_cookie(second, "two"),)),
        _Case("a cluster with an address of the other one", "/weighted", (_cookie(second, "one"),)),
        _Case("an override of the chosen cluster", "/named"),
        _Case("a draining backend, if the cluster allows it", "/kept", (_cookie(second, "kept"),)),
        _Case("no cookie, with a draining backend", "/kept"),
        _Case("a draining backend, if the cluster does not allow it", "/lost", (_cookie(second, "lost"),)),
        _Case("a backend of unknown health, if only healthy ones are allowed", "/healthy", (unknown,)),
        _Case("a healthy backend", "/healthy", (_cookie(first, "healthy"),)),
        _Case("a backend, if none are allowed", "/none", (_cookie(first, "none"),)),
        _Case("a backend of a lower priority", "/lower", (_cookie(second, "lower"),)),
        _Case("the backend of the first priority", "/lower", (_cookie(first, "lower"),)),
        _Case("a backend with a second address", "/twice", (_cookie(third, "twice"),)),
        _Case("a backend with a second address, at first", "/twice"),
        _Case("an aggregate cluster", "/all", (_cookie(first, "all"),)),
        _Case("the second member of an aggregate cluster", "/all", (_cookie(second, "all"),)),
        _Case("the name of a member", "/all", (_cookie(first, "one"),)),
        _Case("a failed call of trailers only", "/one", (_cookie(first, None),), metadata=fails),
        _Case("a failed call with a correct cookie", "/one", (good,), metadata=fails),
        _Case("a repeated call", "/retried", (_cookie(second, "many"),), metadata=(("fail", "14 2"),)),
        _Case("a repeated call whose backend is broken", "/retried", (_cookie(second, "many"),), metadata=broken),
    ]


def _serve(stage: Stage) -> None:
    stage.open()
    config = {"@type": f"{_FILTERS}.stateful_session.v3.StatefulSession", **_session()}
    filters = [{"name": "sessions", "typed_config": config}, _ROUTER]
    stage.respond("lds", "1", resources.listener(http_filters=filters))
    stage.want(rds=["routes"])
    hosts = [{"name": "all", "domains": ["*"], "routes": _routes()}]
    stage.respond("rds", "1", {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": hosts})
    clusters = _clusters()
    endpoints = _endpoints(stage.backends)
    stage.want(cds=sorted(clusters))
    stage.respond("cds", "1", *clusters.values())
    stage.want(eds=sorted(endpoints))
    stage.respond("eds", "1", *endpoints.values())
    for side in BOTH:
        for type_name in ("lds", "rds", "cds", "eds"):
            rejected = stage.rejection(side, type_name)
            expect(rejected is None, f"{side.value}: {rejected}")
    stage.follow()


def _clusters() -> dict[str, dict[str, Any]]:
    def allowing(*statuses: str) -> dict[str, Any]:
        return {"common_lb_config": {"override_host_status": {"statuses": list(statuses)}}}

    fields: dict[str, dict[str, Any]] = {
        "many": {},
        "one": {},
        "two": {},
        "kept": allowing(*_USABLE, "DRAINING", "DEGRADED"),
        "lost": {},
        "healthy": allowing("HEALTHY"),
        "none": allowing(),
        "lower": {},
        "twice": {},
        "ejecting": {"outlier_detection": _OUTLIERS},
    }
    clusters = {name: resources.cluster(name, **rest) for name, rest in fields.items()}
    members = {"@type": _AGGREGATE, "clusters": ["one", "two"]}
    aggregate = {"name": "envoy.clusters.aggregate", "typed_config": members}
    clusters["all"] = {"@type": TYPE_URLS["cds"], "name": "all", "cluster_type": aggregate}
    return clusters


def _endpoints(ports: Sequence[int]) -> dict[str, dict[str, Any]]:
    """The clusters with one usable backend have the first one."""
    first, second, third, *_ = ports
    made = {
        "many": resources.localities("many", [(0, 1, [first, second, third])]),
        "one": resources.endpoints("one", first),
        "two": resources.endpoints("two", second),
        **{name: resources.localities(name, [(0, 1, [first, second])]) for name in _WITH_TWO},
        "ejecting": resources.localities("ejecting", [(0, 1, ports)]),
        "lower": resources.localities("lower", [(0, 1, [first]), (1, 1, [second])]),
        "twice": resources.endpoints("twice", resources.closed_port()),
    }

    def endpoint(name: str, index: int) -> dict[str, Any]:
        found: dict[str, Any] = made[name]["endpoints"][0]["lb_endpoints"][index]
        return found

    for name in ("kept", "lost"):
        endpoint(name, 1)["health_status"] = "DRAINING"
    endpoint("healthy", 0)["health_status"] = "HEALTHY"
    address = {"socket_address": {"address": "127.0.0.1", "port_value": third}}
    endpoint("twice", 0)["endpoint"]["additional_addresses"] = [{"address": address}]
    return made
