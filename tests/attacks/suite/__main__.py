"""`scripts/attacks/run [ATTACK...]`: runs the attacks named, or all, and prints one row for each."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import table
from suite.attack import Attack
from suite.attacks import ATTACKS, by_name
from suite.certificates import Certificates
from suite.processes import SUITE, SuiteFailed, raise_file_limit
from suite.trial import Result, Trial

CHECKOUT = SUITE.parents[1]
_SECONDS = 165.0
"""Time after which no attack is tried again."""
_RETRY_SECONDS = 3.0
# Time that an attack takes besides its own.
_OVERHEAD_SECONDS = 2.5


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/attacks/run", description=__doc__)
    names = [it.name for it in ATTACKS]
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"{', '.join(names)}; none means all")
    parser.add_argument("--keep-table", action="store_true", help="do not write docs/ATTACKS.md")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="leave out attacks that would end after this time"
    )
    options = parser.parse_args()
    chosen = options.attacks
    if unknown := set(chosen) - set(names):
        parser.error(f"no such attack: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if not sys.platform.startswith("linux"):
        print("skip: the memory of a process is read from /proc, which only Linux has")
        return 0
    binary = Path(os.environ.get("XDS_BIN") or CHECKOUT / "target/debug/xds").resolve()
    if not binary.exists():
        parser.error(f"{binary} does not exist: build it, or name another with XDS_BIN")
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # An exception, so that every `finally` on the way out ends its processes.
        signal.signal(how, lambda number, _: sys.exit(128 + number))
    raise_file_limit()

    run_dir = _new_run_dir()
    certificates = Certificates.make(run_dir)
    started = time.monotonic()
    results: list[Result] = []
    groups = _groups([by_name(it) for it in chosen or names])
    while groups:
        group = groups.pop(0)
        end = time.monotonic() - started + _seconds([group])
        if end > options.seconds:
            print(f"skip: {', '.join(it.name for it in group)}: no time is left", flush=True)
            continue
        with ThreadPoolExecutor(len(group)) as threads:
            tried = list(threads.map(lambda it: _try(it, binary, certificates, run_dir / it.name), group))
        time_left = _SECONDS - (time.monotonic() - started) - _seconds(groups)
        for result in tried:
            results.append(result)
            if not result.slowness or result.problems or not (chosen or time_left > _RETRY_SECONDS):
                continue
            attack = result.attack
            before = time.monotonic()
            _retry(result, binary, certificates, run_dir / f"{attack.name}-again")
            time_left -= time.monotonic() - before
        for result in tried:
            table.print_row(result)
    if len(results) == len(ATTACKS) and not options.keep_table:
        table.write(results, CHECKOUT / "docs" / "ATTACKS.md")
    failed = [it for it in results if it.problems]
    slow = [it for it in results if it.slowness]
    print(
        f"{len(results)} attacks, {len(failed)} failed, {len(slow)} slow, {time.monotonic() - started:.0f} s"
    )
    if failed:
        print(f"the logs of the servers are in {run_dir.relative_to(CHECKOUT)}")
    else:
        shutil.rmtree(run_dir)
    return 1 if failed else 0


def _groups(attacks: list[Attack]) -> list[list[Attack]]:
    """The attacks in the order in which they run; those that wait run in parallel with the first of them."""
    waiting = [it for it in attacks if it.waits]
    groups = [[it] for it in attacks if not it.waits]
    if waiting:
        groups.insert(attacks.index(waiting[0]), waiting)
    return groups


def _seconds(groups: list[list[Attack]]) -> float:
    """Time that groups of attacks take."""
    return sum(max(it.seconds for it in group) + _OVERHEAD_SECONDS for group in groups)


def _new_run_dir() -> Path:
    """An empty directory for this run. The logs of runs that have ended are removed."""
    runs = CHECKOUT / ".interop" / "attacks"
    runs.mkdir(parents=True, exist_ok=True)
    for old in runs.iterdir():
        if old.name.isdecimal() and not Path("/proc", old.name).exists():
            shutil.rmtree(old, ignore_errors=True)
    run_dir = runs / str(os.getpid())
    shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.mkdir()
    return run_dir


def _try(attack: Attack, binary: Path, certificates: Certificates, run_dir: Path) -> Result:
    try:
        return Trial(attack, binary, certificates, run_dir).run(attack.seconds)
    except SuiteFailed as failed:
        return Result(attack, problems=[str(failed)])
    except Exception:
        traceback.print_exc()
        return Result(attack, problems=["the suite failed"])


def _retry(result: Result, binary: Path, certificates: Certificates, run_dir: Path) -> None:
    """Measures the latency once more: the machine may have been busy with something else."""
    attack = result.attack
    seconds = min(attack.seconds, _RETRY_SECONDS)
    try:
        again = Trial(attack, binary, certificates, run_dir).run(seconds)
    except SuiteFailed:
        return
    result.is_retried = True
    if not again.canary.failures and again.canary.latencies:
        result.canary, result.unloaded = again.canary, again.unloaded


if __name__ == "__main__":
    sys.exit(main())
