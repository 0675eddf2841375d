"""The servers that are compared."""

from __future__ import annotations

import enum


class Side(enum.Enum):
    """Which of the servers."""

    OURS = "ours"
    CORE = "C-core"
    GO = "grpc-go"
