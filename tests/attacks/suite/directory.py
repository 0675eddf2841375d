"""The directory that the server serves, and edits of it."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

EDIT_NAME = rb"edit-[0-9]{6}"
EDITED = "edited"
"""Name of the cluster that edits change."""
_CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"


def cluster_name(number: int) -> str:
    """The name of a cluster that never changes."""
    return f"cluster-{number}"


def _cluster(name: str, edit: int = 0, padding: int = 0) -> dict[str, object]:
    return {
        "@type": _CLUSTER,
        "name": name,
        "altStatName": edit_name(edit) + "x" * padding,
        "type": "EDS",
        "edsClusterConfig": {"edsConfig": {"ads": {}, "resourceApiVersion": "V3"}},
        "connectTimeout": "1s",
    }


def edit_name(edit: int) -> str:
    """A name that is in the resources since an edit."""
    return f"edit-{edit:06}"


class Directory:
    """Clusters in two files: one that never changes, and one with a single cluster that each edit replaces."""

    def __init__(self, path: Path, clusters: int, cluster_bytes: int) -> None:
        self.path = path
        path.mkdir()
        names = map(cluster_name, range(clusters - 1))
        fixed = [_cluster(name, padding=cluster_bytes) for name in names]
        (path / "clusters.json").write_text(json.dumps(fixed))
        self._edits = 0
        self._write()

    def _write(self) -> None:
        # A rename replaces the file at once. Hidden files are ignored.
        draft = self.path / ".edited.json"
        draft.write_text(json.dumps([_cluster(EDITED, self._edits)]))
        os.replace(draft, self.path / "edited.json")

    def edit(self) -> tuple[str, float]:
        """Changes the file, and returns the name of the edit with its time."""
        self._edits += 1
        written = time.monotonic()
        self._write()
        return edit_name(self._edits), written


class Editor(threading.Thread):
    """Edits a directory at regular intervals until it is stopped."""

    def __init__(self, directory: Directory, every: float) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self._every = every
        self._stop_asked = threading.Event()
        self.written: dict[str, float] = {}
        """The time of each edit by its name."""
        self.start()

    def run(self) -> None:
        while not self._stop_asked.wait(self._every):
            name, written = self._directory.edit()
            self.written[name] = written

    def stop(self) -> dict[str, float]:
        """Ends the edits, and returns their times by name."""
        self._stop_asked.set()
        self.join()
        return self.written
