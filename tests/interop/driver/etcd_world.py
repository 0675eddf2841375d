"""What most scenarios with etcd start from: a cluster, numbered resources, `xds serve`, and `xds watch` at it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.checks import Scenario
from driver.etcd_cluster import EtcdCluster
from driver.waiting import PATIENCE, eventually, expect
from driver.xds import XdsServe, XdsWatch
from driver.xds_store import WatchedResources, XdsStore

PREFIX = "/xds"
# A source that failed is tried again after ten seconds at most.
RETURN_PATIENCE = 40.0

_COUNT = re.compile(r"count-(\d+)")


@dataclass(frozen=True)
class EtcdPrograms:
    """What the scenarios play with each other."""

    xds: Path
    etcd: Path


def cluster_text(name: str, count: int) -> str:
    """A resource with a number in it: a cluster of the API, without endpoints."""
    return (
        '"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\n'
        f"name: {name}\ntype: STATIC\nalt_stat_name: count-{count}\n"
    )


class EtcdWorld:
    """An etcd cluster with numbered resources below a prefix, `xds serve`, and `xds watch` as its client."""

    def __init__(
        self,
        scenario: Scenario,
        programs: EtcdPrograms,
        cluster: EtcdCluster,
        *,
        ports: Sequence[int] | None = None,
        flags: Sequence[str | Path] = (),
        **counts: int,
    ) -> None:
        self.cluster = cluster
        self._scenario, self._programs, self._flags = scenario, programs, flags
        self.directory = scenario.directory / "resources"
        self.directory.mkdir()
        self.store = XdsStore(programs.xds, cluster.address(PREFIX), flags)
        self.change(**counts)
        self.serve = self.start_serve(ports=ports)
        self.watch = self.start_watch(self.serve)
        self.wait_has(counts)

    def start_serve(self, *more: str | Path, ports: Sequence[int] | None = None) -> XdsServe:
        """`xds serve` on the prefix, with more flags."""
        source = self.cluster.address(PREFIX, ports)
        return XdsServe(self._scenario, self._programs.xds, source, flags=[*self._flags, *more])

    def start_watch(self, serve: XdsServe, *options: str) -> XdsWatch:
        """`xds watch` of all numbered resources."""
        return XdsWatch(self._scenario, self._programs.xds, serve.address, "watch-1", ["cds"], options)

    def write(self, **counts: int | None) -> None:
        """Writes numbered resources into the directory, or (`None`) removes them there."""
        for name, count in counts.items():
            file = self.directory / f"{name}.yaml"
            if count is None:
                file.unlink()
            else:
                file.write_text(cluster_text(name, count), encoding="utf-8")

    def change(self, **counts: int | None) -> None:
        """Does so, and has `xds apply` write the directory to etcd."""
        self.write(**counts)
        self.store.apply(self.directory, "--prune")

    def seen(self, watch: XdsWatch | None = None) -> WatchedResources:
        """What the client has seen."""
        return WatchedResources((watch or self.watch).events)

    def counts(self, watch: XdsWatch | None = None) -> dict[str, int]:
        """The numbered resources that the client has."""
        return {name: count_in(resource) for (_, name), resource in self.seen(watch).resources.items()}

    def wait_has(self, counts: Mapping[str, int], watch: XdsWatch | None = None, patience: float = PATIENCE) -> None:
        """Waits until the client has exactly these numbered resources."""

        def probe() -> bool:
            has = self.counts(watch)
            expect(has == counts, f"the client has {has}")
            return True

        eventually(f"the client has {counts}", probe, patience)

    def expect_removed(self, *names: str) -> None:
        """The client was told of exactly these removals, in this order."""
        removed = [name for _, name in self.seen().removed]
        expect(removed == list(names), f"removed: {removed}")

    def wait_error(self, mark: int, text: str, patience: float = PATIENCE) -> None:
        """Waits until `xds serve` reports an error of the source with this text after a mark."""

        def probe() -> bool:
            errors = [it["error"] for it in self.serve.since(mark, "file_error") if it["file"].startswith("etcd://")]
            expect(any(text in error for error in errors), f"errors: {errors}")
            return True

        eventually(f"an error with {text!r}", probe, patience)


def wait_reload(serve: XdsServe, mark: int, *, changed: int, removed: int) -> None:
    """Waits until `xds serve` reports a change after a mark, which has to be the only one and of these numbers.

    Clients may have it before it is reported.
    """
    serve.wait("reloaded", mark)
    reloads = [(it["changed"], it["removed"]) for it in serve.since(mark, "reloaded")]
    expect(reloads == [(changed, removed)], f"reloads: {reloads}")


def count_in(resource: dict[str, object]) -> int:
    """The number in a resource."""
    found = _COUNT.search(str(resource))
    expect(found, f"no number: {resource}")
    assert found is not None
    return int(found.group(1))
