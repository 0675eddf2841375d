"""Where ours and another one send the same calls, call by call or by their shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from driver.routing.tables import Table
from driver.waiting import expect

# A letter of a cluster, the number of a status, or what else became of a call.
Outcome = str | int

# How many standard deviations a share may be off; of a thousand runs, less than one is, for any of the shares.
_DEVIATIONS = 5.0


def told(outcomes: Sequence[Outcome]) -> str:
    """How many calls went where."""
    return ", ".join(f"{count} {where}" for where, count in sorted(Counter(outcomes).items(), key=str))


def expect_same(
    calls: Sequence[Mapping[str, Any]],
    ours: Sequence[Outcome],
    other: str,
    theirs: Sequence[Outcome],
    explained: Mapping[str, str],
) -> None:
    """Both send each call to the same cluster, but for those that are explained."""
    different = {
        f"{call['path']} {call['metadata']}: ours {left}, {other} {right}"
        for call, left, right in zip(calls, ours, theirs, strict=True)
        if left != right
    }
    unexplained = different ^ set(explained)
    expect(not unexplained, "\n".join(sorted(unexplained)))


def expect_shares(who: str, outcomes: Sequence[Outcome], shares: Mapping[str, float]) -> None:
    """The calls are split as they should be, within what chance does."""
    found = Counter(outcomes)
    expect(set(found) == set(shares), f"{who}: {found}")
    for name, share in shares.items():
        bound = _DEVIATIONS * sqrt(len(outcomes) * share * (1 - share))
        off = abs(found[name] - len(outcomes) * share)
        expect(off <= bound, f"{who}: {found[name]} calls to {name}, {off:.0f} off, more than {bound:.0f}")


def but(explained: Mapping[str, str]) -> str:
    """What is different, and why, for the title of a check."""
    reasons: dict[str, list[str]] = {}
    for call, why in explained.items():
        reasons.setdefault(why, []).append(call)
    return "".join(f", but for {'; '.join(calls)}: {why}" for why, calls in reasons.items())
