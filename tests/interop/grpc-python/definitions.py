"""Prints the definitions of xds-protos as lines of JSON: `definitions.py PACKAGE..`, with the packages below."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import validate.validate_pb2  # noqa: F401  # Its extensions are options, which are unknown fields otherwise.
import xds
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

_SCALARS = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}


def main() -> None:
    root = Path(next(iter(xds.__path__))).parent
    found: dict[str, Any] = {}
    for package in sys.argv[1:]:
        for file in sorted((root / package.replace(".", "/")).rglob("*_pb2.py")):
            name = ".".join(file.relative_to(root).with_suffix("").parts)
            try:
                module = importlib.import_module(name)
            except TypeError:
                # Conformance tests of CEL are in files whose imports the package lacks.
                continue
            for message in module.DESCRIPTOR.message_types_by_name.values():
                _message(message, found)
            for enumeration in module.DESCRIPTOR.enum_types_by_name.values():
                _enumeration(enumeration, found)
    for _, line in sorted(found.items()):
        print(json.dumps(line))


def _message(message: Descriptor, found: dict[str, Any]) -> None:
    found[message.full_name] = {
        "name": message.full_name,
        "fields": [_field(field) for field in sorted(message.fields, key=lambda it: it.number)],
        "oneofs": [{"name": it.name, "options": _options(it.GetOptions())} for it in message.oneofs],
    }
    for nested in message.nested_types:
        _message(nested, found)
    for enumeration in message.enum_types:
        _enumeration(enumeration, found)


def _field(field: FieldDescriptor) -> dict[str, Any]:
    kind = field.message_type or field.enum_type
    return {
        "number": field.number,
        "name": field.name,
        "json_name": field.json_name,
        "type": kind.full_name if kind else _SCALARS[field.type],
        "repeated": field.is_repeated,
        "presence": field.has_presence,
        "oneof": field.containing_oneof.name if field.containing_oneof else None,
        "options": _options(field.GetOptions()),
    }


def _enumeration(enumeration: EnumDescriptor, found: dict[str, Any]) -> None:
    values = [{"number": it.number, "name": it.name} for it in enumeration.values]
    found[enumeration.full_name] = {"name": enumeration.full_name, "values": values}


def _options(options: Message) -> str:
    return options.SerializeToString(deterministic=True).hex()


main()
