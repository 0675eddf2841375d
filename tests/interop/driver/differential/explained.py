"""The differences that are meant to be, each with its reason.

A difference that is not listed fails the run, and so does one that is listed and does not occur. The
ids are those of the list of disagreements between implementations (D1), of the scenarios of clients
(UK-02), and of requirements (S0.117).
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from driver.differential.compare import SENT, Difference


@dataclass(frozen=True)
class Explanation:
    """Differences that have one reason. In their scenes and places, `*` stands for anything."""

    why: str
    differences: tuple[Difference, ...]


def explains(listed: Difference, found: Difference) -> bool:
    """Whether a difference that was found is the one listed."""
    return (
        fnmatchcase(found.scene, listed.scene)
        and fnmatchcase(found.place, listed.place)
        and (found.field, found.ours, found.core) == (listed.field, listed.ours, listed.core)
    )


def _nack_version(scene: str, place: str, ours: str, core: str) -> Difference:
    return Difference(scene, place, "version_info", ours, core)


def _only_core_rejects(scene: str, place: str) -> tuple[Difference, ...]:
    return (
        Difference(scene, place, "error_code", None, 3),
        Difference(scene, place, "error_message", None, "given"),
    )


def _only_ours_rejects(scene: str, place: str, ours: str, core: str) -> tuple[Difference, ...]:
    return (
        Difference(scene, place, "version_info", ours, core),
        Difference(scene, place, "error_code", 3, None),
        Difference(scene, place, "error_message", "given", None),
    )


_GRPC_FEATURES = ("envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw")

EXPLANATIONS = (
    Explanation(
        "B09: ours takes heartbeats and TTLs, and says so",
        (
            Difference(
                "*",
                "*",
                "client_features",
                (*_GRPC_FEATURES, "xds.config.supports-resource-ttl"),
                _GRPC_FEATURES,
            ),
        ),
    ),
    Explanation(
        "D1, S0.088: with something valid beside what it rejects, C-core states the new version; ours the"
        " last one that it accepted whole, also on the next stream",
        (
            _nack_version("one of two is rejected", "a1/cds/cds-2", "1", "2"),
            _nack_version("one of two is rejected at first", "a1/cds/cds-1", "", "1"),
            _nack_version("back after a partial rejection", "a1/cds/cds-2", "1", "2"),
            _nack_version("back after a partial rejection", "a2/cds/first", "1", "2"),
            _nack_version("an unreadable resource", "a1/eds/eds-3", "1", "3"),
            _nack_version("an unreadable cluster", "a1/cds/cds-3", "1", "3"),
            _nack_version("a resource of another type", "a1/cds/cds-2", "1", "2"),
        ),
    ),
    Explanation(
        "UN-04: a request that subscribes to a type again states no version if nothing of it is held; C-core states the"
        " last one that it accepted",
        (
            Difference("streams end after responses", "a3/rds/first#2", "version_info", "", "1"),
            Difference("an unreadable cluster", "a1/eds/eds-1#3", "version_info", "", "1"),
            Difference("other routes", "a1/rds/rds-1#2", "version_info", "", "1"),
            Difference("other routes", "a1/rds/rds-2#2", "version_info", "", "2"),
            Difference("nothing of a type", "a1/rds/rds-3#2", "version_info", "", "3"),
            Difference("nothing of a type on a new stream", "a2/rds/first", "version_info", "", "1"),
        ),
    ),
    Explanation(
        "D14, S0.117: a name that comes twice makes ours reject the response; C-core takes either",
        _only_ours_rejects("the same name twice", "a1/cds/cds-2", "1", "2"),
    ),
    Explanation(
        "ours rejects a resource without a name, which nobody can have asked for; C-core passes over it",
        _only_ours_rejects("a resource without a name", "a1/cds/cds-2", "1", "2"),
    ),
    Explanation(
        "UK-06: ours does not look into what nobody asked for; C-core validates it, too",
        _only_core_rejects("a bad resource that was not asked for", "a1/lds/lds-2"),
    ),
    Explanation(
        "D22: a wrapper with nothing but a known version is a heartbeat; C-core knows none",
        _only_core_rejects("heartbeats", "a1/eds/eds-3"),
    ),
    Explanation(
        "UK-02: after a response of a type that it never asked for, C-core reads nothing more from the"
        " stream; ours reads on",
        (
            Difference("a type that was not asked for", "a1/lds/lds-2", SENT, True, False),
            Difference("an unknown type", "a1/lds/lds-2", SENT, True, False),
            Difference("a type without a name", "a1/lds/lds-2", SENT, True, False),
        ),
    ),
    Explanation(
        "IC36: a frame that is no response ends the stream for ours, which opens another; C-core reads"
        " nothing more from it and waits for the server to end it",
        (Difference("a broken frame", "a1/end", SENT, True, False),),
    ),
    Explanation(
        "D6, S2.133: ours says that it wants nothing any more, and ends the stream when that lasts; C-core"
        " ends it at once",
        (
            *(
                Difference("everything is closed", f"a1/{name}/{name}-1#2", SENT, True, False)
                for name in ("lds", "rds", "cds", "eds")
            ),
            Difference("everything is closed", "a1/end", SENT, False, True),
        ),
    ),
)
