"""Three `xds serve` that share their rollouts through their source, and of which whoever moves one on is killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from driver.checks import Scenario
from driver.waiting import expect
from driver.xds import Ordering, XdsServe

_REPLICAS = 3
STEPS = 3
# The states of a rollout that completes: phase, and step.
COMPLETED = [*(f"running {step}/{STEPS}" for step in range(1, STEPS + 1)), f"completed {STEPS}/{STEPS}"]
# A server that was killed counts for up to 15 s, and may be killed again.
_POLICY = """steps:
- {{ when: {{ id: "{canaries}" }}, soak: 1s, timeout: 120s }}
- {{ percent: 50, soak: 1s, timeout: 120s }}
- {{ percent: 100, soak: 1s, timeout: 120s }}
"""
_PATIENCE = 120.0


class SharedServers:
    """The servers, and what the source has of their rollouts."""

    def __init__(
        self,
        scenario: Scenario,
        binary: Path,
        source: str,
        flags: Sequence[str | Path],
        canaries: str,
        stored: Callable[[], tuple[str, str]],
    ) -> None:
        """`stored` returns the stored state and the name of the server that has stored it."""
        self._scenario, self._binary, self._source, self._stored = scenario, binary, source, stored
        policy = scenario.directory / "policy.yaml"
        policy.write_text(_POLICY.format(canaries=canaries), encoding="utf-8")
        self._flags = [*flags, "--rollout-policy", policy]
        self.serves = [self._serve() for _ in range(_REPLICAS)]
        self.killed: list[str] = []

    def _serve(self, listen: str = "127.0.0.1:0") -> XdsServe:
        gated = Ordering.MAKE_BEFORE_BREAK
        return XdsServe(self._scenario, self._binary, self._source, listen, ordering=gated, flags=self._flags)

    def state(self) -> dict[str, str]:
        """The state as fields, and the server that has stored it."""
        text, writer = self._stored()
        before, _, why = text.partition(" why=")
        fields = dict(word.split("=", 1) for word in before.split() if "=" in word)
        return {**fields, "why": why, "writer": writer}

    def is_completed(self) -> bool:
        """Whether the newest rollout is completed."""
        state = self.state()
        expect(state["phase"] == "completed", str(state))
        return True

    def kill_at_every_step(self, id_before: str) -> list[str]:
        """Follows the next rollout to its end, and kills whoever moves it on; the states, each once."""
        states: list[str] = []
        seen = ""
        deadline = time.monotonic() + _PATIENCE
        while True:
            state = self.state()
            if state["id"] != id_before and state["generation"] != seen:
                seen = state["generation"]
                states.append(f"{state['phase']} {state['step']}")
                self._kill_writer(state["writer"])
                if state["phase"] in ("completed", "rolled-back"):
                    return states
                deadline = time.monotonic() + _PATIENCE
            expect(time.monotonic() < deadline, f"the rollout has not moved on from {state}")
            time.sleep(0.02)

    def _kill_writer(self, writer: str) -> None:
        """Kills the server that has stored the newest state, and starts it again on its port."""
        number = int(writer.rpartition("-")[2])
        at = next(at for at, serve in enumerate(self.serves) if serve.process_id == number)
        self.serves[at].kill()
        self.killed.append(writer)
        self.serves[at] = self._serve(self.serves[at].address)

    def restart_all(self) -> None:
        """Kills all servers, and starts them again on their ports."""
        for serve in self.serves:
            serve.kill()
        self.serves = [self._serve(serve.address) for serve in self.serves]
