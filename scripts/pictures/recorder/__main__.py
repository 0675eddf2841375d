"""Records the pictures, or with --check compares them with the recorded ones."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from . import schemas, svg, timeline
from .pictures import PICTURES
from .terminal import COLUMNS, Frame, Run, record

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = CHECKOUT / "docs" / "pictures"
#: Largest size of a picture in bytes.
LARGEST = 100_000


def main(arguments):
    is_check = "--check" in arguments
    names = [argument for argument in arguments if argument != "--check"]
    known = [picture.name for picture in PICTURES] + ["timeline"]
    if unknown := [name for name in names if name not in known]:
        print(f"no such picture: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    stale = 0
    for picture in PICTURES:
        if names and picture.name not in names:
            continue
        text = draw(picture)
        if len(text.encode()) > LARGEST:
            raise ValueError(f"{picture.name}.svg has more than {LARGEST} bytes")
        file = FOLDER / f"{picture.name}.svg"
        if not is_check:
            file.write_text(text)
            print(f"{file.relative_to(CHECKOUT)}: {len(text.encode())} bytes")
        elif not file.exists() or file.read_text() != text:
            print(f"{file.relative_to(CHECKOUT)} is not what `scripts/pictures/run {picture.name}` records")
            stale += 1
    # A screenshot is not compared: browsers differ.
    if not is_check and (not names or "timeline" in names):
        timeline.take(os.environ["XDS_BIN"], FOLDER / "timeline.png")
    return 1 if stale else 0


def draw(picture):
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        shutil.copytree(CHECKOUT / "examples" / "config", directory / "examples" / "config")
        schemas.write(directory)
        programs = directory / ".bin"
        programs.mkdir()
        # Not a link: the demo prints how it was started.
        shutil.copy(os.environ["XDS_BIN"], programs / "xds")
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        frames = record(picture.command, directory, environment, picture.frozen)
    if not frames:
        raise ValueError(f"`{picture.command}` printed nothing")
    prompt = [row for command in picture.shown for row in prompt_of(command)]
    if picture.first_rows and len(frames[-1].rows) > picture.first_rows:
        cut = frames[-1].rows[: picture.first_rows]
        frames = [Frame(cut + [[Run(0, "…", "faint")]])]
    frames = [Frame(prompt + frame.rows) for frame in frames]
    title = f"Terminal: {'; '.join(picture.shown)}"
    if picture.animated_rows:
        return svg.animation(title, [Frame(prompt)] + frames, picture.animated_rows)
    return svg.still(title, frames[-1].rows)


def prompt_of(command):
    """Returns the rows of a typed command."""
    if len(command) + 2 > COLUMNS:
        raise ValueError(f"the command does not fit: {command}")
    return [[Run(0, "$", "green bold"), Run(2, command, "bold")]]


sys.exit(main(sys.argv[1:]))
