"""The tables of listeners of servers, and the calls that are made to each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.serving.resources import (
    ANY,
    CHECK,
    Resource,
    authenticated,
    chain,
    host,
    listener,
    only,
    policy,
    prefix,
    rbac,
    route,
    routes,
    tls,
)
from driver.serving.sides import Side

# The method is not one of the service: the call has got there.
REACHED = "UNIMPLEMENTED"
_NAMES = (
    "C-core compares all names of a certificate; by gRFC A41, those of DNS count without URIs, "
    "and the subject without both"
)
# There is no connection: it is closed at once.
CLOSED = "CLOSED"
REFUSED = "REFUSED"


@dataclass(frozen=True)
class Call:
    """A call, and what becomes of it."""

    outcome: str
    path: str = CHECK
    authority: str = "shop"
    metadata: tuple[tuple[str, str], ...] = ()
    # The address of the client, if it is another one, and a port.
    source: str | None = None
    source_port: int = 0
    destination: str = "127.0.0.1"
    # The name of the client's certificate, an empty one for TLS without a certificate.
    tls: str | None = None


@dataclass(frozen=True)
class Row:
    """A listener with its routes, and calls."""

    about: str
    listener: Resource
    calls: tuple[Call, ...]
    routes: tuple[Resource, ...] = ()
    # The outcomes of a server that are different, by number of the call, and why.
    differs: Mapping[tuple[Side, int], str] = field(default_factory=dict)
    why: str = ""
    # A listener that has been accepted is in use soon afterwards.
    patience: float = 5.0


OK, UNAVAILABLE, DENIED = Call("OK"), Call("UNAVAILABLE"), Call("PERMISSION_DENIED")


def to(letter: str, outcome: str = REACHED, **call: Any) -> Call:
    """A call that only the filter chain, virtual host or route of this letter has."""
    return Call(outcome, f"/{letter}/m", **call)


def by(letter: str, **match: Any) -> Resource:
    """A filter chain with a match, whose calls have this letter."""
    return chain(only(f"/{letter}/m"), match=match)


def connections(source_port: int, external: str | None) -> list[Row]:
    """Rows about filter chains. The client has the port for itself; `external` is an address of this machine that is
    not on loopback."""
    local, elsewhere = {"source_type": "SAME_IP_OR_LOOPBACK"}, {"source_type": "EXTERNAL"}
    everywhere = {"address": "0.0.0.0"}
    default = by("d")
    rows = [
        Row("one filter chain", listener(chain()), (OK,)),
        Row("a match without conditions", listener(by("a")), (to("a"),)),
        Row(
            "connections from loopback",
            listener(by("a", **local), by("b", **elsewhere)),
            (to("a"), to("b", "UNAVAILABLE")),
        ),
        Row("only external connections", listener(by("a", **elsewhere)), (to("a", CLOSED),)),
        Row("only a default filter chain", listener(default_filter_chain=default), (to("d"),)),
        Row(
            "a default filter chain behind one that does not match",
            listener(by("a", **elsewhere), default_filter_chain=default),
            (to("d"), to("a", "UNAVAILABLE")),
        ),
        Row(
            "sources, of which the more specific one has the connection",
            listener(
                by("a", source_prefix_ranges=[prefix("127.0.0.0", 8)]),
                by("b", source_prefix_ranges=[prefix("127.0.0.4", 30), prefix("10.0.0.0", 8)]),
                by("c", source_prefix_ranges=[prefix("127.0.0.5", 32)]),
            ),
            (
                to("a"),
                to("b", source="127.0.0.4"),
                to("c", source="127.0.0.5"),
                to("b", source="127.0.0.7"),
                to("a", source="127.0.0.8"),
            ),
        ),
        Row(
            "no source",
            listener(by("a", source_prefix_ranges=[prefix("127.0.1.0", 24)])),
            (to("a", CLOSED), to("a", source="127.0.1.200")),
        ),
        Row(
            "destinations, of which the more specific one has the connection",
            listener(
                by("a", prefix_ranges=[prefix("127.0.0.0", 8)]),
                by("b", prefix_ranges=[prefix("127.0.0.4", 30)]),
                by("c", prefix_ranges=[prefix("127.0.0.5", 32)]),
                **everywhere,
            ),
            (
                to("a"),
                to("b", destination="127.0.0.4"),
                to("c", destination="127.0.0.5"),
                to("a", destination="127.1.0.8"),
            ),
        ),
        Row(
            "a destination that is more specific, with a source that does not match",
            listener(
                by("a", prefix_ranges=[prefix("127.0.0.0", 8)]),
                by("b", prefix_ranges=[prefix("127.0.0.4", 30)], source_prefix_ranges=[prefix("10.0.0.0", 8)]),
                **everywhere,
            ),
            (to("a"), to("a", CLOSED, destination="127.0.0.4")),
        ),
        Row(
            "a destination that is more specific, with a source that does not match, and a default filter chain",
            listener(
                by("a", prefix_ranges=[prefix("127.0.0.0", 8)]),
                by("b", prefix_ranges=[prefix("127.0.0.4", 30)], source_prefix_ranges=[prefix("10.0.0.0", 8)]),
                default_filter_chain=default,
                **everywhere,
            ),
            (to("a"), to("d", destination="127.0.0.4")),
        ),
        Row(
            "source ports",
            listener(by("a", source_ports=[source_port, 1]), by("b")),
            (to("b"), to("a", source="127.0.0.1", source_port=source_port)),
        ),
        Row(
            "a source that is more specific, with a port that does not match",
            listener(by("a", source_prefix_ranges=[prefix("127.0.0.0", 8)], source_ports=[1]), by("b")),
            (to("a", CLOSED),),
        ),
        Row(
            "a transport protocol that is more specific",
            listener(by("a", transport_protocol="raw_buffer"), by("b")),
            (to("a"), to("b", "UNAVAILABLE")),
        ),
        Row(
            "conditions that no connection fulfils",
            listener(
                by("a", server_names=["shop"]),
                by("b", transport_protocol="tls"),
                by("c", application_protocols=["h2"]),
                default_filter_chain=default,
            ),
            (to("d"),),
        ),
        Row(
            "conditions that no connection fulfils, without a default filter chain",
            listener(by("a", server_names=["shop"])),
            (to("a", CLOSED),),
        ),
        Row(
            "conditions that no connection fulfils, with a more specific destination",
            listener(by("a", prefix_ranges=[prefix("127.0.0.1", 32)], server_names=["shop"]), by("b")),
            (to("b", CLOSED),),
            differs={(Side.GO, 0): REACHED},
            why="grpc-go ignores such chains from the start; Envoy compares the destination before the name",
        ),
        Row(
            "conditions that no connection fulfils, with a more specific transport protocol",
            listener(by("a", transport_protocol="raw_buffer", application_protocols=["h2"]), by("b")),
            (to("b", CLOSED),),
        ),
        Row(
            "conditions that no connection fulfils, before a more specific transport protocol",
            listener(by("a", transport_protocol="raw_buffer", server_names=["shop"]), by("b")),
            (to("b"),),
        ),
        Row("a destination port", listener(by("a", destination_port=1), default_filter_chain=default), (to("d"),)),
    ]
    if external is not None:
        rows.append(
            Row(
                "an external connection",
                listener(by("a", **local), by("b", **elsewhere)),
                (to("a"), to("b", source=external)),
            )
        )
    return rows


MISSING = Row("routes that do not exist", listener(chain(rds="missing")), (UNAVAILABLE,), patience=20.0)


def calls() -> list[Row]:
    """Rows about virtual hosts and routes."""
    forwarded, redirected = {"route": {"cluster": "c"}}, {"redirect": {"host_redirect": "other"}}
    wildcards = tuple(
        host(route(path=f"/{letter}/m"), domains=(domain,))
        for letter, domain in zip("abcde", ("shop.example", "*.example", "shop.*", "*.shop.example", "*"), strict=True)
    )
    return [
        Row(
            "virtual hosts",
            listener(chain(*wildcards)),
            (
                to("a", authority="shop.example"),
                to("a", authority="SHOP.example"),
                to("b", authority="other.example"),
                to("c", authority="shop.org"),
                to("d", authority="one.shop.example"),
                to("e", authority="elsewhere"),
                to("a", "UNAVAILABLE", authority="elsewhere"),
            ),
            differs={(Side.GO, 1): "UNAVAILABLE"},
            why="grpc-go compares domains with the authority as it is; by gRFC A28, in any case",
        ),
        Row(
            "an authority with a port",
            listener(chain(host(domains=("shop", "other:80")))),
            (
                OK,
                Call("OK", authority="other:80"),
                Call("UNAVAILABLE", authority="shop:80"),
                Call("UNAVAILABLE", authority="other"),
            ),
        ),
        Row("no virtual host", listener(chain(host(domains=("other",)))), (UNAVAILABLE,)),
        Row(
            "paths",
            listener(chain(host(route(path="/a/m"), route(prefix="/b/"), route(safe_regex={"regex": "/c/[mn]"})))),
            (
                to("a"),
                Call("UNAVAILABLE", "/a/mm"),
                Call("UNAVAILABLE", "/A/m"),
                to("b"),
                Call(REACHED, "/b/anything"),
                to("c"),
                Call("UNAVAILABLE", "/c/mn"),
            ),
        ),
        Row(
            "paths in any case",
            listener(chain(host(route(path="/a/m", case_sensitive=False)))),
            (to("a"), Call(REACHED, "/A/M")),
        ),
        Row(
            "headers",
            listener(
                chain(
                    host(
                        route(prefix="", headers=[{"name": "a", "string_match": {"exact": "1"}}]),
                        route(
                            prefix="",
                            headers=[{"name": "b", "present_match": True}, {"name": "c", "present_match": False}],
                        ),
                    )
                )
            ),
            (
                UNAVAILABLE,
                Call("OK", metadata=(("a", "1"),)),
                Call("UNAVAILABLE", metadata=(("a", "2"),)),
                Call("OK", metadata=(("b", "1"),)),
                Call("UNAVAILABLE", metadata=(("b", "1"), ("c", "1"))),
                Call("UNAVAILABLE", metadata=(("a", "1"), ("a", "2"))),
            ),
        ),
        Row(
            "routes that forward and redirect",
            listener(chain(host(route(forwarded, path="/a/m"), route(redirected, path="/b/m"), route()))),
            (OK, to("a", "UNAVAILABLE"), to("b", "UNAVAILABLE"), to("c")),
        ),
        Row(
            "fractions of none and all calls",
            listener(
                chain(
                    host(
                        route(path="/a/m", runtime_fraction={"default_value": {"numerator": 0}}),
                        route(path="/b/m", runtime_fraction={"default_value": {"numerator": 100}}),
                    )
                )
            ),
            (to("a", "UNAVAILABLE"), to("b")),
        ),
        Row("routes of their own", listener(chain(rds="$ROW")), (OK,), (routes(),)),
        Row(
            "filter chains with the same routes",
            listener(
                chain(rds="$ROW", match={"source_prefix_ranges": [prefix("127.0.0.4", 30)]}),
                chain(rds="$ROW", filters=(rbac("DENY", policy()),)),
            ),
            (DENIED, Call("OK", source="127.0.0.5")),
            (routes(),),
        ),
    ]


def secured() -> list[Row]:
    """Rows about TLS. Clients have the certificates `named` (a subject, a name of DNS, and a URI) and `stranger`."""
    plain, named, stranger, none = Call("OK"), Call("OK", tls="named"), Call("OK", tls="stranger"), Call("OK", tls="")

    def closed(call: Call) -> Call:
        return Call(**{**call.__dict__, "outcome": CLOSED})

    def denied(call: Call) -> Call:
        return Call(**{**call.__dict__, "outcome": "PERMISSION_DENIED"})

    def allowing(about: str, principal: Resource, *calls: Call, other: str | None = None) -> Row:
        rules = rbac("ALLOW", policy(ANY, principal))
        # grpc-go asks for a certificate only if it is required.
        security = tls(roots="clients", requires=all(call.tls for call in calls))
        differs = {} if other is None else {(Side.CORE, 0): other}
        why = _NAMES if differs else ""
        return Row(f"RBAC: {about}", listener(chain(filters=(rules,), tls=security)), calls, (), differs, why)

    bare = Call("OK", tls="bare")
    uri, dns = "spiffe://example/ns/one", "named.example"
    return [
        Row("TLS", listener(chain(tls=tls())), (none, named, closed(plain))),
        Row(
            "TLS that may ask for a certificate",
            listener(chain(tls=tls(roots="clients"))),
            (none, named, closed(stranger)),
            differs={(Side.GO, 2): "OK"},
            why="grpc-go does not ask for a certificate that is not required",
        ),
        Row(
            "TLS that requires a certificate",
            listener(chain(tls=tls(roots="clients", requires=True))),
            (named, closed(none), closed(stranger), closed(plain)),
        ),
        Row("the certificate of another server", listener(chain(tls=tls("other"))), (closed(none),)),
        Row(
            "TLS for some clients",
            listener(
                chain(tls=tls(), match={"source_prefix_ranges": [prefix("127.0.0.4", 30)]}),
                chain(),
            ),
            (plain, Call("OK", tls="", source="127.0.0.5"), Call(CLOSED, source="127.0.0.5")),
        ),
        allowing("any client with TLS", authenticated(), none, named),
        allowing("the URI of a certificate", authenticated(exact=uri), named, denied(bare)),
        allowing("the beginning of a URI", authenticated(prefix="spiffe://example/"), named, denied(bare)),
        allowing("a URI without a certificate", authenticated(exact=uri), denied(none)),
        allowing("another URI", authenticated(exact="spiffe://example/ns/two"), denied(named)),
        allowing("a name of DNS beside a URI", authenticated(exact=dns), denied(named), other="OK"),
        allowing("the subject beside a URI", authenticated(exact="CN=named"), denied(named), other="OK"),
        allowing("a name of DNS", authenticated(exact="dns.example"), Call("OK", tls="dns"), denied(named)),
        allowing(
            "the subject beside a name of DNS", authenticated(exact="CN=dns"), denied(Call("OK", tls="dns")), other="OK"
        ),
        allowing("the subject", authenticated(exact="CN=bare"), bare, denied(named)),
        allowing("an empty name without a certificate", authenticated(exact=""), none),
        allowing("an empty name with a certificate", authenticated(exact=""), denied(named)),
        allowing("the name of nobody", {"not_id": authenticated(exact=uri)}, bare, denied(named)),
        allowing("the name of nobody without a certificate", {"not_id": authenticated(exact=uri)}, none),
    ]
