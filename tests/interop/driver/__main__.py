"""`run [PEER]...`: plays the checks of the peers named, or of all."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from driver import (
    control_plane,
    differential_checks,
    envoy_checks,
    envoy_gateway_checks,
    envoy_routing_checks,
    etcd_checks,
    go_checks,
    grpc_checks,
    istio_checks,
    kubernetes_checks,
    languages_checks,
    replicas_checks,
    rollouts_checks,
    routing_checks,
    secured_checks,
    serving_checks,
    sovereign_checks,
    validity_checks,
    workspace,
)
from driver.checks import NotRun, PeerReport, Skip, comment
from driver.side_by_side import play_peers_side_by_side

PEERS: dict[str, Callable[[PeerReport, Path], None]] = {
    envoy_checks.NAME: envoy_checks.run,
    grpc_checks.NAME: grpc_checks.run,
    **languages_checks.RUNS,
    differential_checks.NAME: differential_checks.run,
    validity_checks.NAME: validity_checks.run,
    routing_checks.NAME: routing_checks.run,
    envoy_routing_checks.NAME: envoy_routing_checks.run,
    serving_checks.NAME: serving_checks.run,
    go_checks.NAME: go_checks.run,
    secured_checks.NAME: secured_checks.run,
    sovereign_checks.NAME: sovereign_checks.run,
    envoy_gateway_checks.NAME: envoy_gateway_checks.run,
    etcd_checks.NAME: etcd_checks.run,
    replicas_checks.NAME: replicas_checks.run,
    rollouts_checks.NAME: rollouts_checks.run,
    kubernetes_checks.NAME: kubernetes_checks.run,
    # Last: of all peers, its programs take the longest to build, and it has what is left until the deadline.
    istio_checks.NAME: istio_checks.run,
}
# These wait for their programs most of the time, so several can be played at the same time; those that take longest come
# first. The other peers need the processors, or build programs.
_MOSTLY_WAITING = (
    validity_checks.NAME,
    go_checks.NAME,
    routing_checks.NAME,
    differential_checks.NAME,
    envoy_routing_checks.NAME,
    serving_checks.NAME,
    grpc_checks.NAME,
    *languages_checks.RUNS,
    secured_checks.NAME,
    sovereign_checks.NAME,
    envoy_gateway_checks.NAME,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/interop/run", description=__doc__)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"{', '.join(PEERS)}; none means all")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="peers to play at the same time if they need little CPU; default: 1"
    )
    parser.add_argument(
        "--build", action="store_true", help="only build etcd, kube-apiserver and istiod, unless they are cached"
    )
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error(f"--jobs is {arguments.jobs}: at least 1 was expected")
    if arguments.build and arguments.peers:
        parser.error(f"--build plays no peers: {', '.join(arguments.peers)} would be ignored")
    names = arguments.peers or list(PEERS)
    if unknown := set(names) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # An exception, so that every `finally` on the way out stops its processes.
        signal.signal(how, lambda number, _: sys.exit(128 + number))
    if arguments.build:
        return build_control_plane()

    run_dir = workspace.new_run_dir()
    together = [name for name in _MOSTLY_WAITING if name in names and arguments.jobs > 1]
    if together:
        comment(f"playing {', '.join(together)}, {arguments.jobs} at the same time")
    reports = play_peers_side_by_side(together, run_dir, arguments.jobs, run_peer)
    reports += [run_peer(name, run_dir) for name in names if name not in together]
    print_summary(reports)
    if any(report.failed for report in reports):
        comment(f"all logs of the failed scenarios are in {run_dir.relative_to(workspace.CHECKOUT)}")
    else:
        shutil.rmtree(run_dir)
    passed, failed, skipped = (
        sum(report.passed for report in reports),
        sum(report.failed for report in reports),
        sum(report.skip_reason is not None for report in reports),
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def build_control_plane() -> int:
    try:
        control_plane.build()
    except (NotRun, Skip) as reason:
        comment(f"not built: {reason}")
    except workspace.PreparationFailed as error:
        comment(str(error))
        return 1
    return 0


def run_peer(name: str, run_dir: Path) -> PeerReport:
    """Plays one peer; whatever goes wrong ends up in its report."""
    report = PeerReport(name)
    print(f"\n== {name}", flush=True)
    try:
        PEERS[name](report, run_dir)
    except NotRun as reason:
        report.skip_reason = str(reason)
        print(f"not run: {name} ({reason})", flush=True)
    except Skip as missing:
        report.skip_reason = str(missing)
        print(f"skip: {name}: {missing}", flush=True)
    except workspace.PreparationFailed as error:
        report.not_ok(f"{name} can be prepared", str(error))
    except subprocess.TimeoutExpired as error:
        report.not_ok(f"{name} can be prepared", str(error))
    except Exception:
        report.not_ok(f"{name} can be run", traceback.format_exc())
    return report


def print_summary(reports: list[PeerReport]) -> None:
    """One line for each peer: what was tested, and how much."""
    print(f"\n{'peer':<14}{'version':<52}{'checks':>7}{'failed':>7}{'seconds':>9}")
    for report in reports:
        version = f"skipped: {report.skip_reason}" if report.skip_reason else report.version
        checks = report.passed + report.failed
        print(f"{report.peer:<14}{version:<52}{checks:>7}{report.failed:>7}{report.seconds:>9.1f}")
    print()


if __name__ == "__main__":
    sys.exit(main())
