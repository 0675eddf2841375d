"""Peers that are played at the same time, each by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.checks import PeerReport, comment

_INTERVAL = 0.2


@dataclass
class _Play:
    """A peer that is being played."""

    peer: str
    process: subprocess.Popen[bytes]
    output: Path
    report: Path


def play_in_parallel(names: Sequence[str], jobs: int, run_dir: Path) -> list[PeerReport]:
    """Plays peers, `jobs` of them at a time. The output of a peer is printed when it has ended."""
    waiting, reports = deque(names), dict[str, PeerReport]()
    playing: list[_Play] = []
    try:
        while waiting or playing:
            while waiting and len(playing) < jobs:
                playing.append(_start(waiting.popleft(), run_dir))
                comment(f"playing {', '.join(play.peer for play in playing)}")
            time.sleep(_INTERVAL)
            for play in [play for play in playing if play.process.poll() is not None]:
                playing.remove(play)
                reports[play.peer] = _finish(play)
    finally:
        for play in playing:
            play.process.terminate()
        for play in playing:
            play.process.wait()
    return [reports[name] for name in names]


def _start(peer: str, run_dir: Path) -> _Play:
    output, report = run_dir / f"{peer}.txt", run_dir / f"{peer}.json"
    command = [sys.executable, "-B", "-m", "driver", "--report", report, peer]
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    return _Play(peer, process, output, report)


def _finish(play: _Play) -> PeerReport:
    """Prints the output of a peer, and returns its report. A driver that ends without one has failed."""
    print(play.output.read_text(errors="replace"), end="", flush=True)
    if play.report.exists():
        return PeerReport(**json.loads(play.report.read_text()))
    report = PeerReport(play.peer)
    report.not_ok(f"{play.peer} is played to the end", f"exit code {play.process.returncode}")
    return report
