"""The tables of routes, and the calls that both clients make by each.

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


@dataclass(frozen=True)
class Table:
    """Routes, calls, and of each weighted route which share of its calls comes to which backend."""

    about: str
    routes: list[Any]
    paths: tuple[str, ...] = ("/s/m",)
    metadata: tuple[Metadata, ...] = ([],)
    shares: dict[str, float] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    # Calls that the two send elsewhere, in the words of the check, and why.
    explained: dict[str, str] = field(default_factory=dict)

    def calls(self) -> list[dict[str, Any]]:
        """A thousand: each combination of a path and metadata, as often as it takes, in a random order."""
        every: Iterator[tuple[str, Metadata]] = itertools.cycle(itertools.product(self.paths, self.metadata))
        calls = [{"path": path, "metadata": metadata} for path, metadata in itertools.islice(every, CALLS)]
        random.Random(self.about).shuffle(calls)
        return calls

    def virtual_hosts(self, marker: str) -> list[Any]:
        """The routes, behind one by which can be seen that they are in use, and before one that keeps all
        clusters subscribed to."""
        mark = {"match": {"path": marker}, "route": {"cluster": "a"}}
        everything = {"clusters": [{"name": name, "weight": 1} for name in CLUSTERS]}
        keep = {"match": {"path": "/nobody/asks"}, "route": {"weighted_clusters": everything}}
        if self.domains:
            return [
                {
                    "name": domain,
                    "domains": [domain],
                    "routes": [mark, keep, {"match": {"prefix": ""}, "route": {"cluster": cluster}}],
                }
                for domain, cluster in self.domains.items()
            ]
        return [{"name": "all", "domains": ["*"], "routes": [mark, *self.routes, keep]}]


def _to(cluster: str, **match: Any) -> Any:
    return {"match": match or {"prefix": ""}, "route": {"cluster": cluster}}


def _if(cluster: str, header: str, **rule: Any) -> Any:
    return _to(cluster, prefix="", headers=[{"name": header, **rule}])


def _values(header: str, *values: str) -> tuple[Metadata, ...]:
    """Calls without the header, with each of the values, and with two of them."""
    return ([], *([[header, value]] for value in values), [[header, value] for value in values[:2]])


def tables() -> list[Table]:
    """All of them."""
    rest = _to("e")
    case = ("/s/m", "/S/m", "/s/M", "/s/mm", "/s/", "/t/m", "/s/m/n")
    return [
        Table("a path before a prefix", [_to("a", path="/s/m"), _to("b", prefix="/s/"), rest], case),
        Table("a prefix before a path", [_to("b", prefix="/s/"), _to("a", path="/s/m"), rest], case),
        Table(
            "paths of any case",
            [_to("a", path="/S/M", case_sensitive=False), _to("b", prefix="/S/", case_sensitive=False), rest],
            case,
        ),
        Table("a prefix that ends in a name", [_to("a", prefix="/s/m"), _to("b", prefix="/"), rest], case),
        Table(
            "expressions match whole paths",
            [_to("a", safe_regex={"regex": "/s/m"}), _to("b", safe_regex={"regex": "/[st]/m+"}), rest],
            case,
        ),
        Table(
            "expressions of any case, with alternatives",
            [_to("a", safe_regex={"regex": "(?i)/s/m|/t"}), _to("b", safe_regex={"regex": "/t/.*|.*/n"}), rest],
            case,
        ),
        Table("no route for some", [_to("a", path="/s/m"), _to("b", path="/t/m")], case),
        Table(
            "routes that clients cannot take",
            [
                _to("a", prefix="/t/"),
                {"match": {"path": "/s/m"}, "redirect": {}},
                {"match": {"path": "/S/m"}, "non_forwarding_action": {}},
                rest,
            ],
            case,
        ),
        Table(
            "routes that are passed over",
            [
                {"match": {"path": "/s/m"}, "route": {"cluster_header": "h"}},
                _to("b", prefix="", query_parameters=[{"name": "q"}]),
                {"match": {"path": "/t/m"}, "route": {"timeout": "1s"}},
                rest,
            ],
            case,
        ),
        Table(
            "headers that are some text",
            [
                _if("a", "k", exact_match="one"),
                _if("b", "k", prefix_match="tw"),
                _if("c", "k", suffix_match="ee"),
                _if("d", "k", contains_match="ou"),
                rest,
            ],
            metadata=_values("k", "one", "two", "three", "four", "One", "1", ""),
        ),
        Table(
            "headers that are some text of any case",
            [
                _if("a", "k", string_match={"exact": "ONE", "ignore_case": True}),
                _if("b", "k", string_match={"prefix": "TW", "ignore_case": True}),
                _if("c", "k", string_match={"suffix": "EE", "ignore_case": True}),
                _if("d", "k", string_match={"contains": "OU", "ignore_case": True}),
                rest,
            ],
            metadata=_values("k", "one", "Two", "threE", "fOUr", "five"),
        ),
        Table(
            "headers by expression, and in a range",
            [
                _if("a", "k", safe_regex_match={"regex": "[a-c]+"}),
                _if("b", "k", range_match={"start": -5, "end": 10}),
                _if("c", "k", string_match={"safe_regex": {"regex": "x.z"}}),
                rest,
            ],
            metadata=_values("k", "abc", "abd", "-5", "9", "10", "+3", "3.0", " 3", "xyz", "0x3"),
            explained={
                "/s/m [['k', ' 3']]: ours e, C-core b": "a number with a space before it is a number to C-core alone; "
                "no header comes like that over HTTP/2"
            },
        ),
        Table(
            "headers that are there, or not",
            [_if("a", "k", present_match=False), _if("b", "l", present_match=True), rest],
            metadata=([], [["k", "v"]], [["l", "v"]], [["k", "v"], ["l", ""]]),
        ),
        Table(
            "headers that are not what is said",
            [
                _if("a", "k", exact_match="one", invert_match=True),
                _if("b", "l", present_match=True, invert_match=True),
                _if("c", "l", prefix_match="v", invert_match=True),
                rest,
            ],
            metadata=([], [["k", "one"]], [["k", "one"], ["l", "v"]], [["k", "one"], ["l", "w"]], [["k", "two"]]),
        ),
        Table(
            "several headers, all of which must fit",
            [
                _to("a", prefix="/s/", headers=[{"name": "k", "exact_match": "v"}, {"name": "l", "exact_match": "w"}]),
                _to("b", prefix="", headers=[{"name": "k", "exact_match": "v"}]),
                rest,
            ],
            case,
            ([], [["k", "v"]], [["l", "w"]], [["k", "v"], ["l", "w"]]),
        ),
        Table(
            "headers that a call has by itself, and such that nobody matches",
            [
                _if("a", "k-bin", present_match=True),
                _if("b", "content-type", exact_match="application/grpc"),
                rest,
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
            [_to("a", prefix="", runtime_fraction={"default_value": {"numerator": 25}}), rest],
            shares={"a": 0.25, "e": 0.75},
        ),
        Table(
            "fractions of ten thousand and of a million, and of nothing",
            [
                _to("a", prefix="", runtime_fraction={"default_value": {"numerator": 0, "denominator": "MILLION"}}),
                _to("b", prefix="", runtime_fraction={"default_value": {"numerator": 5000, "denominator": "TEN_THOUSAND"}}),
                _to("c", prefix="", runtime_fraction={"default_value": {"numerator": 400000, "denominator": "MILLION"}}),
                rest,
            ],
            shares={"b": 0.5, "c": 0.2, "e": 0.3},
        ),
        Table("an exact domain first", [], domains={"*": "a", "s*": "b", "*c": "c", "svc": "d"}),
        Table("the longer end before the longer beginning", [], domains={"*": "a", "sv*": "b", "*c": "c"}),
        Table("the longest beginning", [], domains={"s*": "a", "*": "b", "sv*": "c", "svcs*": "d"}),
        Table("any case of a domain", [], domains={"*": "a", "SVC": "b"}),
    ]
