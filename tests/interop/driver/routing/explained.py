"""What `xds route explain` says about the calls of a table, by the rules of Envoy and of gRPC."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driver import workspace
from driver.routing.compare import Outcome
from driver.routing.tables import CLUSTERS
from driver.waiting import expect

_PATIENCE = 120.0


def expect_explained(
    directory: Path,
    rules: str,
    calls: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
    host: str = "svc",
) -> int:
    """Each call is explained as it was made. Returns the number of different calls."""
    rows = {
        json.dumps([call["path"], call["metadata"]]): _row(call, host, rules, {"cluster": _cluster(outcome)})
        for call, outcome in zip(calls, outcomes, strict=True)
    }
    _check(directory, rules, list(rows.values()))
    return len(rows)


def expect_shares_explained(
    directory: Path, rules: str, call: Mapping[str, Any], shares: Mapping[str, float], host: str = "svc"
) -> None:
    """The shares of the clusters are the expected ones."""
    percent = {name: 100 * share for name, share in shares.items()}
    _check(directory, rules, [_row(call, host, rules, {"clusters": percent})])


def _row(call: Mapping[str, Any], host: str, rules: str, expected: object) -> dict[str, object]:
    headers: dict[str, list[str]] = {}
    for name, value in call["metadata"]:
        # Over HTTP the space around a value is not part of it.
        headers.setdefault(name, []).append(value.strip() if rules == "envoy" else value)
    request = {"host": host, "method": call["path"], "headers": headers, "rules": rules, "route_config": "routes"}
    return {"name": f"{host} {call['path']} {call['metadata']}", "request": request, "expect": expected}


def _cluster(outcome: Outcome) -> str:
    """The cluster of a call; any status means that no cluster got it."""
    return str(outcome) if outcome in tuple(CLUSTERS) else "none"


def _check(directory: Path, rules: str, rows: Sequence[object]) -> None:
    file = directory.parent / f"expected-{rules}.json"
    file.write_text(json.dumps({"tests": rows}), encoding="utf-8")
    argv = [workspace.xds_binary(), "route", "explain", directory, "--expect", file, "--color", "never"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE)
    lines = done.stdout.splitlines()
    different = [line for line in lines if not line.startswith("ok ")]
    expect(done.returncode == 0, "\n".join([*different, done.stderr]))
    expect(len(lines) == len(rows) + 1, f"{len(rows)} rows, and {len(lines)} lines")
