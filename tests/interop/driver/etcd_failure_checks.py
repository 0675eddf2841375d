"""etcd that fails while `xds serve` follows it: members, the quorum, the network, the credentials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from driver.checks import Scenario
from driver.etcd_cluster import EtcdCluster
from driver.etcd_world import PREFIX, RETURN_PATIENCE, EtcdPrograms, EtcdWorld, wait_reload
from driver.loop_thread import LoopThread
from driver.tcp_relay import Network, TcpRelay
from driver.tls import Certificate, CertificateFiles
from driver.waiting import eventually, expect, stays
from driver.xds import XdsServe, XdsWatch

_USER, _PASSWORD = "mesh", "correct horse"


def scenarios(programs: EtcdPrograms, python: Path) -> dict[str, Callable[[Scenario], None]]:
    """The stories by title; `python` has the package `cryptography`."""
    return {
        "etcd: compaction while xds serve is disconnected": partial(_compaction, programs=programs),
        "etcd: the leader is killed and started again": partial(_leader, programs=programs),
        "etcd: the quorum is lost and regained": partial(_quorum, programs=programs),
        "etcd: the network between xds serve and etcd fails": partial(_network, programs=programs),
        "etcd: TLS, users and passwords": partial(_secured, programs=programs, python=python),
    }


@dataclass(frozen=True)
class _Relays:
    """Relays in front of all members."""

    relays: list[TcpRelay]

    @classmethod
    def start(cls, loop: LoopThread, cluster: EtcdCluster) -> _Relays:
        return cls([TcpRelay(loop, port) for port in cluster.ports])

    @property
    def ports(self) -> list[int]:
        return [relay.port for relay in self.relays]

    def become(self, state: Network) -> None:
        """Changes the state of all of them."""
        for relay in self.relays:
            relay.become(state)


def _compaction(scenario: Scenario, programs: EtcdPrograms) -> None:
    cluster = EtcdCluster(scenario, programs.etcd)
    with LoopThread() as loop:
        relays = _Relays.start(loop, cluster)
        world = EtcdWorld(scenario, programs, cluster, ports=relays.ports, a=1, b=1, c=1)
        with scenario.check("xds serve loses its connections, reports it, and keeps the last state"):
            mark = world.serve.mark()
            relays.become(Network.CUT)
            world.wait_error(mark, "no member of the etcd cluster can be reached")
        with scenario.check("meanwhile resources are changed, added and removed, and the history is compacted"):
            for count in range(2, 5):
                world.change(a=count, b=1, c=count)
            world.change(a=5, b=None, c=4, d=1)
            cluster.compact()
            expect(world.counts() == {"a": 1, "b": 1, "c": 1}, str(world.counts()))
        with scenario.check(
            "after the connection is back, one change has everything, and only what is gone is removed"
        ):
            mark = world.serve.mark()
            relays.become(Network.UP)
            world.wait_has({"a": 5, "c": 4, "d": 1}, patience=RETURN_PATIENCE)
            world.expect_removed("b")
            wait_reload(world.serve, mark, changed=3, removed=1)
        with scenario.check("the watch goes on"):
            world.change(a=6, c=4, d=1)
            world.wait_has({"a": 6, "c": 4, "d": 1})


def _leader(scenario: Scenario, programs: EtcdPrograms) -> None:
    cluster = EtcdCluster(scenario, programs.etcd)
    leader = cluster.leader()
    # `xds serve` uses the first member that it reaches.
    ports = sorted(cluster.ports, key=lambda port: port != leader.port)
    world = EtcdWorld(scenario, programs, cluster, ports=ports, a=1, b=1)
    with scenario.check("the leader is killed: nothing is removed, and a change arrives"):
        leader.kill()
        eventually("another leader", cluster.leader, RETURN_PATIENCE)
        _apply_eventually(world, a=2)
        world.wait_has({"a": 2, "b": 1}, patience=RETURN_PATIENCE)
        world.expect_removed()
    with scenario.check("it is started again, and the next change arrives"):
        leader.start()
        cluster.wait_healthy()
        _apply_eventually(world, b=2)
        world.wait_has({"a": 2, "b": 2}, patience=RETURN_PATIENCE)
        world.expect_removed()


def _quorum(scenario: Scenario, programs: EtcdPrograms) -> None:
    cluster = EtcdCluster(scenario, programs.etcd)
    world = EtcdWorld(scenario, programs, cluster, a=1, b=1)
    strict = world.start_serve("--max-staleness", "1s")
    known = world.start_watch(strict)
    world.wait_has({"a": 1, "b": 1}, known)
    lost = cluster.members[:2]
    with scenario.check("two of three members are killed: xds serve says that the source is stale"):
        mark = world.serve.mark()
        for member in lost:
            member.kill()
        world.wait_error(mark, "no leader", RETURN_PATIENCE)
    with scenario.check("clients keep what they have, and a new one gets the last state"):
        late = world.start_watch(world.serve)
        world.wait_has({"a": 1, "b": 1}, late, patience=RETURN_PATIENCE)
        for watch in (world.watch, known):
            stays("resources", partial(world.counts, watch), 0.5)
        world.expect_removed()
    with scenario.check(
        "with --max-staleness a new client is refused with the reason, and a known one keeps its resources"
    ):
        refused = world.start_watch(strict)
        texts = eventually("a refusal", lambda: _errors(refused), RETURN_PATIENCE)
        expect(any("source" in text for text in texts), str(texts))
        expect(not world.counts(refused), str(world.counts(refused)))
        expect(world.counts(known) == {"a": 1, "b": 1}, str(world.counts(known)))
    with scenario.check("xds apply fails and says why"):
        world.write(a=2)
        outcome = world.store.try_apply(world.directory, "--prune")
        expect(outcome.code != 0 and "etcd" in outcome.stderr, str(outcome))
    with scenario.check("with the quorum back, a change arrives at all of them, and nothing was removed"):
        for member in lost:
            member.start()
        cluster.wait_healthy()
        _apply_eventually(world, a=3)
        for watch in (world.watch, known, late, refused):
            world.wait_has({"a": 3, "b": 1}, watch, patience=RETURN_PATIENCE)
            removed = world.seen(watch).removed
            expect(not removed, f"removed: {removed}")


def _network(scenario: Scenario, programs: EtcdPrograms) -> None:
    cluster = EtcdCluster(scenario, programs.etcd)
    with LoopThread() as loop:
        relays = _Relays.start(loop, cluster)
        world = EtcdWorld(scenario, programs, cluster, ports=relays.ports, a=1, b=1)
        with scenario.check("the connection to one member is cut: another one is used, and nothing is missed"):
            relays.relays[0].become(Network.CUT)
            world.change(a=2)
            world.wait_has({"a": 2, "b": 1})
            relays.relays[0].become(Network.UP)
        for state, count in ((Network.CUT, 3), (Network.SILENT, 4)):
            with scenario.check(
                f"the network {state.value}: the last state stays, and xds serve says that it is stale"
            ):
                mark = world.serve.mark()
                relays.become(state)
                world.change(a=count)
                world.wait_error(mark, "the connection broke", RETURN_PATIENCE)
                expect(world.counts() == {"a": count - 1, "b": 1}, str(world.counts()))
            with scenario.check(f"it is back after it {state.value}: the change arrives, and nothing was removed"):
                relays.become(Network.UP)
                world.wait_has({"a": count, "b": 1}, patience=RETURN_PATIENCE)
                world.expect_removed()


def _secured(scenario: Scenario, programs: EtcdPrograms, python: Path) -> None:
    shown, other = (
        CertificateFiles.write(Certificate.make(python, name, "localhost"), scenario.directory)
        for name in ("member", "other")
    )
    cluster = EtcdCluster(scenario, programs.etcd, certificate=shown)
    cluster.require_password(_USER, _PASSWORD, f"{PREFIX}/")
    right, wrong = (scenario.directory / f"{name}-password" for name in ("right", "wrong"))
    right.write_text(f"{_PASSWORD}\n", encoding="utf-8")
    wrong.write_text("wrong\n", encoding="utf-8")
    trusts: list[str | Path] = ["--etcd-ca", shown.certificate]
    user: list[str | Path] = [*trusts, "--etcd-user", _USER, "--etcd-password-file"]
    world = EtcdWorld(scenario, programs, cluster, flags=[*user, right], a=1, b=1)

    def fails(flags: list[str | Path], *texts: str, prefix: str = PREFIX) -> None:
        """`xds apply` with other flags or another prefix has to fail with all of these texts."""
        store = replace(world.store, flags=flags, address=cluster.address(prefix))
        outcome = store.try_apply(world.directory)
        expect(outcome.code != 0, f"xds apply with {flags} succeeds")
        for text in texts:
            expect(text in outcome.stderr, f"without {text!r}: {outcome.stderr}")

    with scenario.check("a wrong password, no user, and another prefix are errors that say so"):
        fails([*user, wrong], "denies access", _USER)
        fails(trusts, "user")
        fails([*user, right], "denies access", "permission denied", prefix="/other")
    with scenario.check("so are another authority, and no TLS"):
        fails(["--etcd-ca", other.certificate], "certificate")
        fails([], "no member of the etcd cluster can be reached")
    with scenario.check("xds serve with a wrong password is not ready, and says why"):
        denied = XdsServe(scenario, programs.xds, cluster.address(PREFIX), flags=[*user, wrong])
        errors = eventually("an error", lambda: denied.since(0, "file_error"))
        expect("denies access" in errors[0]["error"] and _USER in errors[0]["error"], str(errors))
    with scenario.check("changes arrive, also after the tokens have expired and a member was killed"):
        world.change(a=2)
        world.wait_has({"a": 2, "b": 1})
        # Longer than a token lives.
        stays("resources", world.counts, 3.0)
        late = world.start_watch(world.serve)
        world.wait_has({"a": 2, "b": 1}, late)
        world.change(a=3)
        world.wait_has({"a": 3, "b": 1})
        cluster.members[0].kill()
        _apply_eventually(world, a=4)
        for watch in (world.watch, late):
            world.wait_has({"a": 4, "b": 1}, watch, patience=RETURN_PATIENCE)
        world.expect_removed()


def _apply_eventually(world: EtcdWorld, **counts: int) -> None:
    """Has `xds apply` write a change; while there is no leader it may fail."""
    world.write(**counts)

    def probe() -> bool:
        outcome = world.store.try_apply(world.directory, "--prune")
        expect(outcome.code == 0, str(outcome))
        return True

    eventually("xds apply succeeds", probe, RETURN_PATIENCE)


def _errors(watch: XdsWatch) -> list[str]:
    """The errors that the client has printed."""
    return [str(event["error"]) for event in watch.events if event.get("error")]
