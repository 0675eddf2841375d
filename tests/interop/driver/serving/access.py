"""The table of rules of RBAC over plaintext, and the calls that are made to each."""

from __future__ import annotations

from typing import Any

from driver.serving.resources import (
    ANY,
    CHECK,
    Resource,
    authenticated,
    chain,
    exact,
    header,
    host,
    listener,
    only,
    override,
    policy,
    prefix,
    rbac,
    route,
    url,
)
from driver.serving.sides import Side
from driver.serving.tables import CLOSED, DENIED, OK, REACHED, UNAVAILABLE, Call, Row, to

_PANICS = "grpc-go 1.85 panics when an override has no rules, and rejects the listener"


def _rejected_by_go(calls: int) -> dict[tuple[Side, int], str]:
    return {(Side.GO, index): CLOSED for index in range(calls)}


def _allowing(about: str, rules: Resource, allowed: tuple[Call, ...], denied: tuple[Call, ...], **fields: Any) -> Row:
    calls = (*allowed, *(Call(**{**call.__dict__, "outcome": "PERMISSION_DENIED"}) for call in denied))
    return Row(f"RBAC: {about}", listener(chain(filters=(rbac("ALLOW", rules),))), calls, **fields)


def with_metadata(*pairs: tuple[str, str]) -> Call:
    """A call with metadata that gets there."""
    return Call("OK", metadata=pairs)


def access() -> list[Row]:
    """Rows about the filter RBAC over plaintext."""
    one, two = with_metadata(("a", "1")), with_metadata(("a", "2"))
    is_one = exact("a", "1")
    binary = with_metadata(("a-bin", "0102"))
    deny_one = rbac("DENY", policy(is_one))
    never = {"metadata": {"filter": "f", "path": [{"key": "k"}], "value": {"string_match": {"exact": "v"}}}}
    always = {"metadata": {**never["metadata"], "invert": True}}
    return [
        _allowing("nothing is allowed", policy({"not_rule": ANY}), (), (OK,)),
        _allowing("everything is allowed", policy(), (OK,), ()),
        _allowing("a header", policy(is_one), (one,), (OK, two, with_metadata(("a", "1"), ("a", "1")))),
        _allowing("a principal's header", policy(ANY, is_one), (one,), (OK, two)),
        _allowing(
            "the beginning of a header",
            policy(header("a", string_match={"prefix": "1"})),
            (one, with_metadata(("a", "10"))),
            (OK, two),
        ),
        _allowing(
            "a header's value in any case",
            policy(header("a", string_match={"exact": "X", "ignore_case": True})),
            (with_metadata(("a", "x")),),
            (OK,),
        ),
        _allowing(
            "a header in capital letters",
            policy(exact("A", "1")),
            (one,),
            (OK,),
            differs={(Side.CORE, 0): "PERMISSION_DENIED"},
            why="C-core compares names of headers as they are, which are in lower case; ours in any case, as Envoy",
        ),
        _allowing(
            "a header within a range",
            policy(header("a", range_match={"start": 1, "end": 2})),
            (one,),
            (OK, two, with_metadata(("a", "x"))),
        ),
        _allowing("a header that is there", policy(header("a", present_match=True)), (one, two), (OK,)),
        _allowing("a header that is not there", policy(header("a", present_match=False)), (OK,), (one, two)),
        _allowing(
            "another header", policy(header("a", string_match={"exact": "1"}, invert_match=True)), (two,), (one, OK)
        ),
        _allowing("the method POST", policy(exact(":method", "POST")), (OK,), ()),
        _allowing("the method GET", policy(exact(":method", "GET")), (), (OK,)),
        _allowing("the header of the path", policy(exact(":path", CHECK)), (OK,), (to("a"),)),
        _allowing(
            "the header of the authority", policy(exact(":authority", "shop")), (OK,), (Call("OK", authority="other"),)
        ),
        _allowing("the header host", policy(exact("host", "shop")), (OK,), (Call("OK", authority="other"),)),
        _allowing("TE, which no rule sees", policy(header("te", present_match=True)), (), (OK,)),
        _allowing(
            "the content type", policy(header("content-type", string_match={"prefix": "application/grpc"})), (OK,), ()
        ),
        _allowing("the user agent", policy(header("user-agent", string_match={"prefix": "grpc-python"})), (OK,), ()),
        _allowing(
            "several values of a header", policy(exact("a", "1,2")), (with_metadata(("a", "1"), ("a", "2")),), (OK, one)
        ),
        _allowing("a binary header that is there", policy(header("a-bin", present_match=True)), (binary,), (OK,)),
        _allowing(
            "a binary header without padding",
            policy(exact("a-bin", "AQI")),
            (binary,),
            (OK,),
            differs={(side, 0): "PERMISSION_DENIED" for side in (Side.CORE, Side.GO)},
            why="the others do not compare its base64 form, as gRFC A41 wants it",
        ),
        _allowing("a binary header with padding", policy(exact("a-bin", "AQI=")), (), (OK, binary)),
        _allowing("a path", policy(url(exact="/a/m")), (to("a"),), (OK, to("b"))),
        _allowing(
            "a principal's path", policy(ANY, url(prefix="/a/")), (to("a"), Call(REACHED, "/a/n")), (OK, to("b"))
        ),
        _allowing(
            "an expression for paths",
            policy(url(safe_regex={"regex": "/[ab]/m"})),
            (to("a"), to("b")),
            (OK, Call("OK", "/a/mm")),
        ),
        _allowing(
            "an address of the client",
            policy(ANY, {"direct_remote_ip": prefix("127.0.0.4", 30)}),
            (Call("OK", source="127.0.0.5"),),
            (OK,),
        ),
        _allowing(
            "a remote address",
            policy(ANY, {"remote_ip": prefix("127.0.0.1", 32)}),
            (OK,),
            (Call("OK", source="127.0.0.5"),),
        ),
        _allowing(
            "a source address",
            policy(ANY, {"source_ip": prefix("127.0.0.1", 32)}),
            (OK,),
            (Call("OK", source="127.0.0.5"),),
        ),
        _allowing("an address of the server", policy({"destination_ip": prefix("127.0.0.0", 8)}), (OK,), ()),
        _allowing("another address of the server", policy({"destination_ip": prefix("127.0.0.2", 32)}), (), (OK,)),
        _allowing("the port of the server", policy({"destination_port": "$PORT"}), (OK,), ()),
        _allowing("another port of the server", policy({"destination_port": 1}), (), (OK,)),
        _allowing("no server name", policy({"requested_server_name": {"exact": ""}}), (OK,), ()),
        _allowing("a server name", policy({"requested_server_name": {"exact": "shop"}}), (), (OK,)),
        _allowing("metadata, which no call has", policy(never), (), (OK,)),
        _allowing("metadata, inverted", policy(always), (OK,), ()),
        _allowing("a principal's metadata", policy(ANY, never), (), (OK,)),
        _allowing("a principal's metadata, inverted", policy(ANY, always), (OK,), ()),
        _allowing("a certificate over plaintext", policy(ANY, authenticated()), (), (OK,)),
        _allowing("not a header", policy({"not_rule": is_one}), (OK, two), (one,)),
        _allowing("not a principal's header", policy(ANY, {"not_id": is_one}), (OK, two), (one,)),
        _allowing(
            "a header and a path",
            policy({"and_rules": {"rules": [is_one, url(exact=CHECK)]}}),
            (one,),
            (OK, to("b", metadata=(("a", "1"),))),
        ),
        _allowing(
            "a header or a path",
            policy({"or_rules": {"rules": [is_one, url(exact="/b/m")]}}),
            (one, to("b")),
            (OK, two),
        ),
        _allowing(
            "a principal's headers",
            policy(ANY, {"and_ids": {"ids": [is_one, exact("b", "1")]}}),
            (with_metadata(("a", "1"), ("b", "1")),),
            (OK, one),
        ),
        _allowing(
            "one of a principal's headers",
            policy(ANY, {"or_ids": {"ids": [is_one, exact("b", "1")]}}),
            (one, with_metadata(("b", "1"))),
            (OK,),
        ),
        _allowing(
            "a permission and a principal",
            policy(is_one, exact("b", "1")),
            (with_metadata(("a", "1"), ("b", "1")),),
            (OK, one, with_metadata(("b", "1"))),
        ),
        Row(
            "RBAC: one of several policies",
            listener(chain(filters=(rbac("ALLOW", policy(is_one), policy(exact("a", "2"))),))),
            (DENIED, one, two),
        ),
        Row(
            "RBAC: a header is denied",
            listener(chain(filters=(deny_one,))),
            (OK, two, Call("PERMISSION_DENIED", metadata=(("a", "1"),))),
        ),
        Row("RBAC: rules that only log", listener(chain(filters=(rbac("LOG", policy(is_one)),))), (OK, one)),
        Row("RBAC: no rules", listener(chain(filters=(rbac(None),))), (OK,)),
        Row("RBAC: no policies to allow", listener(chain(filters=(rbac("ALLOW"),))), (DENIED,)),
        Row("RBAC: no policies to deny", listener(chain(filters=(rbac("DENY"),))), (OK,)),
        Row(
            "RBAC: several filters",
            listener(
                chain(
                    filters=(
                        rbac("DENY", policy(is_one), name="first"),
                        rbac("ALLOW", policy(header("b", present_match=True)), name="second"),
                    )
                )
            ),
            (
                DENIED,
                with_metadata(("b", "1")),
                Call("PERMISSION_DENIED", metadata=(("a", "1"),)),
                Call("PERMISSION_DENIED", metadata=(("a", "1"), ("b", "1"))),
            ),
        ),
        Row(
            "RBAC: routes that override the filter",
            listener(
                chain(
                    host(
                        route(path="/a/m", overrides=override(rbac(None))),
                        route(path="/b/m", overrides=override(rbac("DENY", policy(is_one)))),
                        route(path="/c/m", overrides=override(rbac("DENY", policy(), name="other"))),
                        route(),
                    ),
                    filters=(rbac("DENY", policy()),),
                )
            ),
            (
                DENIED,
                to("a"),
                to("b"),
                to("b", "PERMISSION_DENIED", metadata=(("a", "1"),)),
                to("c", "PERMISSION_DENIED"),
            ),
            differs=_rejected_by_go(5),
            why=_PANICS,
        ),
        Row(
            "RBAC: a virtual host that overrides the filter",
            listener(
                chain(
                    host(
                        route(path="/a/m", overrides=override(rbac("DENY", policy()))),
                        route(),
                        overrides=override(rbac(None)),
                    ),
                    filters=(rbac("DENY", policy()),),
                )
            ),
            (OK, to("a", "PERMISSION_DENIED")),
            differs=_rejected_by_go(2),
            why=_PANICS,
        ),
        Row(
            "RBAC: routes that override one of two filters",
            listener(
                chain(
                    host(route(path="/a/m", overrides=override(rbac(None, name="first"))), route()),
                    filters=(rbac("DENY", policy(), name="first"), rbac("DENY", policy(is_one), name="second")),
                )
            ),
            (DENIED, to("a"), to("a", "PERMISSION_DENIED", metadata=(("a", "1"),))),
            differs=_rejected_by_go(3),
            why=_PANICS,
        ),
        Row(
            "RBAC: routes that override the filter with other rules",
            listener(
                chain(
                    host(
                        route(path="/a/m", overrides=override(rbac("DENY", policy(is_one)))),
                        route(path="/b/m", overrides=override(rbac("DENY", policy(), name="other"))),
                        route(),
                        overrides=override(rbac("ALLOW", policy())),
                    ),
                    filters=(rbac("DENY", policy()),),
                )
            ),
            (OK, to("a"), to("a", "PERMISSION_DENIED", metadata=(("a", "1"),)), to("b")),
        ),
        Row(
            "RBAC: a call without a route",
            listener(chain(only("/a/m"), filters=(rbac("DENY", policy()),))),
            (UNAVAILABLE, to("a", "PERMISSION_DENIED")),
        ),
    ]
