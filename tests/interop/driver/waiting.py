"""Waiting for what another process does: always by polling, always with a deadline."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Long enough for a busy machine with two cores; a passing check never waits for it.
PATIENCE = 15.0
INTERVAL = 0.02
# How long nothing may happen where nothing should: who repeats itself does so within milliseconds.
SILENCE = 3.0


class CheckFailed(AssertionError):
    """What a check expected, and what it saw instead."""


class ProcessEnded(CheckFailed):
    """A process is gone that the check cannot do without: waiting longer does not help."""


def expect(condition: object, message: str) -> None:
    """Fails the running check with `message` unless the condition holds."""
    if not condition:
        raise CheckFailed(message)


def eventually(what: str, probe: Callable[[], T], patience: float = PATIENCE) -> T:
    """Returns the first true answer of `probe`; fails when there is none within `patience` seconds.

    A probe may raise `CheckFailed` to say what is still missing; a peer that cannot be reached
    yet counts as "not yet", too.
    """
    deadline = time.monotonic() + patience
    while True:
        last: object
        try:
            answer = probe()
            if answer:
                return answer
            last = answer
        except ProcessEnded:
            raise
        except (CheckFailed, OSError, http.client.HTTPException) as error:
            last = f"{type(error).__name__}: {error}"
        if time.monotonic() >= deadline:
            raise CheckFailed(f"{what}: not within {patience:g} s; last seen: {last}")
        time.sleep(INTERVAL)


def settled(what: str, probe: Callable[[], T], seconds: float) -> T:
    """Waits until the answer of `probe` is the same for `seconds`, and returns it.

    For what is still on its way when a check begins: who repeats itself without end never settles,
    and who repeats itself once is found by what the check expects of the answer.
    """
    return eventually(what, lambda: stays(what, probe, seconds))


def stays(what: str, probe: Callable[[], T], seconds: float) -> T:
    """Returns the answer of `probe` if it is the same all the time for `seconds`; fails otherwise."""
    first = probe()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(INTERVAL)
        now = probe()
        expect(now == first, f"{what}: changed from {first} to {now}")
    return first
