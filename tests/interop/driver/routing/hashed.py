"""Ring hash: which of several backends gets a call, by the hash of its headers."""

from __future__ import annotations

from typing import Any

from driver.routing.tables import Metadata, Table, to

_SHOPS = ("north", "south")
_USERS = tuple(f"user-{number}" for number in range(50))


def _header(name: str, *, terminal: bool = False, rewrite: tuple[str, str] | None = None) -> dict[str, Any]:
    header: dict[str, Any] = {"header_name": name}
    if rewrite is not None:
        pattern, substitution = rewrite
        header["regex_rewrite"] = {"pattern": {"regex": pattern}, "substitution": substitution}
    return {"header": header, "terminal": terminal}


def _by(path: str, *policies: dict[str, Any]) -> dict[str, Any]:
    return {"match": {"path": path}, "route": {"cluster": "a", "hash_policy": list(policies)}}


def _metadata() -> tuple[Metadata, ...]:
    users: list[Metadata] = [[["user", user]] for user in _USERS]
    both: list[Metadata] = [[["user", user], ["shop", shop]] for user in _USERS[:20] for shop in _SHOPS]
    twice: list[Metadata] = [[["user", user], ["user", "too"]] for user in _USERS[:5]]
    return (*users, *both, *twice)


# Each call has a hash. C-core finds no header by a name with capitals, so its hash is random then.
HASHED = Table(
    "hashes of headers",
    [
        _by("/s/user", _header("user")),
        _by("/s/both", _header("user"), _header("shop")),
        _by("/s/reversed", _header("shop"), _header("user")),
        _by("/s/terminal", _header("absent", terminal=True), _header("user", terminal=True), _header("shop")),
        _by("/s/ended", _header("user"), _header("absent", terminal=True), _header("shop")),
        _by("/s/rewritten", _header("user", rewrite=("^(user-.).*$", r"\1"))),
        _by("/s/type", _header("content-type"), _header("user-bin")),
        # Not among the calls.
        to("a", path="/s/none"),
    ],
    ("/s/user", "/s/both", "/s/reversed", "/s/terminal", "/s/ended", "/s/rewritten", "/s/type"),
    _metadata(),
)
