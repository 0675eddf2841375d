"""`xds status` of the binary under test: the rows that it reads, and its comparison of two endpoints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from driver.checks import comment
from driver.waiting import eventually, expect
from driver.xds import TYPE_URLS

_PATIENCE = 30.0


@dataclass(frozen=True, order=True)
class ResourceRow:
    """One resource of a client."""

    type: str
    name: str
    version: str
    status: str


def read(binary: Path, address: str, *arguments: str) -> list[dict[str, object]]:
    """The resources that `xds status` reads from one endpoint."""
    done = _run([binary, "status", address, "-o", "ndjson", *arguments])
    expect(done.returncode == 0, f"xds status {address}: exit code {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(binary: Path, address: str, *arguments: str) -> list[ResourceRow]:
    """Type, name, version and status of each resource, sorted."""
    found = read(binary, address, *arguments)
    return sorted(
        ResourceRow(str(it["type"]), str(it["name"]), str(it["version"]), str(it["status"])) for it in found
    )


def expect_table(binary: Path, address: str, expected: list[ResourceRow]) -> None:
    """The table for people has a line for each row, in the same order."""
    done = _run([binary, "status", address])
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr}")
    comment(done.stdout)
    cells = [line.split() for line in done.stdout.splitlines()]
    found = [(line[0], line[1], line[-1]) for line in cells if len(line) == 5 and line[0] in TYPE_URLS]
    expect(found == [(it.type, it.name, it.status) for it in expected], done.stdout)


def wait_same(binary: Path, first: str, second: str, *arguments: str, same: int) -> None:
    """Waits until two endpoints report the same of a number of resources, and differ in none."""

    def probe() -> bool:
        done = _run([binary, "status", first, second, "-o", "json", *arguments])
        expect(done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
        expect(json.loads(done.stdout)["same"] == same, done.stdout)
        return True

    eventually("no difference", probe)


def differences(binary: Path, first: str, second: str, *arguments: str) -> list[tuple[str, str, str]]:
    """Type, name and kind of what differs between two endpoints; the exit code has to be 1."""
    done = _run([binary, "status", first, second, "-o", "json", *arguments])
    expect(done.returncode == 1, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    found = json.loads(done.stdout)["differences"]
    return [(it["type"], it["name"], it["difference"]) for it in found]


def grpcdebug_rows(address: str) -> list[ResourceRow] | None:
    """What `grpcdebug ADDRESS xds status` prints; `None` if the program is not installed.

    Its columns are scope, name, status, version, type URL and an age of several words.
    """
    program = shutil.which("grpcdebug")
    if program is None:
        return None
    done = _run([Path(program), address, "xds", "status"])
    expect(done.returncode == 0, f"grpcdebug: exit code {done.returncode}: {done.stderr}")
    return _table_rows(done.stdout)


def _table_rows(table: str) -> list[ResourceRow]:
    """The rows of a table whose cells begin below their headings. A cell may be empty."""
    heading, *lines = table.splitlines()
    begins = [found.start() for found in re.finditer(r"\S+", heading)]
    columns = {heading[a:b].strip(): slice(a, b) for a, b in zip(begins, [*begins[1:], None])}
    types = {url: name for name, url in TYPE_URLS.items()}

    def row(line: str) -> ResourceRow:
        type_url, name, version, status = (line[columns[it]].strip() for it in ("Type", "Name", "Version", "Status"))
        return ResourceRow(types[type_url], name, version, status)

    return sorted(row(line) for line in lines)


def _run(argv: list[Path | str]) -> subprocess.CompletedProcess[str]:
    environment = {name: it for name, it in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
        env=environment,
    )
