"""The table of constraints: bootstraps that keep or break one, and whether Envoy and our validator accept them.

The table is in `config/constraints`, one row for each edge value of each kind of rule that the API has. A test of
`xds-format` reads it, too: it shows that no kind of rule is missing, and that our validator decides as the table says.
"""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_CONFIG = Path(__file__).resolve().parent.parent / "config" / "constraints"
_FILES = ("numbers", "texts", "durations", "lists", "messages")
_BOOTSTRAP = "envoy.config.bootstrap.v3.Bootstrap"
_TYPES = {"clusters": "envoy.config.cluster.v3.Cluster", "listeners": "envoy.config.listener.v3.Listener"}
_BY_CONSTRAINT = "Proto constraint validation failed"


@dataclass(frozen=True)
class Row:
    """One bootstrap, and what is expected of both sides."""

    about: str
    content: Json
    # Whether Envoy rejects it, and what it then says.
    envoy_rejects: bool
    envoy_says: tuple[str, ...]
    ours_rejects: bool
    # Why the two differ.
    why: str
    # Why Envoy never gets to see a message like this one; then it is not asked.
    unreachable: str

    def resources(self) -> list[Json]:
        """The clusters and listeners, as `xds check` reads them; nothing if the row is about something else."""
        static = self.content.get("static_resources", {})
        if set(self.content) != {"static_resources"}:
            return []
        return [
            {"@type": f"type.googleapis.com/{_TYPES[kind]}", **copy.deepcopy(resource)}
            for kind in _TYPES
            for resource in static.get(kind, [])
        ]


def rows() -> list[Row]:
    """All of them; one that is expected to be accepted stands beside those that are not."""
    templates = _read("templates")
    groups = [group for name in _FILES for group in _read(name)]
    return [_row(templates, group, row) for group in groups for row in group["rows"]]


def _row(templates: Json, group: Json, row: Json) -> Row:
    name = group["field"].rsplit(".", 1)[1]
    value = json.dumps(row["value"]) if "value" in row else "a message without it" if "set" not in row else "a message"
    # As the C++ of protoc-gen-validate calls the field.
    camel = "".join(part.capitalize() for part in name.split("_"))
    says = (row["says"],) if "says" in row else (_BY_CONSTRAINT, f"ValidationError.{camel}")
    return Row(
        about=f"{group['kind']} ({group['carrier']}, {row['edge']}) of {name}: {value}",
        content=_content(templates, group, row),
        envoy_rejects=row["envoy"] == "reject",
        envoy_says=says,
        ours_rejects=row.get("ours", row["envoy"]) == "reject",
        why=row.get("why", ""),
        unreachable=group.get("unreachable", ""),
    )


def _content(templates: Json, group: Json, row: Json) -> Json:
    root, hole = _apply(templates, group["in"])
    for patch in (group.get("with", {}), row.get("with", {}), row.get("set", {})):
        _merge(hole, _expanded(patch))
    if "set" not in row:
        name = group["field"].rsplit(".", 1)[1]
        hole.pop(name, None)
        if "value" in row:
            hole[name] = _expanded(row["value"])
    return root


def _apply(templates: Json, name: str) -> tuple[Json, Any]:
    """Builds a template and those below it: all of it, and the part that the next one goes to."""
    template = templates[name]
    root: Json = {}
    hole: Any = root
    if "in" in template:
        root, hole = _apply(templates, template["in"])
    _merge(hole, template["set"])
    for step in template.get("at", ()):
        hole = hole[step]
    return root, hole


def _merge(target: Json, patch: Json) -> None:
    """RFC 7396: `null` takes a member away."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def _expanded(value: Any) -> Any:
    """What is too long for a table is written as an object with one member, which says how it is made."""
    match value:
        case {"repeat": [text, times], **rest} if not rest:
            return text * times
        case {"copies": [element, times], **rest} if not rest:
            return [copy.deepcopy(element) for _ in range(times)]
        case {"base64 of": length, **rest} if not rest:
            return base64.b64encode(b"a" * length).decode()
        case dict():
            return {key: _expanded(inner) for key, inner in value.items()}
        case list():
            return [_expanded(inner) for inner in value]
        case _:
            return value


def _read(name: str) -> Any:
    return json.loads((_CONFIG / f"{name}.json").read_text(encoding="utf-8"))
