"""Checks with istiod as the management server of `xds watch`, as a proxy, and of `xds-channel`, as a proxyless application."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from driver import go_programs, workspace
from driver.checks import PeerReport, Scenario, play
from driver.config_dir import ConfigDir
from driver.control_plane import APISERVER, ETCD, ISTIOD
from driver.envoy_world import Variant, envoy_program
from driver.istio_nodes import APPLICATION, GATEWAY, SIDECAR, agent_secrets, grpc_bootstrap, proxy_bootstrap
from driver.istio_world import Istiod, Json, Kubernetes, Programs, mesh_config
from driver.processes import Argv, Event, EventProcess
from driver.routing.compare import Outcome, expect_shares, told
from driver.waiting import SILENCE, eventually, expect, settled
from driver.xds import TYPE_URLS, XdsServe, XdsWatch

NAME = "istio"

# Seconds that all scenarios take on two busy cores.
_RESERVE = 180.0
_PATIENCE = 60.0

_CALLS = 1000

_RATINGS = "outbound|80||ratings.shop.svc.cluster.local"
_CATALOG = "outbound|80||catalog.shop.svc.cluster.local"
_SERVICES = "/api/v1/namespaces/shop/services"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"

# Texts in the resources of a node, one or more for each kind of configuration that istiod has.
_EXPECTED = {
    SIDECAR: (
        # VirtualService
        "weighted_clusters",
        "request_mirror_policies",
        "fixed_delay",
        "allow_origin_string_match",
        "retry_policy",
        "regex_rewrite",
        "prefix_rewrite",
        "redirect",
        "direct_response",
        "invert_match",
        "query_parameters",
        "request_headers_to_add",
        # DestinationRule
        "hash_policy",
        "outlier_detection",
        "ring_hash",
        "maglev",
        "slow_start",
        "tunneling_config",
        "transport_socket_matches",
        "max_connection_duration",
        "ProxyProtocolUpstreamTransport",
        # ServiceEntry and Sidecar
        "STRICT_DNS",
        "ORIGINAL_DST",
        "MongoProxy",
        "MySQLProxy",
        "RedisProxy",
        "pipe",
        "locality_weighted",
        # Security
        "RBAC",
        "UriTemplateMatchConfig",
        "jwt_authn",
        "ext_authz",
        "require_client_certificate",
        # Telemetry and extensions
        "OpenTelemetryConfig",
        "ExpressionFilter",
        "TypedStruct",
        "config_discovery",
        "wasm.v3.Wasm",
        "lua.v3.Lua",
        # EnvoyFilter
        "rate_limits",
        "added.example",
    ),
    GATEWAY: (
        "require_client_certificate",
        "require_tls",
        "hash_policy",
        "kubernetes://shop-certificate",
        "file-cert:/etc/certs/cert.pem",
        "pass.shop.example",
        "ext_authz",
    ),
}


def run(report: PeerReport, run_dir: Path) -> None:
    """Builds the programs unless they are cached, and plays the scenarios."""
    python, _ = envoy_program()
    grpc = workspace.virtual_environment("grpc")
    xds, client = workspace.xds_binary(), workspace.example("interop-client")
    etcd, apiserver, istiod = ETCD.path(_RESERVE), APISERVER.path(_RESERVE), ISTIOD.path(_RESERVE)
    go_programs.require_time(_RESERVE)
    programs = Programs(etcd=etcd, apiserver=apiserver, python=python, istiod=istiod, xds=xds)
    versions = {
        "istiod": ISTIOD.version(programs.istiod).split("-")[1][:8],
        "Kubernetes": APISERVER.version(programs.apiserver),
        "etcd": ETCD.version(programs.etcd),
    }
    report.version = ", ".join(f"{name} {version}" for name, version in versions.items())
    peer = _Peer(programs, grpc, client)
    play(
        report,
        run_dir,
        {
            "istiod: xds watch as a sidecar": peer.sidecar,
            "istiod, incremental: xds watch as a sidecar": peer.sidecar_delta,
            "istiod: xds watch with the configuration of Istio's own tests": peer.own_configuration,
            "istiod: calls of a proxyless application through xds-channel": peer.proxyless,
        },
    )


class _Peer:
    def __init__(self, programs: Programs, grpc: Path, client: Path) -> None:
        self._programs = programs
        self._grpc = grpc
        self._client = client

    def sidecar(self, scenario: Scenario) -> None:
        self._follow(scenario, Variant.STATE_OF_THE_WORLD)

    def sidecar_delta(self, scenario: Scenario) -> None:
        self._follow(scenario, Variant.INCREMENTAL)

    def _follow(self, scenario: Scenario, variant: Variant) -> None:
        config = ConfigDir(
            scenario.directory / "config",
            workspace.CONFIG / "istio" / "sidecar",
            {"ratings": _endpoints("10.2.2.1", "10.2.2.2")},
        )
        config.fill()
        kubernetes, istiod = self._control_plane(scenario, config.path)
        _create_catalog(kubernetes, "10.3.0.1")
        secrets = self._secrets(scenario)
        watches = {node: self._watch(scenario, variant, node, istiod, secrets) for node in (SIDECAR, GATEWAY)}
        sidecar = watches[SIDECAR]

        with scenario.check(
            "a sidecar and a gateway receive all resources that are referred to, with traces of every kind of configuration"
        ):
            for node, expected in _EXPECTED.items():
                eventually(f"everything for {node}", lambda e=expected, n=node: _shows(watches[n], e), _PATIENCE)
        _check_accepted(scenario, istiod, watches, "everything")

        for title, name, addresses, edit in (
            (
                "an endpoint that is added in a file arrives",
                _RATINGS,
                {"10.2.2.1", "10.2.2.2", "10.2.2.3"},
                lambda: _rename(config, _endpoints("10.2.2.1", "10.2.2.2", "10.2.2.3")),
            ),
            (
                "endpoints that are removed from a file disappear",
                _RATINGS,
                {"10.2.2.3"},
                lambda: _rename(config, _endpoints("10.2.2.3")),
            ),
            (
                "an EndpointSlice of Kubernetes that changes arrives",
                _CATALOG,
                {"10.3.0.1", "10.3.0.2"},
                lambda: kubernetes.replace(f"{_SLICES}/catalog-1", _slice("10.3.0.1", "10.3.0.2")),
            ),
            (
                "a deleted EndpointSlice leaves a cluster without endpoints",
                _CATALOG,
                set(),
                lambda: kubernetes.delete(f"{_SLICES}/catalog-1"),
            ),
        ):
            with scenario.check(f"{title}, and nothing else"):
                _expect_endpoints(watches, name, addresses, edit)
        before = sidecar.mark()
        with scenario.check("the cluster of a deleted Kubernetes service is removed"):
            kubernetes.delete(f"{_SERVICES}/catalog")
            eventually("its end", lambda: _is_removed(sidecar, before, "cds", _CATALOG), _PATIENCE)
        _check_accepted(scenario, istiod, watches, "after these changes")

        before = sidecar.mark()
        istiod.kill()
        istiod.start()
        with scenario.check("istiod is killed and restarted: the clients reconnect, and no resource is removed"):
            _wait_synced(istiod, watches)
            settled("what xds watch prints", sidecar.mark, SILENCE)
            removed = [event for event in sidecar.events[before:] if event["event"] == "removed"]
            expect(not removed, f"{removed}")
        _check_accepted(scenario, istiod, watches, "everything after the restart")
        with scenario.check("xds watch ends with exit code 0 when interrupted"):
            for watch in watches.values():
                watch.stop_cleanly()

    def own_configuration(self, scenario: Scenario) -> None:
        source = go_programs.module_directory(ISTIOD.requirements, ISTIOD.module) / "tests" / "testdata" / "config"
        config = scenario.directory / "config"
        config.mkdir()
        for file in sorted(source.glob("*.yaml")):
            shutil.copyfile(file, config / file.name)
        _, istiod = self._control_plane(scenario, config)
        secrets = self._secrets(scenario)
        for variant in (Variant.STATE_OF_THE_WORLD, Variant.INCREMENTAL):
            watches = {node: self._watch(scenario, variant, node, istiod, secrets) for node in (SIDECAR, GATEWAY)}
            title = f"{len(list(config.iterdir()))} files, as {variant.value}"
            with scenario.check(f"{title}: both nodes receive resources of every type"):
                for watch in watches.values():
                    eventually("resources", lambda w=watch: _types(w) >= set(TYPE_URLS), _PATIENCE)
            _check_accepted(scenario, istiod, watches, title)
            for watch in watches.values():
                watch.stop_cleanly()

    def proxyless(self, scenario: Scenario) -> None:
        program = workspace.INTEROP / "grpc-python" / "caller.py"
        backends = scenario.spawn(EventProcess, "backends", [self._grpc, "-I", "-B", program])
        ready = backends.wait_event("ready", lambda event: event["event"] == "ready")
        letters = dict(zip(ready["backends"], "ab", strict=False))
        (a_port, b_port) = letters
        values = {"a_port": a_port, "b_port": b_port, "a_weight": 90, "b_weight": 10}
        config = ConfigDir(scenario.directory / "config", workspace.CONFIG / "istio" / "proxyless", values)
        config.fill()
        _, istiod = self._control_plane(scenario, config.path)
        client = scenario.spawn(EventProcess, "ours", [self._client])
        _tell(
            client,
            command="dial",
            bootstrap=grpc_bootstrap(istiod.address),
            target="xds:///echo.shop.svc.cluster.local:7070",
        )

        def calls(count: int) -> list[Outcome]:
            mark = len(client.events)
            _tell(client, command="calls", calls=[{"path": "/shop.Echo/Call", "metadata": []}] * count)
            done = client.wait_event("calls", lambda event: event["event"] == "calls", mark, _PATIENCE)
            return [letters.get(made.get("port", 0), made.get("code", "?")) for made in done["outcomes"]]

        eventually("calls that are answered", lambda: set(calls(100)) == {"a", "b"}, _PATIENCE)
        first = calls(_CALLS)
        with scenario.check(f"of {_CALLS} calls {told(first)}, with weights of 90 to 10 in a VirtualService"):
            expect_shares("ours", first, {"a": 0.9, "b": 0.1})
        config.set("a_weight", 30)
        config.set("b_weight", 70)
        config.replace("echo.yaml", "resources/echo.yaml")
        # More than half of a hundred calls go to b with a probability below 10^-20 while its share is 10 %, and
        # nearly always once it is 70 %.
        turned: list[Outcome] = []

        def changed() -> bool:
            made = calls(100)
            turned.extend(made)
            return made.count("b") > 50

        eventually("calls that are split in another way", changed, _PATIENCE)
        second = calls(_CALLS)
        with scenario.check(f"of the next {_CALLS} calls {told(second)}, with weights of 30 to 70"):
            expect_shares("ours", second, {"a": 0.3, "b": 0.7})
        with scenario.check("no call failed while the weights changed, and istiod received no rejection"):
            expect(set(turned) == {"a", "b"}, told(turned))
            expect(istiod.rejects() == 0, f"{istiod.rejects()} rejects")
            eventually("everything acknowledged", lambda: _synced(istiod, APPLICATION), _PATIENCE)

    def _control_plane(self, scenario: Scenario, config: Path) -> tuple[Kubernetes, Istiod]:
        kubernetes = Kubernetes(scenario, self._programs)
        for namespace in ("istio-system", "shop"):
            kubernetes.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        return kubernetes, Istiod(scenario, self._programs, kubernetes, config, mesh_config())

    def _secrets(self, scenario: Scenario) -> XdsServe:
        """Starts a server of secrets in the place of the agent that runs beside each proxy."""
        directory = scenario.directory / "secrets"
        directory.mkdir()
        (directory / "secrets.json").write_text(json.dumps(agent_secrets()), encoding="utf-8")
        return XdsServe(scenario, self._programs.xds, directory)

    def _watch(
        self, scenario: Scenario, variant: Variant, node: str, istiod: Istiod, secrets: XdsServe
    ) -> _ProxyWatch:
        bootstrap = proxy_bootstrap(node, variant, istiod.address, secrets.address)
        file = scenario.directory / f"{node.split('~')[0]}-{variant.value}.json"
        file.write_text(json.dumps(bootstrap), encoding="utf-8")
        return _ProxyWatch(scenario, self._programs.xds, file)


class _ProxyWatch(XdsWatch):
    """`xds watch` with a proxy's bootstrap; it also watches everything that listeners and clusters refer to."""

    def __init__(self, scenario: Scenario, binary: Path, bootstrap: Path) -> None:
        argv: Argv = [binary, "watch", "--proxy-bootstrap", bootstrap, "--follow", "-o", "ndjson", "--for", "600s"]
        self._process = scenario.spawn(EventProcess, f"watch-{bootstrap.stem}", [*argv, "lds", "cds"])


def _endpoints(*addresses: str) -> str:
    return json.dumps([{"address": address, "locality": "here/a"} for address in addresses])


def _rename(config: ConfigDir, endpoints: str) -> None:
    config.set("ratings", endpoints)
    config.replace("ratings.yaml", "resources/ratings.yaml")


def _create_catalog(kubernetes: Kubernetes, *addresses: str) -> None:
    """Creates a Kubernetes service and its EndpointSlice, which no controller writes here."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    kubernetes.create(_SERVICES, {"metadata": {"name": "catalog"}, "spec": {"ports": ports}})
    kubernetes.create(_SLICES, _slice(*addresses))


def _slice(*addresses: str) -> Json:
    return {
        "metadata": {"name": "catalog-1", "labels": {"kubernetes.io/service-name": "catalog"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
    }


def _tell(process: EventProcess, **words: object) -> None:
    process.tell(json.dumps(words))


def _expect_endpoints(
    watches: Mapping[str, XdsWatch], name: str, addresses: set[str], edit: Callable[[], None]
) -> None:
    """Makes an edit, and checks that every watch receives these endpoints of a cluster and no other change."""
    marks = {node: watch.mark() for node, watch in watches.items()}
    host = name.rpartition("|")[2]
    edit()
    for node, watch in watches.items():

        def arrived(watch: XdsWatch = watch) -> bool:
            found = _addresses(_state(watch)["eds", name])
            expect(found == addresses, f"{name} has {sorted(found)}")
            return True

        eventually(f"{sorted(addresses)} for {node}", arrived, _PATIENCE)
        told = settled("what xds watch prints", lambda w=watch, n=node: w.events[marks[n] :], SILENCE)
        others = [event for event in told if not _is_of(event, host) and not _is_expected(event)]
        expect(not others, f"{others}")


def _is_of(event: Event, host: str) -> bool:
    """Whether an event reports changed endpoints of a host. Gateways have a second cluster of it, for routing by SNI."""
    return (event["event"], event["type"]) == ("changed", "eds") and event["name"].endswith(host)


def _addresses(assignment: Json) -> set[str]:
    return {
        endpoint["endpoint"]["address"]["socket_address"]["address"]
        for locality in assignment.get("endpoints", [])
        for endpoint in locality.get("lb_endpoints", [])
    }


def _state(watch: XdsWatch) -> dict[tuple[str, str], Json]:
    """The current resources, by type and name."""
    state: dict[tuple[str, str], Json] = {}
    for event in watch.events:
        if event["event"] == "changed":
            state[event["type"], event["name"]] = event["resource"]
        elif event["event"] == "removed":
            state.pop((event["type"], event["name"]), None)
    return state


def _types(watch: XdsWatch) -> set[str]:
    return {type_name for type_name, _ in _state(watch)}


def _shows(watch: XdsWatch, expected: Sequence[str]) -> bool:
    """Whether each of these texts occurs in the current resources."""
    text = json.dumps([[*key, value] for key, value in _state(watch).items()])
    missing = [word for word in expected if word not in text]
    expect(not missing, f"nothing has {missing}")
    return True


def _is_removed(watch: XdsWatch, mark: int, type_name: str, name: str) -> bool:
    gone = ("removed", type_name, name)
    return any((event["event"], event["type"], event["name"]) == gone for event in watch.events[mark:])


def _synced(istiod: Istiod, node: str) -> bool:
    """Whether a node has acknowledged the last response of each type, and has rejected none."""
    resources = istiod.synced(node)
    expect(resources, f"istiod knows nothing of {node}")
    for type_url, state in resources.items():
        expect("lastError" not in state, f"{type_url}: {state}")
        expect(state.get("sent") == state.get("acked"), f"{type_url}: {state}")
    return True


def _wait_synced(istiod: Istiod, watches: Mapping[str, XdsWatch]) -> None:
    for node in watches:
        eventually(f"everything acknowledged by {node}", lambda n=node: _synced(istiod, n), _PATIENCE)


def _check_accepted(scenario: Scenario, istiod: Istiod, watches: Mapping[str, XdsWatch], what: str) -> None:
    """Checks that the server and the clients agree that every response was accepted."""
    with scenario.check(
        f"{what}: the last responses are acknowledged, none was rejected, and xds watch reports no error"
    ):
        _wait_synced(istiod, watches)
        expect(istiod.rejects() == 0, f"istiod counts {istiod.rejects():g} rejected responses")
        for node, watch in watches.items():
            expect(not (wrong := _problems(watch)), f"{node}: {wrong}")


def _problems(watch: XdsWatch) -> list[Event]:
    """The errors that are current: a later value of the resource, or the end of the error, clears one."""
    problems: dict[tuple[str, str], Event] = {}
    for event in watch.events:
        key = event["type"], event["name"]
        if event.get("error") and event["event"] != "removed":
            problems[key] = event
        else:
            problems.pop(key, None)
    return [event for event in problems.values() if not _is_expected(event)]


def _is_expected(event: Event) -> bool:
    # istiod sends secrets to authenticated proxies only, and a plain-text connection authenticates nobody.
    return event["type"] == "sds" and str(event["name"]).startswith("kubernetes://")
