"""Clusters that ask for TLS (A29): both clients reach the same backends by it, and are kept from the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.checks import Scenario
from driver.differential import resources
from driver.differential.stage import BOTH, Side, Stage
from driver.tls import Certificate, CertificateFiles
from driver.waiting import expect
from driver.xds import TYPE_URLS

_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
_UNAVAILABLE = 14
# How often each call is made: the first ones wait for a connection, the others know what came of that.
_TIMES = 3


@dataclass(frozen=True)
class _Case:
    """A cluster, the backend that it has, and whether calls get there."""

    about: str
    backend: str
    gets_there: bool
    # Whom it believes, which names are good, whose certificate is shown; without the first there is no TLS.
    roots: str | None = "roots"
    names: tuple[Mapping[str, Any], ...] = ()
    own: str | None = None


def _regex(pattern: str) -> dict[str, Any]:
    return {"safe_regex": {"google_re2": {}, "regex": pattern}}


_CASES = (
    _Case("whoever has the right authority", "open", True),
    _Case("an authority that has not signed the certificate", "open", False, roots="others"),
    _Case("a name of the certificate", "open", True, names=({"exact": "backend.example"},)),
    _Case("another name", "open", False, names=({"exact": "other.example"},)),
    _Case("one good name of two", "open", True, names=({"exact": "other.example"}, {"exact": "backend.example"})),
    _Case("a name in other letters", "open", True, names=({"exact": "BACKEND.Example"},)),
    _Case("a name that a wildcard stands for", "open", True, names=({"exact": "one.pool.example"},)),
    _Case("a name with a word too many for a wildcard", "open", False, names=({"exact": "a.one.pool.example"},)),
    _Case("an address of the certificate", "open", True, names=({"exact": "127.0.0.1"},)),
    _Case("another address", "open", False, names=({"exact": "127.0.0.2"},)),
    _Case("the beginning of a name", "open", True, names=({"prefix": "backend."},)),
    _Case("the beginning of no name", "open", False, names=({"prefix": "example."},)),
    _Case("the end of a name", "open", True, names=({"suffix": ".example"},)),
    _Case("a part of a name", "open", True, names=({"contains": "kend.ex"},)),
    _Case("an expression for a name", "open", True, names=(_regex("back[a-z]*[.]example"),)),
    _Case("an expression for a part of a name", "open", False, names=(_regex("back[a-z]*"),)),
    _Case("a beginning in letters of any case", "open", True, names=({"prefix": "BACK", "ignore_case": True},)),
    _Case("a certificate where none is asked for", "open", True, own="own"),
    _Case("the certificate that the backend asks for", "strict", True, own="own"),
    _Case("no certificate where one is asked for", "strict", False),
    _Case("another certificate than the one that is asked for", "strict", False, own="strange"),
    _Case("the right certificate, and another name", "strict", False, own="own", names=({"exact": "no.example"},)),
    _Case("TLS where the backend has none", "plain", False),
    _Case("none where the backend has it", "open", False, roots=None),
    _Case("none on either side", "plain", True, roots=None),
)


def play_secured(scenario: Scenario, stage: Stage, maker: Path) -> None:
    """Each case has a cluster and a path of its own; both clients are sent all of them at once."""
    made = {
        name: CertificateFiles.write(Certificate.make(maker, name, *names), scenario.directory)
        for name, *names in (("backend", "backend.example", "*.pool.example"), ("client",), ("stranger",))
    }
    backends = {
        "open": stage.secure(made["backend"]),
        "strict": stage.secure(made["backend"], made["client"]),
        "plain": stage.backends[0],
    }
    names = [f"case-{number:02}" for number in range(len(_CASES))]
    with scenario.check("both clients take clusters that ask for TLS"):
        _serve(stage, names, backends, made)
    for name, case in zip(names, _CASES, strict=True):
        wanted = {"port": backends[case.backend]} if case.gets_there else {"code": _UNAVAILABLE}
        what = f"get to the {case.backend} backend" if case.gets_there else "fail with UNAVAILABLE"
        calls = [{"path": f"/{name}/m", "metadata": []}] * _TIMES
        with scenario.check(f"{case.about}: calls of both {what}"):
            for side in BOTH:
                found = stage.calls(side, calls)
                expect(found == [wanted] * _TIMES, f"{side.value}: {found} instead of {wanted}")


def _serve(
    stage: Stage, names: list[str], backends: Mapping[str, int], made: Mapping[str, CertificateFiles]
) -> None:
    stage.open(providers=_providers(made))
    stage.respond("lds", "1", resources.listener())
    stage.want(rds=["routes"])
    routes = [{"match": {"prefix": f"/{name}/"}, "route": {"cluster": name}} for name in names]
    hosts = [{"name": "all", "domains": ["*"], "routes": routes}]
    stage.respond("rds", "1", {"@type": TYPE_URLS["rds"], "name": "routes", "virtual_hosts": hosts})
    stage.want(cds=names)
    cases = dict(zip(names, _CASES, strict=True))
    stage.respond("cds", "1", *(resources.cluster(name, **_security(case)) for name, case in cases.items()))
    for side in BOTH:
        rejected = stage.rejection(side, "cds")
        expect(rejected is None, f"{side.value}: {rejected}")
    stage.want(eds=names)
    stage.respond("eds", "1", *(resources.endpoints(name, backends[case.backend]) for name, case in cases.items()))
    stage.follow()


def _providers(made: Mapping[str, CertificateFiles]) -> dict[str, dict[str, str]]:
    """Those of the roots, and those of what clients show."""

    def identity(files: CertificateFiles) -> dict[str, str]:
        return {"certificate_file": str(files.certificate), "private_key_file": str(files.key)}

    return {
        "roots": {"ca_certificate_file": str(made["backend"].certificate)},
        "others": {"ca_certificate_file": str(made["stranger"].certificate)},
        "own": identity(made["client"]),
        "strange": identity(made["stranger"]),
    }


def _security(case: _Case) -> dict[str, Any]:
    """What a cluster says of how it is secured."""
    if case.roots is None:
        return {}
    validation = {
        "ca_certificate_provider_instance": {"instance_name": case.roots},
        "match_subject_alt_names": [dict(name) for name in case.names],
    }
    common: dict[str, Any] = {"validation_context": validation}
    if case.own is not None:
        common["tls_certificate_provider_instance"] = {"instance_name": case.own}
    config = {"@type": _TLS, "common_tls_context": common}
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": config}}
