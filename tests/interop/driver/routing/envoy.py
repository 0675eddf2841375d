"""Where Envoy has rules of its own: by table, what it makes of which calls, and why gRPC makes something else of them.

Codes are gRPC's: to a call of gRPC, Envoy states its own failures so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from driver.routing.tables import Table, rest, tables, to, where


@dataclass(frozen=True)
class Differences:
    """What is different about a table."""

    # Why Envoy rejects it, in its own words, and the routes that it is given it without.
    rejects: str = ""
    without: tuple[int, ...] = ()
    # Calls that the two send elsewhere, in the words of the check, and why.
    calls: dict[str, str] = field(default_factory=dict)


_NO_ROUTE = "without a route, Envoy's 404 is UNIMPLEMENTED; gRPC fails with UNAVAILABLE (A28)"
_REDIRECT = "Envoy sends the redirect, which is UNKNOWN; gRPC has none, and fails with UNAVAILABLE (A36)"
_CLUSTER_HEADER = "Envoy takes the route, and has no cluster without the header; gRPC passes over it (A28)"
_BINARY = "Envoy sees binary headers; gRPC matches none of them (A28)"
_QUERY = "Envoy takes what is behind a question mark for parameters; gRPC has none, and it is part of the path"
_VALUES = "Envoy asks each value of a header by itself; gRPC asks all of them at once, with commas between (A28)"
_SPACE = "over HTTP the space before a value is not part of it"


def differences() -> dict[str, Differences]:
    """By what each table is about."""
    return {
        "no route for some": Differences(calls=_each(("/S/m", "/s/", "/s/M", "/s/m/n", "/s/mm"), 14, 12, _NO_ROUTE)),
        "routes that clients cannot take": Differences(calls=_each(("/s/m",), 14, 2, _REDIRECT)),
        "routes that are passed over": Differences(
            # Of the table without, the rest is another one.
            rejects="cluster_specifier",
            without=(2,),
            calls=_each(("/s/m",), "e", 14, _CLUSTER_HEADER),
        ),
        "headers that are some text": Differences(
            calls=_each(("/s/m",), "e", "a", _VALUES, [["k", "one"], ["k", "two"]])
        ),
        "headers that are some text of any case": Differences(
            calls=_each(("/s/m",), "e", "a", _VALUES, [["k", "one"], ["k", "Two"]])
        ),
        "headers by expression, and in a range": Differences(
            calls=_each(("/s/m",), "e", "b", _SPACE, [["k", " 3"]])
            | _each(("/s/m",), "e", "a", _VALUES, [["k", "abc"], ["k", "abd"]]),
        ),
        "paths with a question mark, which is a character as any other": Differences(
            calls=_each(("/s/m?q=1",), "b", "a", _QUERY)
            | _each(("/s/m?q=2",), "e", "a", _QUERY)
            | _each(("/t/m?q=1",), "c", "e", _QUERY),
        ),
        "parameters in a path": Differences(calls=_each(("/s/m?q=1",), "e", "a", _QUERY)),
        "binary headers": Differences(calls=_each(("/s/m",), "e", "a", _BINARY, [["k-bin", "AQID"]])),
    }


def _each(
    paths: Iterable[str], ours: str | int, envoy: str | int, why: str, metadata: list[list[str]] | None = None
) -> dict[str, str]:
    return {f"{path} {metadata or []}: ours {ours}, Envoy {envoy}": why for path in paths}


def envoy_tables() -> list[Table]:
    """Those that C-core and ours have, and some that only Envoy has an own way with."""
    own = [
        Table(
            "parameters in a path",
            [to("a", prefix="", query_parameters=[{"name": "q"}]), rest()],
            ("/s/m", "/s/m?q=1", "/s/m?p=1"),
        ),
        Table(
            "binary headers",
            [where("a", "k-bin", present_match=True), rest()],
            metadata=([], [["k-bin", "AQID"]]),
        ),
        Table(
            "routes for calls of gRPC only",
            [to("a", prefix="/s/", grpc={}), rest()],
            ("/s/m", "/t/m"),
        ),
    ]
    return [*tables(), *own]


def without_rejected(table: Table, difference: Differences) -> Table:
    """The table as Envoy takes it."""
    routes = [route for index, route in enumerate(table.routes) if index not in difference.without]
    return replace(table, routes=routes)
