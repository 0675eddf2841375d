"""Envoy as the oracle for spellings: the table of `docs/FORMATS.md` says what it accepts, and what that means."""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario
from driver.envoy import Envoy
from driver.envoy_world import Programs
from driver.waiting import expect

_PATIENCE = 60.0
_ADMIN = "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}\n"


@dataclass(frozen=True)
class _Row:
    place: str
    input: str
    accepted: bool
    # Whether what it accepts means what the table says.
    is_same: bool
    same_as: str | None

    def file(self) -> tuple[str, str]:
        """The whole bootstrap and its suffix."""
        if self.place == "YAML":
            return _clusters([self.input]), "yaml"
        if self.place == "JSON":
            return f'{{"static_resources": {{"clusters": [{self.input}]}}}}', "json"
        return self.input, self.place.split()[0].lower()


def agrees_on_spellings(scenario: Scenario, programs: Programs) -> None:
    """Envoy accepts exactly the rows that the table says, and understands them like the spelling beside them."""
    rows = _rows()
    with scenario.check(f"Envoy accepts of {len(rows)} spellings those that docs/FORMATS.md says"):
        with ThreadPoolExecutor(max_workers=2) as pool:
            verdicts = pool.map(lambda it: _verdict(it[1], it[0], scenario.directory, programs.envoy), enumerate(rows))
            wrong = [wrong for wrong in verdicts if wrong]
        expect(not wrong, "\n".join(wrong))
    meant = [row for row in rows if row.place == "YAML" and row.accepted and row.is_same and row.same_as]
    with scenario.check(f"Envoy understands {len(meant)} of them like the spelling beside each"):
        seen = _understood(scenario, programs.envoy, [row.input for row in meant], "inputs")
        same = _understood(scenario, programs.envoy, [row.same_as or "" for row in meant], "canonical")
        wrong = [
            f"{row.input}: {json.dumps(one)}, but {row.same_as}: {json.dumps(other)}"
            for row, one, other in zip(meant, seen, same, strict=True)
            if one != other
        ]
        expect(not wrong, "\n".join(wrong))


def _rows() -> list[_Row]:
    table = (workspace.CHECKOUT / "docs" / "FORMATS.md").read_text(encoding="utf-8")
    rows = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("| ") else []
        if len(cells) == 7 and cells[0] != "in":
            place, given, envoy, _, _, same_as, _ = cells
            rows.append(_Row(place, _text(given), envoy != "no", envoy == "yes", _text(same_as) if same_as else None))
    expect(len(rows) > 200, f"the table has {len(rows)} rows")
    return rows


def _text(cell: str) -> str:
    if cell == "∅":
        return ""
    return cell.strip("`").replace("⏎", "\n").replace("⇥", "\t").replace("␂", "\ufeff")


def _clusters(clusters: list[str]) -> str:
    return "static_resources:\n  clusters:\n" + "".join(f"  - {cluster}\n" for cluster in clusters)


def _verdict(row: _Row, index: int, directory: Path, envoy: Path) -> str | None:
    """What is not as the table says."""
    text, suffix = row.file()
    file = directory / f"{index}.{suffix}"
    file.write_text(text, encoding="utf-8", newline="")
    done = subprocess.run(
        [str(envoy), "--mode", "validate", "--log-level", "error", "--config-path", str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
        check=False,
    )
    if (done.returncode == 0) == row.accepted:
        return None
    return f"{row.place} {row.input!r}: {'rejected' if row.accepted else 'accepted'}: {done.stderr[-500:]}"


def _understood(scenario: Scenario, binary: Path, clusters: list[str], name: str) -> list[dict[str, Any]]:
    """The clusters as Envoy has them, each under a name of its own."""
    named = [re.sub(r"^\{name: c\b", f"{{name: c{index}", cluster) for index, cluster in enumerate(clusters)]
    directory = scenario.directory / name
    directory.mkdir()
    envoy = Envoy(scenario, binary, _ADMIN + _clusters(named), directory=directory)
    envoy.wait_live()
    by_name = {it["cluster"]["name"]: it["cluster"] for it in envoy.config("static_clusters")}
    return [by_name[f"c{index}"] for index in range(len(clusters))]
