"""Turns into the program named by its arguments, which then ends when our own process does.

A driver that is killed cannot clean up after itself. On Linux the kernel does it: the signal asked
for here survives `exec`. Elsewhere only the driver's own clean-up remains.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(how: signal.Signals) -> None:
    """Has the kernel send our own process a signal when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, how)


def main() -> None:
    end_with_parent(signal.SIGKILL)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")


if __name__ == "__main__":
    main()
