"""What both sides know of cncf/xds: every message, field, oneof and enum value, with its constraints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from driver import workspace
from driver.checks import Scenario
from driver.waiting import expect

Definitions = dict[str, dict[str, Any]]

_WHOLE = ["xds", "udpa"]
# Ours has of these what xds.type.v3.CelExpression refers to; conformance tests are beside it.
_IN_PART = ["cel.expr", "google.api.expr.v1alpha1"]

# Fields that are younger than the package. A release that has one makes the check fail, and the line goes.
_NEWER = {("google.api.expr.v1alpha1.Decl.FunctionDecl", "doc")}


def agrees_on_definitions(scenario: Scenario, python: Path) -> None:
    """One check for each package."""
    program = workspace.INTEROP / "grpc-python" / "definitions.py"
    ours = _read(workspace.run_binary(workspace.example("schema", "xds-format"), *_WHOLE, *_IN_PART))
    theirs = _read(workspace.run_program(python, program, *_WHOLE, *_IN_PART))
    for package in [*_WHOLE, *_IN_PART]:
        mine = _without_newer({name: it for name, it in ours.items() if name.startswith(f"{package}.")})
        other = {
            name: it
            for name, it in theirs.items()
            if name.startswith(f"{package}.") and (package in _WHOLE or name in mine)
        }
        with scenario.check(f"{len(other)} definitions of {package} are those of xds-protos, field by field"):
            expect(bool(mine), f"ours has nothing of {package}")
            _expect_equal(mine, other)


def _read(lines: str) -> Definitions:
    return {it["name"]: it for it in map(json.loads, lines.splitlines())}


def _without_newer(definitions: Definitions) -> Definitions:
    def older(name: str, it: dict[str, Any]) -> dict[str, Any]:
        if "fields" not in it:
            return it
        return {**it, "fields": [field for field in it["fields"] if (name, field["name"]) not in _NEWER]}

    return {name: older(name, it) for name, it in definitions.items()}


def _expect_equal(ours: Definitions, theirs: Definitions) -> None:
    differences = [f"{name}: ours lacks it" for name in sorted(theirs.keys() - ours.keys())]
    differences += [f"{name}: xds-protos lacks it" for name in sorted(ours.keys() - theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        for part in sorted(ours[name].keys() | theirs[name].keys()):
            mine, other = ours[name].get(part), theirs[name].get(part)
            if mine != other:
                differences.append(f"{name}: {part}: ours {json.dumps(mine)}, xds-protos {json.dumps(other)}")
    expect(not differences, "\n".join(differences))
