"""All attacks, in the order in which they run."""

from __future__ import annotations

from suite import bodies, calls, floods, http1, silence, subscriptions, tls
from suite.attack import Attack

ATTACKS: tuple[Attack, ...] = (
    *floods.ATTACKS,
    *bodies.ATTACKS,
    *subscriptions.ATTACKS,
    *calls.ATTACKS,
    *http1.ATTACKS,
    *tls.ATTACKS,
    *silence.ATTACKS,
)


def by_name(name: str) -> Attack:
    """The attack with a name."""
    return next(it for it in ATTACKS if it.name == name)
