"""A gRPC application that a scenario drives: it knows its backends only by its management server."""

from __future__ import annotations

import json
from typing import Any

from driver.checks import Scenario
from driver.processes import Argv, EventProcess
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

_RPC_DEADLINE = 5.0
# Of an RPC that has to succeed. The first one of a process on a busy machine includes starting its runtime.
_LONG_RPC_DEADLINE = 15.0
_SHORT_NAMES = {url: name for name, url in TYPE_URLS.items()}


class GrpcApplication:
    """One of the programs in `grpc-*/`: two backends, and a channel to `xds:///svc`."""

    def __init__(self, scenario: Scenario, argv: Argv) -> None:
        self._process = scenario.spawn(EventProcess, "grpc-peer", argv)
        ready = self._process.wait_event("ready", lambda event: event["event"] == "ready")
        self.version: str = ready["version"]
        self.ports: dict[str, int] = ready["backends"]
        # Where it serves its own view (CSDS) over gRPC, if it does.
        self.admin: str | None = ready.get("admin")

    def connect(self, **bootstrap: str) -> None:
        """Makes the channel; what the application does not read from a file is told."""
        self._ask("connected", command="connect", **bootstrap)

    def call(self) -> dict[str, Any]:
        """The outcome of one RPC."""
        return self.end_call(self.begin_call())

    def begin_call(self, seconds: float = _RPC_DEADLINE) -> int:
        """Starts an RPC; its outcome is in the events after the number returned."""
        return self._tell(command="call", seconds=seconds)

    def end_call(self, call: int) -> dict[str, Any]:
        """Waits for the outcome of an RPC."""
        return self._await("answer", call)

    def expect_answer(self, backend: str) -> None:
        """One RPC, which has to succeed."""
        answer = self.end_call(self.begin_call(_LONG_RPC_DEADLINE))
        expect(answer["backend"] == backend, f"instead of {backend}: {answer}")

    def wait_answer(self, backend: str, patience: float | None = None) -> None:
        """RPCs until one is answered by a backend; none of them may fail."""
        answers: list[dict[str, Any]] = []

        def probe() -> bool:
            answers.append(self.call())
            return (answers[-1]["backend"], answers[-1]["code"]) == (backend, "OK") or answers[-1][
                "code"
            ] != "OK"

        more = () if patience is None else (patience,)
        eventually(f"an RPC answered by {backend}", probe, *more)
        expect(answers[-1]["code"] == "OK", f"an RPC failed: {answers[-1]}")

    def wait_recovery(self, backend: str) -> None:
        """RPCs until one is answered, whatever happens to those before.

        Many short ones, not one that waits for the channel to be ready: C-core leaves an RPC that it
        queued under a failed configuration there, until its deadline.
        """
        eventually(f"an RPC answered by {backend}", lambda: self.call()["backend"] == backend)

    def wait_failure(self, code: str = "UNAVAILABLE") -> str:
        """RPCs until one fails, with this code; the details of its status."""

        def probe() -> str:
            answer = self.call()
            expect(answer["code"] == code, f"not {code}: {answer}")
            return str(answer["details"])

        return eventually("an RPC that fails", probe)

    def csds(self) -> dict[str, dict[str, Any]]:
        """The client's own view by type; there is one resource of each."""
        resources = self._ask("csds", command="csds")["resources"]
        return {_SHORT_NAMES[resource["type_url"]]: resource for resource in resources}

    def _ask(self, answer: str, **command: object) -> dict[str, Any]:
        return self._await(answer, self._tell(**command))

    def _tell(self, **command: object) -> int:
        before = len(self._process.events)
        self._process.tell(json.dumps(command))
        return before

    def _await(self, answer: str, after: int) -> dict[str, Any]:
        return self._process.wait_event(answer, lambda event: event["event"] == answer, after)
