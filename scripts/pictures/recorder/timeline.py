"""Screenshot of a simulator's timeline, taken by a headless browser."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "chrome"]
#: Largest size of the screenshot in bytes.
LARGEST = 150_000
WINDOW = "1240,740"
#: A run in which a client rejects a resource and its stream is reset, and the event that is shown.
RUN = [
    "--seed=52",
    "--options=clients=1 types=2 names=2 operations=16 actions={set-bad,set-back,delete} faults={reset}",
]
EVENT = 28


def take(xds, picture):
    browser = os.environ.get("XDS_BROWSER") or next(filter(shutil.which, BROWSERS), None)
    if browser is None:
        print("timeline.png: not taken, because there is no chromium; XDS_BROWSER names a browser")
        return
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "run.html"
        shot = Path(directory) / "shot.png"
        subprocess.run([xds, "sim", "replay", *RUN, "--html", page], check=True)
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1"]
        subprocess.run(
            [browser, *flags, f"--screenshot={shot}", f"--window-size={WINDOW}", f"{page.as_uri()}#event={EVENT}"],
            check=True,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
        if shot.stat().st_size > LARGEST:
            raise ValueError(f"the screenshot has more than {LARGEST} bytes")
        shutil.copyfile(shot, picture)
    print(f"{picture.name}: {picture.stat().st_size} bytes")
