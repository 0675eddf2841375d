"""Checks that we accept every golden file of Envoy Gateway that Envoy accepts, without leniency and with constraints."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from driver import gateway_goldens, go_programs, workspace
from driver.checks import PeerReport, Scenario, comment, play
from driver.envoy_world import envoy_program
from driver.gateway_differences import DIFFERENCES, Difference
from driver.gateway_goldens import Golden
from driver.tls import Certificate
from driver.waiting import expect

NAME = "envoy-gateway"

_MODULE = "github.com/envoyproxy/gateway"
_PATIENCE = 60.0
# Envoy's log line about a rejected bootstrap.
_REJECTED = re.compile(
    r"error initializing configuration '[^']*': (.*?)(?=^\[\d{4}-|\Z)", re.DOTALL | re.MULTILINE
)

# Error messages by name of the file; `None` if the file is accepted.
Verdicts = Mapping[str, str | None]


@dataclass(frozen=True)
class _Programs:
    envoy: Path
    ours: Path
    # With the package `cryptography`.
    python: Path


def run(report: PeerReport, run_dir: Path) -> None:
    """Validates every file with both."""
    python, envoy = envoy_program()
    source = go_programs.module_directory(NAME, _MODULE)
    programs = _Programs(envoy, workspace.example("interop-goldens"), python)
    report.version = f"Envoy Gateway {source.name.partition('@')[2]}"

    def body(scenario: Scenario) -> None:
        _compare(scenario, programs, gateway_goldens.read(source))

    play(report, run_dir, {"Envoy Gateway's golden files: Envoy and the library agree": body})


def _compare(scenario: Scenario, programs: _Programs, goldens: Sequence[Golden]) -> None:
    files = [golden for golden in goldens if golden.resources]
    by_kind = Counter(golden.kind for golden in files)
    with scenario.check(
        f"there are files of every type: {', '.join(f'{n} {kind}' for kind, n in by_kind.items())}"
    ):
        expect(set(by_kind) == set(gateway_goldens.TYPES), f"{by_kind}")
    ours = _ours(files, programs, scenario.directory / "resources")
    envoys = _envoys(files, programs, scenario.directory)

    explained = {(name, it.by): it for it in DIFFERENCES for name in it.files}
    unexplained = []
    for name in ours:
        alone = _rejected_by_one(ours[name], envoys[name])
        if alone and not _explains(explained.get((name, alone[0])), alone[1]):
            unexplained.append(f"{name}: only {alone[0]} rejects it: {alone[1]}")
    accepted = sum(ours[name] is None and envoys[name] is None for name in ours)
    rejected = sum(ours[name] is not None and envoys[name] is not None for name in ours)
    title = f"of {len(files)} files, both accept {accepted} and reject {rejected}; every other one is a known difference"
    with scenario.check(title):
        expect(not unexplained, "\n".join(unexplained))
    for difference in DIFFERENCES:
        title = f"{len(difference.files)} rejected by {difference.by} only: {difference.why}"
        with scenario.check(title):
            gone = [
                name
                for name in difference.files
                if (alone := _rejected_by_one(ours[name], envoys[name])) is None
                or alone[0] != difference.by
                or not _explains(difference, alone[1])
            ]
            expect(not gone, f"not so any more: {gone}")
    comment(
        f"{len(goldens)} files, {len(goldens) - len(files)} of them empty; {sum(len(it.resources) for it in files)} resources"
    )
    comment(f"{accepted} accepted by both, {rejected} rejected by both, {len(files) - accepted - rejected} by one")


def _rejected_by_one(ours: str | None, envoys: str | None) -> tuple[str, str] | None:
    """The side that rejects a file which the other one accepts, and its error message."""
    match ours, envoys:
        case str(why), None:
            return "ours", why
        case None, str(why):
            return "Envoy", why
    return None


def _explains(difference: Difference | None, why: str) -> bool:
    return difference is not None and difference.words in why


def _ours(files: Sequence[Golden], programs: _Programs, directory: Path) -> Verdicts:
    for golden in files:
        file = directory / golden.name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(golden.typed(), encoding="utf-8")
    done = subprocess.run(
        [programs.ours, directory],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=600.0,
    )
    judged = [json.loads(line) for line in done.stdout.splitlines()]
    verdicts = {it["file"]: it["error"] for it in judged}
    expect(set(verdicts) == {golden.name for golden in files}, "not every file was judged")
    for golden in files:
        # The split of the file into resources has to agree with the parser.
        found = next(it["resources"] for it in judged if it["file"] == golden.name)
        expect(verdicts[golden.name] or found == len(golden.resources), f"{golden.name}: {found} resources")
    return verdicts


def _envoys(files: Sequence[Golden], programs: _Programs, directory: Path) -> Verdicts:
    certificate = directory / "ca.pem"
    certificate.write_text(Certificate.make(programs.python, "ca").certificate, encoding="utf-8")
    cases: dict[str, list[Golden]] = {}
    for golden in files:
        cases.setdefault(golden.case, []).append(golden)

    def judge(case: str) -> dict[str, str | None]:
        bootstrap = directory / f"{case.replace('/', '-')}.yaml"

        def rejection(*judged: Golden) -> str | None:
            bootstrap.write_text(gateway_goldens.bootstrap(judged, certificate), encoding="utf-8")
            return _rejection(programs.envoy, bootstrap)

        all_of_it = cases[case]
        if rejection(*all_of_it) is None:
            return dict.fromkeys((golden.name for golden in all_of_it), None)
        verdicts = {golden.name: rejection(golden) for golden in all_of_it}
        clusters = next((golden for golden in all_of_it if golden.kind == "clusters"), None)
        for golden in all_of_it:
            # Envoy rejects listeners that refer to unknown clusters.
            if golden.kind == "listeners" and clusters and verdicts[clusters.name] is None:
                verdicts[golden.name] = rejection(golden, clusters)
        return verdicts

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {name: why for verdicts in pool.map(judge, cases) for name, why in verdicts.items()}


def _rejection(envoy: Path, bootstrap: Path) -> str | None:
    """Envoy's error message about a bootstrap, `None` if it is valid."""
    done = subprocess.run(
        [envoy, "--mode", "validate", "--config-path", bootstrap],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"Envoy ended by signal {-done.returncode}"
    said = _REJECTED.search(done.stderr)
    return said[1].strip() if said else done.stderr
