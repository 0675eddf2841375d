"""Clocks that jump while `xds serve` follows a source and `xds register` keeps a lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from driver.checks import Scenario
from driver.etcd_cluster import EtcdCluster
from driver.etcd_world import PREFIX, RETURN_PATIENCE, EtcdPrograms, EtcdWorld
from driver.shifted_clock import ShiftedClock
from driver.tls import Certificate, CertificateFiles
from driver.waiting import eventually, expect, stays
from driver.xds import XdsWatch

_USER, _PASSWORD = "mesh", "correct horse"
_DAY, YEAR = 86_400, 366 * 86_400
# Longer than every keepalive, and less than the programs live.
_SUSPENSION = 100
# Twice the time to live of the registered endpoint, and longer than a token lives.
_LIVES = 4.0


def scenarios(programs: EtcdPrograms, python: Path) -> dict[str, Callable[[Scenario], None]]:
    """The stories by title; `python` has the package `cryptography`."""
    return {"etcd: clocks that jump": partial(_etcd, programs=programs, python=python)}


def jumps(clock: ShiftedClock) -> dict[str, Callable[[], None]]:
    """Jumps by what they are, to be made in this order; in the end the monotonic clock is ahead, and the other right."""
    return {
        "forward by a day": partial(clock.set_day, _DAY),
        "back by a day and an hour": partial(clock.set_day, -_DAY - 3_600),
        "forward by an hour": partial(clock.set_day, 3_600),
        f"forward with the monotonic clock, as after {_SUSPENSION} s of suspension": partial(clock.suspend, _SUSPENSION),
        "back by that": partial(clock.set_day, -_SUSPENSION),
    }


def _etcd(scenario: Scenario, programs: EtcdPrograms, python: Path) -> None:
    shown = CertificateFiles.write(Certificate.make(python, "member", "localhost"), scenario.directory)
    cluster = EtcdCluster(scenario, programs.etcd, 1, certificate=shown)
    cluster.require_password(_USER, _PASSWORD, f"{PREFIX}/")
    password = scenario.directory / "password"
    password.write_text(f"{_PASSWORD}\n", encoding="utf-8")
    flags = ["--etcd-ca", shown.certificate, "--etcd-user", _USER, "--etcd-password-file", password]
    clock = ShiftedClock(scenario)
    shifted = replace(programs, xds=clock.wrap(programs.xds))
    world = EtcdWorld(scenario, shifted, cluster, flags=flags, a=0, b=0)
    world.store.register(scenario, "backend", 4001, "2s")
    # The writer of changes and this client are other machines, whose clocks are right.
    world.store = replace(world.store, binary=programs.xds)
    endpoints = XdsWatch(scenario, programs.xds, world.serve.address, "watch-2", ["eds:backend"])

    def registered() -> bool:
        return '"port_value": 4001' in world.seen(endpoints).text("eds", "backend")

    eventually("the registered endpoint", registered)
    for count, (title, jump) in enumerate(jumps(clock).items(), start=1):
        with scenario.check(f"the clock jumps {title}: a change arrives, the lease is kept, and nothing is removed"):
            jump()
            world.change(a=count)
            world.wait_has({"a": count, "b": 0}, patience=RETURN_PATIENCE)
            stays("the registered endpoint", registered, _LIVES)
            world.expect_removed()
            removed = world.seen(endpoints).removed
            expect(not removed, f"removed: {removed}")
    last = len(jumps(clock))
    with scenario.check("the clock is set back by a year, and etcd starts again: its certificate is reported"):
        mark = world.serve.mark()
        clock.set_day(-YEAR)
        cluster.members[0].kill()
        cluster.members[0].start()
        cluster.wait_healthy()
        world.wait_error(mark, "not valid yet", RETURN_PATIENCE)
        expect(world.counts() == {"a": last, "b": 0}, str(world.counts()))
    with scenario.check("the clock is corrected: a change arrives, and nothing was removed"):
        clock.set_day(YEAR)
        world.change(a=last + 1)
        world.wait_has({"a": last + 1, "b": 0}, patience=RETURN_PATIENCE)
        world.expect_removed()
    with scenario.check("the endpoint is registered again"):
        eventually("the registered endpoint", registered, RETURN_PATIENCE)
        world.serve.stop_cleanly()
