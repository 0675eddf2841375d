"""One attack on a server of its own, measured and judged."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from suite.attack import Attack, Setup
from suite.canary import TIMEOUT
from suite.certificates import Certificates
from suite.directory import Directory, Editor
from suite.processes import Helper, PeakMemory, Server, SuiteFailed
from suite.target import Target

MOST_MEMORY_MIB = 256.0
_END_ATTACK_MIB = 1_024.0
_LEAST_P50_LIMIT_MS = 20.0
MOST_MS = 500.0
MOST_LOG_KIB = 64.0
_UNLOADED_TRIES = 15
_UNLOADED_EDITS = 5
_FEW_FILES = 1_024
_EDIT_SECONDS = 2.0
_AFTER_SECONDS = 0.3


@dataclass
class Canary:
    """What a canary measured, in milliseconds."""

    latencies: list[float]
    failures: list[str]

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.latencies) if self.latencies else float("inf")

    @property
    def worst(self) -> float:
        """The maximum."""
        return max(self.latencies, default=float("inf"))


@dataclass
class Result:
    """Row of the table."""

    attack: Attack
    memory: float = 0.0
    log: float = 0.0
    """Length of what the server logged during the attack, in KiB."""
    unloaded: float = 0.0
    canary: Canary = field(default_factory=lambda: Canary([], []))
    sent: str = ""
    statuses: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """Exceeded limits of memory, wrong statuses and unanswered canaries, which fail the run."""
    is_retried: bool = False

    @property
    def p50_limit(self) -> float:
        """Limit of the canary's median."""
        return max(3 * self.unloaded, _LEAST_P50_LIMIT_MS)

    @property
    def slowness(self) -> list[str]:
        """Limits of latency that the canary missed."""
        if not self.canary.latencies:
            return []
        limits = (
            ("median", self.canary.p50, self.p50_limit),
            ("maximum", self.canary.worst, MOST_MS),
        )
        return [f"{name} above {limit:.0f} ms" for name, value, limit in limits if value > limit]

    @property
    def verdict(self) -> str:
        """What the table says."""
        if self.problems:
            return f"**FAIL**: {'; '.join(self.problems + self.slowness)}"
        return f"slow: {'; '.join(self.slowness)}" if self.slowness else "pass"


class Trial:
    """A server with its directory, for one attack."""

    def __init__(self, attack: Attack, binary: Path, certificates: Certificates, run_dir: Path) -> None:
        run_dir.mkdir(parents=True)
        self._attack = attack
        self._directory = Directory(run_dir / "resources", attack.clusters, attack.cluster_bytes)
        setup = attack.setup
        argv: list[str | Path] = [binary, "serve", self._directory.path, "--listen", "127.0.0.1:0"]
        argv += ["-o", "ndjson", "--for", "120s"]
        if setup in (Setup.TLS, Setup.MUTUAL_TLS):
            argv += ["--tls-cert", certificates.server, "--tls-key", certificates.server]
        if setup is Setup.MUTUAL_TLS:
            argv += ["--client-ca", certificates.authority]
        if setup is Setup.REST:
            argv += ["--rest", "127.0.0.1:0"]
        if setup is Setup.CSDS:
            argv += ["--csds", "127.0.0.1:0"]
        if setup is Setup.UNREAD_OUTPUT:
            argv += ["-vv"]
        files = _FEW_FILES if setup is Setup.FEW_FILES else 0
        self._server = Server(argv, run_dir, files=files, reads_output=setup is not Setup.UNREAD_OUTPUT)

        def target(certificate: Path) -> Target:
            addresses = (self._server.serving.get(it) or ":0" for it in ("listen", "rest", "csds"))
            port, rest_port, csds_port = (int(it.rpartition(":")[2]) for it in addresses)
            authority = certificates.authority if setup in (Setup.TLS, Setup.MUTUAL_TLS) else ""
            own = certificate if setup is Setup.MUTUAL_TLS else ""
            return Target(port, rest_port, csds_port, str(authority), str(own))

        self._canary, self._attacker = target(certificates.canary), target(certificates.attacker)

    def run(self, seconds: float) -> Result:
        """Plays the attack; the server is ended afterwards."""
        try:
            return self._run(seconds)
        finally:
            self._server.kill()

    def _start_canary(self, tries: int) -> Helper:
        canary = Helper("canary", self._canary.text(), ",".join(self._attack.canaries), str(tries))
        canary.wait_ready()
        return canary

    def _unloaded(self) -> Canary:
        if "follower" not in self._attack.canaries:
            return _measured(self._start_canary(_UNLOADED_TRIES), {})
        canary = self._start_canary(0)
        editor = Editor(self._directory, self._attack.edit_every)
        time.sleep(self._attack.edit_every * (_UNLOADED_EDITS + 0.5))
        written = editor.stop()
        time.sleep(MOST_MS / 1_000)
        return _measured(canary, written)

    def _run(self, seconds: float) -> Result:
        attack = self._attack
        unloaded = self._unloaded()
        if unloaded.failures or not unloaded.latencies:
            raise SuiteFailed(f"the server does not answer without an attack: {unloaded.failures}")
        result = Result(attack, unloaded=unloaded.p50)
        canary = self._start_canary(0)
        idle, logged = self._server.memory("VmRSS"), self._server.log_bytes()
        attacker = Helper("attacker", attack.name, self._attacker.text(), str(seconds), is_attacker=True)
        memory = PeakMemory(self._server, idle, _END_ATTACK_MIB, attacker)
        editor = Editor(self._directory, attack.edit_every) if attack.edit_every else None
        problem = ""
        try:
            outcome = attacker.result(seconds + 15)
            result.sent, result.statuses = outcome["sent"], Counter(outcome["statuses"])
        except SuiteFailed as failed:
            problem = str(failed)
        written = editor.stop() if editor else {}
        # The server still has to forget the offender.
        time.sleep(_AFTER_SECONDS)
        if "follower" in attack.canaries:
            # The last edits are still on their way.
            time.sleep(_EDIT_SECONDS)
        result.memory = memory.stop()
        result.canary = _measured(canary, written)
        result.log = (self._server.log_bytes() - logged) / 1_024
        if memory.has_ended_attack:
            problem = f"attack ended at {_END_ATTACK_MIB:g} MiB"
        result.problems += self._problems(result, problem)
        return result

    def _problems(self, result: Result, problem: str) -> list[str]:
        problems = [problem] if problem else []
        if not self._server.is_running():
            problems.append("the server ended")
        if result.memory > MOST_MEMORY_MIB:
            problems.append(f"memory above {MOST_MEMORY_MIB:g} MiB")
        if result.log > MOST_LOG_KIB:
            problems.append(f"log above {MOST_LOG_KIB:g} KiB")
        if wrong := self._attack.wrong_statuses(result.statuses):
            problems.append(f"status: {', '.join(wrong)}")
        if not problem and not result.statuses:
            problems.append("no status")
        canary = result.canary
        if canary.failures:
            count = len(canary.failures) + len(canary.latencies)
            (reason, _), *_ = Counter(canary.failures).most_common(1)
            problems.append(f"canary not served {len(canary.failures)} of {count} times ({reason})")
        return problems


def _measured(canary: Helper, written: dict[str, float]) -> Canary:
    measured = canary.result(TIMEOUT * 2 + 5)
    failures = list(measured["failures"])
    if "latencies" in measured:
        return Canary(list(measured["latencies"]), failures)
    latencies = []
    for name, at in written.items():
        # Edits that the server collects into one response arrive with the last of them.
        arrivals = [it for other, it in measured["arrivals"].items() if other >= name]
        seconds = min(arrivals, default=float("inf")) - at
        if seconds <= _EDIT_SECONDS:
            latencies.append(seconds * 1_000)
        else:
            failures.append(f"an edit did not arrive in {_EDIT_SECONDS:g} s")
    return Canary(latencies, failures)
