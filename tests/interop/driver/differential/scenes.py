"""The scripts."""

from __future__ import annotations

from collections.abc import Callable

from driver.differential.resources import (
    cluster,
    endpoints,
    invalid_cluster,
    invalid_listener,
    invalid_other_listener,
    listener,
    listener_with_routes,
    other_listener,
    routes,
    undecodable,
    wrapped,
)
from driver.differential.stage import BOTH, Side, Stage

Scene = Callable[[Stage], None]


def resolves(stage: Stage, *clusters: str) -> None:
    """The way of a target: listener, routes, clusters, endpoints, each ACKed before the next."""
    names = clusters or ("one",)
    stage.open()
    stage.respond("lds", "1", listener())
    stage.want(rds=["routes"])
    stage.respond("rds", "1", routes("routes", *names))
    stage.want(cds=names)
    stage.respond("cds", "1", *map(cluster, names))
    stage.want(eds=names)
    stage.respond("eds", "1", *map(endpoints, names))


def updates(stage: Stage) -> None:
    resolves(stage)
    stage.respond("eds", "2", endpoints("one", 2))
    stage.respond("cds", "2", cluster("one", connect_timeout="2s"))
    stage.respond("rds", "2", routes("routes", "one", domain="*.example"))
    stage.respond("lds", "2", listener(common_http_protocol_options={"max_stream_duration": "30s"}))
    stage.flush()


def rejects_an_update(stage: Stage) -> None:
    resolves(stage)
    stage.respond("lds", "2", invalid_listener())
    stage.respond("lds", "3", invalid_listener())
    stage.respond("lds", "4", listener())
    stage.flush()


def rejects_the_first_response(stage: Stage) -> None:
    stage.open()
    stage.respond("lds", "1", invalid_listener())
    stage.respond("lds", "2", listener())
    stage.want(rds=["routes"])
    stage.flush()


def rejects_one_of_two(stage: Stage) -> None:
    resolves(stage, "one", "two")
    stage.respond("cds", "2", cluster("one", connect_timeout="2s"), invalid_cluster("two"))
    stage.respond("cds", "3", cluster("one", connect_timeout="3s"), cluster("two"))
    stage.flush()


def rejects_one_of_two_at_first(stage: Stage) -> None:
    stage.open()
    stage.respond("lds", "1", listener())
    stage.want(rds=["routes"])
    stage.respond("rds", "1", routes("routes", "one", "two"))
    stage.want(cds=["one", "two"])
    stage.respond("cds", "1", cluster("one"), invalid_cluster("two"))
    # The valid one is in use.
    stage.want(eds=["one"])
    stage.respond("eds", "1", endpoints("one"))
    stage.respond("cds", "2", cluster("one"), cluster("two"))
    stage.want(eds=["one", "two"])
    stage.respond("eds", "2", endpoints("one"), endpoints("two"))
    stage.flush()


def returns_after_a_rejection(stage: Stage) -> None:
    resolves(stage)
    stage.respond("lds", "2", invalid_listener())
    stage.end_stream()
    stage.respond("lds", "2", invalid_listener())
    stage.respond("lds", "3", listener())
    stage.flush()


def returns_after_a_partial_rejection(stage: Stage) -> None:
    resolves(stage, "one", "two")
    stage.respond("cds", "2", cluster("one", connect_timeout="2s"), invalid_cluster("two"))
    stage.end_stream()
    stage.respond("cds", "3", cluster("one"), cluster("two"))
    stage.flush("cds")


def returns_after_the_first_was_rejected(stage: Stage) -> None:
    stage.open()
    stage.respond("lds", "1", invalid_listener())
    stage.end_stream("UNAVAILABLE")
    stage.respond("lds", "2", listener())
    stage.want(rds=["routes"])
    stage.flush()


def listener_is_deleted(stage: Stage) -> None:
    resolves(stage)
    # C-core's application keeps its other subscriptions all the while.
    stage.respond("lds", "2")
    stage.respond("lds", "3")
    stage.respond("lds", "4", listener())
    stage.flush()


def cluster_is_deleted(stage: Stage) -> None:
    resolves(stage, "one", "two")
    stage.respond("cds", "2", cluster("one"))
    stage.want(eds=["one"])
    stage.respond("cds", "3", cluster("one"), cluster("two"))
    stage.want(eds=["one", "two"])
    stage.respond("eds", "2", endpoints("one"), endpoints("two"))
    stage.flush()


def partial_state_is_kept(stage: Stage) -> None:
    resolves(stage, "one", "two")
    stage.respond("eds", "2", endpoints("one", 2))
    stage.respond("eds", "3")
    stage.respond("rds", "2")
    stage.flush()


def nothing_there(stage: Stage) -> None:
    stage.open()
    stage.respond("lds", "1")
    stage.respond("lds", "1")
    stage.respond("lds", "2", listener())
    stage.want(rds=["routes"])
    stage.flush()


def stream_ends_before_a_response(stage: Stage) -> None:
    stage.open()
    stage.end_stream("OK")
    stage.end_stream("UNAVAILABLE")
    stage.respond("lds", "1", listener())
    stage.want(rds=["routes"])
    stage.flush()


def stream_ends_after_responses(stage: Stage) -> None:
    resolves(stage)
    stage.end_stream("OK")
    # The same again, as a server does that keeps no state.
    stage.respond("lds", "1", listener())
    stage.respond("rds", "1", routes("routes", "one"))
    stage.respond("cds", "1", cluster("one"))
    stage.respond("eds", "1", endpoints("one"))
    stage.end_stream("UNAVAILABLE")
    stage.respond("lds", "2", listener("elsewhere"))
    stage.want(rds=["elsewhere"])
    stage.flush()


def server_restarts(stage: Stage) -> None:
    resolves(stage)
    stage.restart_server()
    stage.respond("eds", "2", endpoints("one", 2))
    stage.respond("cds", "2", cluster("one"))
    stage.respond("rds", "2", routes("routes", "one"))
    stage.respond("lds", "2", listener())
    stage.flush()


def type_not_asked_for(stage: Stage) -> None:
    stage.open()
    stage.respond("lds", "1", listener_with_routes("one"))
    stage.want(cds=["one"])
    _is_of_no_use(stage, lambda: stage.respond("rds", "1", routes("routes", "one"), answered=()))


def unknown_type(stage: Stage) -> None:
    resolves(stage)
    _is_of_no_use(stage, lambda: stage.respond_of_type("type.googleapis.com/example.Unknown"))


def empty_type(stage: Stage) -> None:
    resolves(stage)
    _is_of_no_use(stage, lambda: stage.respond_of_type(""))


def _is_of_no_use(stage: Stage, respond: Callable[[], None]) -> None:
    """A response that nobody answers; ours reads on."""
    respond()
    stage.respond("lds", "2", listener_with_routes("one"), answered=[Side.OURS])
    # It does not even notice the end of the stream from here on.
    stage.stays_silent(Side.CORE)


def resources_that_were_not_asked_for(stage: Stage) -> None:
    resolves(stage)
    stage.respond("lds", "2", listener(), other_listener())
    stage.respond("eds", "2", endpoints("one"), endpoints("two"))
    stage.respond("rds", "2", routes("elsewhere", "two"))
    stage.flush()


def bad_resource_that_was_not_asked_for(stage: Stage) -> None:
    resolves(stage)
    stage.respond("lds", "2", listener(), invalid_other_listener())
    stage.respond("lds", "3", listener())
    stage.flush()


def repetition(stage: Stage) -> None:
    resolves(stage)
    # The same again; then with nothing new but the nonce, but the version; then an old nonce.
    stage.respond("cds", "1", cluster("one"), nonce="cds-1")
    stage.respond("cds", "1", cluster("one"))
    stage.respond("cds", "2", cluster("one"))
    stage.respond("cds", "3", cluster("one", connect_timeout="3s"), nonce="cds-1")
    stage.respond("cds", "1", cluster("one"))
    stage.flush()


def empty_strings(stage: Stage) -> None:
    resolves(stage)
    stage.respond("cds", "", cluster("one", connect_timeout="2s"))
    stage.respond("cds", "2", cluster("one", connect_timeout="3s"), nonce="")
    stage.respond("cds", "3", invalid_cluster("one"), nonce="")
    stage.respond("cds", "4", cluster("one"))
    stage.flush()


def same_name_twice(stage: Stage) -> None:
    resolves(stage)
    stage.respond("cds", "2", cluster("one"), cluster("one", connect_timeout="2s"))
    stage.respond("cds", "3", cluster("one"))
    stage.flush()


def unreadable_resource(stage: Stage) -> None:
    resolves(stage)
    stage.respond("eds", "2", undecodable("eds"))
    stage.respond("eds", "3", endpoints("one", 2), undecodable("eds"))
    stage.respond("eds", "4", endpoints("one"))
    stage.flush()


def unreadable_cluster(stage: Stage) -> None:
    resolves(stage)
    # It could be any: so the known one is missing (PN-07), and C-core's application gives up what it
    # needed for it.
    stage.respond("cds", "2", undecodable("cds"))
    stage.want(eds=[])
    stage.respond("cds", "3", cluster("one"), undecodable("cds"))
    stage.want(eds=["one"])
    stage.respond("cds", "4", cluster("one"))
    stage.flush()


def resource_of_another_type(stage: Stage) -> None:
    resolves(stage)
    stage.respond("cds", "2", cluster("one"), endpoints("one"))
    stage.respond("cds", "3", cluster("one"))
    stage.flush()


def resource_without_a_name(stage: Stage) -> None:
    resolves(stage)
    stage.respond("cds", "2", cluster("one"), cluster(""))
    stage.respond("cds", "3", cluster("one"))
    stage.flush()


def wrappers(stage: Stage) -> None:
    resolves(stage)
    stage.respond("cds", "2", wrapped("one", cluster("one", connect_timeout="2s"), version="a"))
    stage.respond("eds", "2", wrapped("one", endpoints("one", 2), version="a"))
    stage.respond("eds", "3", wrapped("two", endpoints("two", 2), version="a"))
    stage.respond("lds", "2", wrapped("svc", listener()))
    stage.flush()


def wrapped_otherwise(stage: Stage) -> None:
    resolves(stage)
    # The name of the wrapper counts (B08), whatever is inside.
    stage.respond("eds", "2", wrapped("one", endpoints("two", 2), version="a"))
    stage.respond("eds", "3", wrapped("", endpoints("one", 2), version="a"))
    stage.respond("eds", "4", endpoints("one"))
    stage.flush()


def heartbeats(stage: Stage) -> None:
    resolves(stage)
    stage.respond("eds", "2", wrapped("one", endpoints("one", 2), version="a"))
    stage.respond("eds", "2", wrapped("one", None, version="a"))
    stage.respond("eds", "3", wrapped("one", None, version="b"))
    stage.respond("eds", "4", endpoints("one"))
    stage.flush()


def other_routes(stage: Stage) -> None:
    resolves(stage)
    stage.respond("lds", "2", listener("elsewhere"))
    stage.want(rds=["elsewhere"])
    stage.respond("rds", "2", routes("elsewhere", "one"))
    stage.respond("lds", "3", listener())
    stage.want(rds=["routes"])
    stage.respond("rds", "3", routes("routes", "one"))
    stage.flush()


def other_clusters(stage: Stage) -> None:
    resolves(stage, "one")
    stage.respond("rds", "2", routes("routes", "one", "two", "three"))
    stage.want(cds=["one", "two", "three"])
    stage.respond("cds", "2", *map(cluster, ("one", "two", "three")))
    stage.want(eds=["one", "two", "three"])
    stage.respond("eds", "2", *map(endpoints, ("one", "two", "three")))
    stage.respond("rds", "3", routes("routes", "three"))
    stage.want(cds=["three"], eds=["three"])
    stage.flush()


def nothing_of_a_type(stage: Stage) -> None:
    resolves(stage)
    stage.respond("lds", "2", listener_with_routes("one"))
    stage.want(rds=[])
    # For what nobody wants any more.
    stage.respond("rds", "2", routes("routes", "one"))
    stage.respond("rds", "3")
    stage.respond("lds", "3", listener())
    stage.want(rds=["routes"])
    stage.respond("rds", "4", routes("routes", "one"))
    stage.flush()


def nothing_of_a_type_on_a_new_stream(stage: Stage) -> None:
    resolves(stage)
    stage.respond("lds", "2", listener_with_routes("one"))
    stage.want(rds=[])
    stage.end_stream()
    stage.respond("lds", "3", listener())
    stage.want(rds=["routes"])
    stage.respond("rds", "2", routes("routes", "one"))
    stage.flush()


def everything_is_closed(stage: Stage) -> None:
    resolves(stage)
    stage.close()


def falls_back(stage: Stage) -> None:
    stage.open("ab", away="a")
    stage.respond("lds", "1", listener(), server="b")
    stage.want(rds=["routes"], server="b")
    stage.listen("a")
    stage.wait_subscriptions("a")
    stage.respond("lds", "7", listener())
    for side in BOTH:
        stage.wait_end(side, "b")
    stage.respond("rds", "7", routes("routes", "one"))
    stage.want(cds=["one"])
    stage.flush()


def broken_frame(stage: Stage) -> None:
    resolves(stage)
    stage.send_frame(b"\xff\xff\xff")
    stage.wait_return(Side.OURS, stream=1)
    stage.stays_silent(Side.CORE)
    stage.end_stream(sides=[Side.CORE])
    stage.flush()


SCENES: dict[str, Scene] = {
    "a target is resolved": resolves,
    "every type is updated": updates,
    "an update is rejected": rejects_an_update,
    "the first response is rejected": rejects_the_first_response,
    "one of two is rejected": rejects_one_of_two,
    "one of two is rejected at first": rejects_one_of_two_at_first,
    "back after a rejection": returns_after_a_rejection,
    "back after a partial rejection": returns_after_a_partial_rejection,
    "back after the first was rejected": returns_after_the_first_was_rejected,
    "a listener is deleted": listener_is_deleted,
    "a cluster is deleted": cluster_is_deleted,
    "endpoints and routes are left out": partial_state_is_kept,
    "nothing is there": nothing_there,
    "streams end before a response": stream_ends_before_a_response,
    "streams end after responses": stream_ends_after_responses,
    "the server restarts": server_restarts,
    "a type that was not asked for": type_not_asked_for,
    "an unknown type": unknown_type,
    "a type without a name": empty_type,
    "resources that were not asked for": resources_that_were_not_asked_for,
    "a bad resource that was not asked for": bad_resource_that_was_not_asked_for,
    "responses are repeated": repetition,
    "empty versions and nonces": empty_strings,
    "the same name twice": same_name_twice,
    "an unreadable resource": unreadable_resource,
    "an unreadable cluster": unreadable_cluster,
    "a resource of another type": resource_of_another_type,
    "a resource without a name": resource_without_a_name,
    "wrapped resources": wrappers,
    "wrappers that name something else": wrapped_otherwise,
    "heartbeats": heartbeats,
    "other routes": other_routes,
    "other clusters": other_clusters,
    "nothing of a type": nothing_of_a_type,
    "nothing of a type on a new stream": nothing_of_a_type_on_a_new_stream,
    "everything is closed": everything_is_closed,
    "a second server, and back": falls_back,
    "a broken frame": broken_frame,
}
