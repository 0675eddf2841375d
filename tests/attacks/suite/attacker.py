"""`python -m suite.attacker NAME TARGET SECONDS`: one attack, whose outcome is printed as JSON."""

from __future__ import annotations

import json
import signal
import sys
import time

from suite.attacks import by_name
from suite.target import Target

# A flood of frames notices its end within much less.
_MARGIN = 10.0


def main() -> None:
    attack, target, seconds = by_name(sys.argv[1]), Target.parse(sys.argv[2]), float(sys.argv[3])
    signal.setitimer(signal.ITIMER_REAL, seconds + _MARGIN)
    outcome = attack.run(target, time.monotonic() + seconds)
    print(json.dumps({"sent": outcome.sent, "statuses": outcome.statuses}))


if __name__ == "__main__":
    main()
