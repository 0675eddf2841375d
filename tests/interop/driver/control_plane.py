"""etcd, kube-apiserver and istiod: the programs of a control plane, built from Go modules unless they are cached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driver import go_programs


@dataclass(frozen=True)
class ControlPlaneProgram:
    """A program, and the `go.mod` that states its version."""

    name: str
    # Directory with the `go.mod`.
    requirements: str
    # Module that it is in, and its package there.
    module: str
    package: str = ""

    def path(self, reserve: float = 0.0) -> Path:
        """Path of the program, which is built unless it is cached. The checks that follow take `reserve` seconds."""
        package = f"{self.module}/{self.package}" if self.package else self.module
        return go_programs.program(self.requirements, self.name, package, reserve)

    def version(self, program: Path) -> str:
        """The version that it was built from."""
        return go_programs.version_of(program, self.module)


ETCD = ControlPlaneProgram("etcd", "istio/etcd", "go.etcd.io/etcd/server/v3")
APISERVER = ControlPlaneProgram("kube-apiserver", "istio/control-plane", "k8s.io/kubernetes", "cmd/kube-apiserver")
ISTIOD = ControlPlaneProgram("istiod", "istio/control-plane", "istio.io/istio", "pilot/cmd/pilot-discovery")


def build() -> None:
    """Builds all that are not cached."""
    for program in (ETCD, APISERVER, ISTIOD):
        program.path()
