"""What an attack is: a function for the attacker's process, and what its server and its verdict need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from suite.target import Target


class Setup(Enum):
    """How the server of an attack is started."""

    PLAIN = "without TLS"
    TLS = "with TLS"
    MUTUAL_TLS = "with TLS and certificates of clients"
    REST = "with REST-JSON"
    CSDS = "with CSDS"
    UNREAD_OUTPUT = "with pipes that nobody reads"
    FEW_FILES = "with 1,024 file descriptors"


@dataclass
class Outcome:
    """What the attacker did, and how the server answered."""

    sent: str
    """What was sent, with numbers."""
    statuses: Counter[str] = field(default_factory=Counter)
    """How often the offender saw each status."""


@dataclass(frozen=True)
class Attack:
    """One attack."""

    name: str
    offence: str
    """What the offender does."""
    run: Callable[[Target, float], Outcome]
    """The attack, until a time of the monotonic clock."""
    allowed: tuple[str, ...]
    """Beginnings of statuses that the offender may get. Any other status fails the attack."""
    seconds: float = 3.0
    """Duration."""
    setup: Setup = Setup.PLAIN
    clusters: int = 5
    """Number of clusters in the directory."""
    cluster_bytes: int = 0
    """Bytes by which each cluster that never changes is padded."""
    canaries: tuple[str, ...] = ("grpc",)
    """Kinds of canaries, which take turns."""
    waits: bool = False
    """Whether the attacker mostly waits for a time limit of the server. Such attacks run in parallel."""
    edit_every: float = 0.0
    """Seconds between edits of the directory; 0 for none."""

    def wrong_statuses(self, statuses: Counter[str]) -> list[str]:
        """Statuses that are not allowed."""
        return [status for status in statuses if not status.startswith(self.allowed)]
