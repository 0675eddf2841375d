"""The tables of routes, and the calls that are made by each.

Backends have letters, `a` to `e`, each with a cluster of that name. A call has no body: it is a path and metadata.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CLUSTERS = "abcde"
CALLS = 1000

Metadata = list[list[str]]


_MISSING = "C-core does not read `treat_missing_header_as_empty`; ours does, as Envoy"


@dataclass(frozen=True)
class Table:
    """Routes, calls, and of each weighted route which share of its calls comes to which backend."""

    about: str
    routes: list[Any]
    paths: tuple[str, ...] = ("/s/m",)
    metadata: tuple[Metadata, ...] = ([],)
    shares: dict[str, float] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    # Calls that C-core and ours send elsewhere, in the words of the check, and why.
    explained: dict[str, str] = field(default_factory=dict)

    def calls(self) -> list[dict[str, Any]]:
        """A thousand: each combination of a path and metadata, as often as it takes, in a random order."""
        every: Iterator[tuple[str, Metadata]] = itertools.cycle(itertools.product(self.paths, self.metadata))
        calls = [{"path": path, "metadata": metadata} for path, metadata in itertools.islice(every, CALLS)]
        random.Random(self.about).shuffle(calls)
        return calls

    def virtual_hosts(self, number: int) -> list[Any]:
        """The routes, behind those by which can be seen that they are in use (`marks`)."""
        marks = [to(name, path=path) for name, path in zip(CLUSTERS, self.marks(number), strict=True)]
        if self.domains:
            return [
                {"name": domain, "domains": [domain], "routes": [*marks, to(cluster)]}
                for domain, cluster in self.domains.items()
            ]
        return [{"name": "all", "domains": ["*"], "routes": [*marks, *self.routes]}]

    @staticmethod
    def marks(number: int) -> list[str]:
        """A path to each cluster, in their order: no other table sends all of these there. They keep all
        clusters in use, too."""
        return [f"/marker-{number}/{name}" for name in CLUSTERS]


def to(cluster: str, **match: Any) -> Any:
    """A route to a cluster; for all calls if nothing is said of them."""
    return {"match": match or {"prefix": ""}, "route": {"cluster": cluster}}


def rest() -> Any:
    """The route of all other calls."""
    return to("e")


def where(cluster: str, header: str, **rule: Any) -> Any:
    """A route to a cluster for calls with such a header."""
    return to(cluster, prefix="", headers=[{"name": header, **rule}])


def _values(header: str, *values: str) -> tuple[Metadata, ...]:
    """Calls without the header, with each of the values, and with two of them."""
    return ([], *([[header, value]] for value in values), [[header, value] for value in values[:2]])


def tables() -> list[Table]:
    """All of them."""
    case = ("/s/m", "/S/m", "/s/M", "/s/mm", "/s/", "/t/m", "/s/m/n")
    return [
        Table("a path before a prefix", [to("a", path="/s/m"), to("b", prefix="/s/"), rest()], case),
        Table("a prefix before a path", [to("b", prefix="/s/"), to("a", path="/s/m"), rest()], case),
        Table(
            "paths of any case",
            [to("a", path="/S/M", case_sensitive=False), to("b", prefix="/S/", case_sensitive=False), rest()],
            case,
        ),
        Table("a prefix that ends in a name", [to("a", prefix="/s/m"), to("b", prefix="/"), rest()], case),
        Table(
            "expressions match whole paths",
            [to("a", safe_regex={"regex": "/s/m"}), to("b", safe_regex={"regex": "/[st]/m+"}), rest()],
            case,
        ),
        Table(
            "expressions of any case, with alternatives",
            [to("a", safe_regex={"regex": "(?i)/s/m|/t"}), to("b", safe_regex={"regex": "/t/.*|.*/n"}), rest()],
            case,
        ),
        Table(
            "paths with a question mark, which is a character as any other",
            [to("a", path="/s/m"), to("b", path="/s/m?q=1"), to("c", safe_regex={"regex": "/t/.*1"}), rest()],
            ("/s/m", "/s/m?q=1", "/s/m?q=2", "/t/m", "/t/m?q=1"),
        ),
        Table("no route for some", [to("a", path="/s/m"), to("b", path="/t/m")], case),
        Table(
            "routes that clients cannot take",
            [
                to("a", prefix="/t/"),
                {"match": {"path": "/s/m"}, "redirect": {}},
                {"match": {"path": "/S/m"}, "non_forwarding_action": {}},
                rest(),
            ],
            case,
        ),
        Table(
            "routes that are passed over",
            [
                {"match": {"path": "/s/m"}, "route": {"cluster_header": "h"}},
                to("b", prefix="", query_parameters=[{"name": "q"}]),
                {"match": {"path": "/t/m"}, "route": {"timeout": "1s"}},
                rest(),
            ],
            case,
        ),
        Table(
            "headers that are some text",
            [
                where("a", "k", exact_match="one"),
                where("b", "k", prefix_match="tw"),
                where("c", "k", suffix_match="ee"),
                where("d", "k", contains_match="ou"),
                rest(),
            ],
            metadata=_values("k", "one", "two", "three", "four", "One", "1", ""),
        ),
        Table(
            "headers that are some text of any case",
            [
                where("a", "k", string_match={"exact": "ONE", "ignore_case": True}),
                where("b", "k", string_match={"prefix": "TW", "ignore_case": True}),
                where("c", "k", string_match={"suffix": "EE", "ignore_case": True}),
                where("d", "k", string_match={"contains": "OU", "ignore_case": True}),
                rest(),
            ],
            metadata=_values("k", "one", "Two", "threE", "fOUr", "five"),
        ),
        Table(
            "headers by expression, and in a range",
            [
                where("a", "k", safe_regex_match={"regex": "[a-c]+"}),
                where("b", "k", range_match={"start": -5, "end": 10}),
                where("c", "k", string_match={"safe_regex": {"regex": "x.z"}}),
                rest(),
            ],
            metadata=_values("k", "abc", "abd", "-5", "9", "10", "+3", "3.0", " 3", "xyz", "0x3"),
            explained={
                "/s/m [['k', ' 3']]: ours e, C-core b": "a number with a space before it is a number to C-core alone; "
                "no header comes like that over HTTP/2"
            },
        ),
        Table(
            "headers that are there, or not",
            [where("a", "k", present_match=False), where("b", "l", present_match=True), rest()],
            metadata=([], [["k", "v"]], [["l", "v"]], [["k", "v"], ["l", ""]]),
        ),
        Table(
            "headers that are not what is said",
            [
                where("a", "k", exact_match="one", invert_match=True),
                where("b", "l", present_match=True, invert_match=True),
                where("c", "l", prefix_match="v", invert_match=True),
                rest(),
            ],
            metadata=([], [["k", "one"]], [["k", "one"], ["l", "v"]], [["k", "one"], ["l", "w"]], [["k", "two"]]),
        ),
        Table(
            "headers that are missing, and count as empty",
            [
                where("a", "k", exact_match="one", invert_match=True, treat_missing_header_as_empty=True),
                where("b", "l", string_match={"safe_regex": {"regex": ".*"}}, treat_missing_header_as_empty=True),
                rest(),
            ],
            metadata=([], [["k", "one"]], [["k", "two"]], [["k", "one"], ["l", "v"]]),
            explained={
                "/s/m []: ours a, C-core e": _MISSING,
                "/s/m [['k', 'one']]: ours b, C-core e": _MISSING,
            },
        ),
        Table(
            "several headers, all of which must fit",
            [
                to(
                    "a",
                    prefix="/s/",
                    headers=[{"name": "k", "exact_match": "v"}, {"name": "l", "exact_match": "w"}],
                ),
                to("b", prefix="", headers=[{"name": "k", "exact_match": "v"}]),
                rest(),
            ],
            case,
            ([], [["k", "v"]], [["l", "w"]], [["k", "v"], ["l", "w"]]),
        ),
        Table(
            "headers that a call has by itself, and such that nobody matches",
            [
                where("a", "k-bin", present_match=True),
                where("b", "content-type", exact_match="application/grpc"),
                rest(),
            ],
            metadata=([], [["l", "v"]]),
        ),
        Table(
            "weights",
            [
                {
                    "match": {"prefix": ""},
                    "route": {
                        "weighted_clusters": {
                            "clusters": [
                                {"name": "a", "weight": 1},
                                {"name": "b", "weight": 3},
                                {"name": "c", "weight": 0},
                                {"name": "d", "weight": 6},
                            ]
                        }
                    },
                }
            ],
            shares={"a": 0.1, "b": 0.3, "d": 0.6},
        ),
        Table(
            "a fraction of calls",
            [to("a", prefix="", runtime_fraction={"default_value": {"numerator": 25}}), rest()],
            shares={"a": 0.25, "e": 0.75},
        ),
        Table(
            "fractions of ten thousand and of a million, and of nothing",
            [
                to("a", prefix="", runtime_fraction={"default_value": {"numerator": 0, "denominator": "MILLION"}}),
                to("b", prefix="", runtime_fraction={"default_value": {"numerator": 5000, "denominator": "TEN_THOUSAND"}}),
                to("c", prefix="", runtime_fraction={"default_value": {"numerator": 400000, "denominator": "MILLION"}}),
                rest(),
            ],
            shares={"b": 0.5, "c": 0.2, "e": 0.3},
        ),
        Table("an exact domain first", [], domains={"*": "a", "s*": "b", "*c": "c", "svc": "d"}),
        Table("the longer end before the longer beginning", [], domains={"*": "a", "sv*": "b", "*c": "c"}),
        Table("the longest beginning", [], domains={"s*": "a", "*": "b", "sv*": "c", "svcs*": "d"}),
        Table("any case of a domain", [], domains={"*": "a", "SVC": "b"}),
    ]
