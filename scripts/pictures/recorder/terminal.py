"""Runs a command in a pseudo terminal and emulates the terminal.

The emulated terminal has more rows than any output, so nothing scrolls out of it. Text that differs
between two runs (times, ports) is replaced by text of the same length.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from dataclasses import dataclass, field

import pyte

COLUMNS = 80
ROWS = 400
#: Longest time that a recorded command may take, in seconds.
LIMIT = 60
#: Output after a pause of at least this many seconds is a new frame.
PAUSE = 0.9

#: Text that differs between two runs, and its replacement.
FROZEN = [
    (re.compile(r"\b20\d\d-\d\d-\d\d(?=T\d\d:)"), "2026-01-01"),
    (re.compile(r"(?<!\d)\d\d:\d\d:\d\d\.\d{3}(?!\d)"), "12:00:00.000"),
    # Ports that the system selects. The ports of the pictures are below 20000.
    (re.compile(r"(?<=127\.0\.0\.1:)(?:3[2-9]|[456]\d)\d{3}\b"), "18000"),
]


@dataclass(frozen=True)
class Run:
    """Characters of one row with the same style, from a column on."""

    column: int
    text: str
    style: str


@dataclass
class Frame:
    """Rows of the terminal after some output."""

    rows: list = field(default_factory=list)


def record(command, directory, environment, frozen=()):
    """Runs a shell command and returns its frames, the last of which is the final screen."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    rules = FROZEN + [(re.compile(pattern), text) for pattern, text in frozen]
    frames = []
    last = None
    # Beginning of a line. Text is replaced in whole lines, before the terminal folds them.
    held = b""

    def feed(output):
        text = output.decode(errors="replace")
        for pattern, replacement in rules:
            text = pattern.sub(lambda match: _same_length(match, replacement), text)
        # pyte does not know faint text, so it is recorded as bright black.
        stream.feed(text.replace("\x1b[2m", "\x1b[90m").encode())

    for at, output in _output(command, directory, environment):
        if last is not None and at - last >= PAUSE:
            feed(held)
            held = b""
            frames.append(_frame(screen))
        last = at
        lines, end, rest = (held + output).rpartition(b"\n")
        feed(lines + end)
        held = rest
    feed(held)
    frames.append(_frame(screen))
    return [frame for frame in frames if frame.rows]


def _output(command, directory, environment):
    """Yields the time and the bytes of each piece of output."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    child = subprocess.Popen(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    start = time.monotonic()
    try:
        while True:
            left = LIMIT - (time.monotonic() - start)
            if left <= 0 or not select.select([controller], [], [], left)[0]:
                raise TimeoutError(f"`{command}` is not finished after {LIMIT} s")
            try:
                output = os.read(controller, 65536)
            except OSError:
                return
            if not output:
                return
            yield time.monotonic() - start, output
    finally:
        os.close(controller)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def _frame(screen):
    rows = [_row(screen.buffer[number]) for number in range(ROWS)]
    while rows and not rows[-1]:
        rows.pop()
    return Frame(rows)


def _row(line):
    cells = [line[column] for column in range(COLUMNS)]
    runs = []
    for column, cell in enumerate(cells):
        character = cell.data or " "
        style = _style(cell)
        if runs and runs[-1][2] == style:
            runs[-1][1].append(character)
        else:
            runs.append((column, [character], style))
    runs = [Run(column, "".join(text), style) for column, text, style in runs]
    # Blank ends carry no information, except with a background.
    while runs and not runs[-1].text.strip() and "reverse" not in runs[-1].style:
        runs.pop()
    if runs and "reverse" not in runs[-1].style:
        end = runs.pop()
        runs.append(Run(end.column, end.text.rstrip(), end.style))
    return runs


def _same_length(match, replacement):
    replacement = match.expand(replacement)
    is_at_end = match.string[match.end() :].startswith(("\r", "\n", "\x1b"))
    if len(replacement) != len(match[0]) and not is_at_end:
        raise ValueError(f"the replacement of {match[0]!r} must have its length: {replacement!r}")
    return replacement


def _style(cell):
    names = {"brown": "yellow", "brightblack": "faint", "brightbrown": "yellow"}
    colour = names.get(cell.fg, cell.fg).removeprefix("bright")
    words = [] if colour == "default" else [colour]
    words += ["bold"] if cell.bold else []
    words += ["underline"] if cell.underscore else []
    words += ["reverse"] if cell.reverse else []
    return " ".join(words)
