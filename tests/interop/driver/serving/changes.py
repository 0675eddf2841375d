"""Changes of the listeners and routes of servers that have connections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from driver.checks import Scenario
from driver.processes import Argv
from driver.serving.peers import Caller, Served
from driver.serving.resources import chain, host, listener, only, policy, rbac, routes
from driver.serving.sides import Side
from driver.serving.tables import CLOSED, OK, REFUSED
from driver.waiting import eventually, expect, stays

_OTHERS = "/other/m"
# How long a call goes on after its listener was replaced, to see that it does.
_DRAINED = 1.0
# Our server closes its port, the others accept and close connections; gRFC A36 allows both.
_NOT_SERVING = {Side.OURS: REFUSED, Side.CORE: CLOSED, Side.GO: CLOSED}


def play_changes(scenario: Scenario, python: Path, commands: Mapping[Side, Argv]) -> None:
    """Each check changes the resources of a server, and looks at what becomes of connections and calls."""
    caller = Caller(scenario, python, {})
    hosts = ["127.0.0.1"] * 4
    for side, command in commands.items():
        server = Served(scenario, side, command, hosts, features=["fail_on_data_errors"])
        for number in range(len(hosts)):
            server.put(number, f"routes-{number}", listener(chain(rds="$ROW")), routes())
        server.start()
        for check in (_routes, _listener, _deleted, _address):
            about = check.__doc__ or ""
            with scenario.check(f"{side.value}: {about[0].lower()}{about[1:].rstrip('.')}"):
                check(server, caller)
        if side is Side.OURS:
            with scenario.check(
                "ours: Ctrl-C closes all ports, and ends the program when the time of its calls is over"
            ):
                _interrupt(server, caller)


class _Kept:
    """One connection after the other to a server, on a channel that is kept."""

    def __init__(self, server: Served, caller: Caller, number: int) -> None:
        self._port, self._caller = server.ports[number], caller
        self.name = f"{server.side.value}-{number}"
        eventually("a call", lambda: caller.calls(self._port, [OK]) == ["OK"])

    def wait(self, outcome: str) -> None:
        """Waits for the outcome of a call."""

        def probe() -> bool:
            made = self.call()
            expect(made == outcome, made)
            return True

        eventually(f"calls of {self.name} with {outcome}", probe)

    def call(self) -> str:
        """What becomes of a call."""
        return self._caller.calls(self._port, [OK], self.name)[0]

    def watch(self) -> None:
        """Begins a call that goes on."""
        begun = self._caller.watch(self._port, self.name, OK)
        expect(begun == "OK", f"a call that goes on: {begun}")

    def watched(self) -> str:
        """What has become of it."""
        return self._caller.watched(self.name)

    def goes_on(self) -> None:
        """Fails if the call ends."""
        expect(self.watched() == "OK", "the call has ended")
        stays("a call on a connection that is drained", self.watched, _DRAINED)


def _routes(server: Served, caller: Caller) -> None:
    """Changed routes apply to an open connection."""
    kept = _Kept(server, caller, 0)
    kept.wait("OK on connection 1")
    server.put(0, "routes-0", listener(chain(rds="$ROW")), routes(only(_OTHERS)))
    kept.wait("UNAVAILABLE on connection 1")
    server.put(0, "routes-0", listener(chain(rds="$ROW")), routes(host()))
    kept.wait("OK on connection 1")


def _listener(server: Served, caller: Caller) -> None:
    """A changed listener drains connections: calls go on, and new ones are made on a new connection."""
    kept = _Kept(server, caller, 1)
    kept.wait("OK on connection 1")
    kept.watch()
    server.put(1, "routes-1", listener(chain(rds="$ROW", filters=(rbac("DENY", policy()),))), routes())
    kept.wait("PERMISSION_DENIED on connection 2")
    kept.goes_on()


def _deleted(server: Served, caller: Caller) -> None:
    """A deleted listener ends the serving, but not a call that goes on, and one that is set again begins it."""
    kept = _Kept(server, caller, 2)
    kept.wait("OK on connection 1")
    kept.watch()
    server.remove(2)
    _stops_serving(server, caller, 2)
    kept.goes_on()
    server.put(2, "routes-2", listener(chain(rds="$ROW")), routes())
    eventually("a call", lambda: caller.calls(server.ports[2], [OK]) == ["OK"])
    kept.goes_on()


def _address(server: Served, caller: Caller) -> None:
    """A listener with another address ends the serving, and the right address begins it."""
    kept = _Kept(server, caller, 3)
    kept.wait("OK on connection 1")
    server.put(3, "routes-3", listener(chain(rds="$ROW"), port=1), routes())
    _stops_serving(server, caller, 3)
    server.put(3, "routes-3", listener(chain(rds="$ROW"), address="127.0.0.2"), routes())
    server.wait_answer("lds", server.management.row("lds"))
    _stops_serving(server, caller, 3)
    server.put(3, "routes-3", listener(chain(rds="$ROW")), routes())
    eventually("a call", lambda: caller.calls(server.ports[3], [OK]) == ["OK"])


def _interrupt(server: Served, caller: Caller) -> None:
    kept = _Kept(server, caller, 0)
    kept.watch()
    code = server.interrupt()
    expect(code == 0, f"the exit code is {code}")
    eventually("the end of a call", lambda: kept.watched() != "OK")


def _stops_serving(server: Served, caller: Caller, number: int) -> None:
    wanted = [_NOT_SERVING[server.side]]

    def probe() -> bool:
        made = caller.calls(server.ports[number], [OK])
        expect(made == wanted, f"{made} instead of {wanted}")
        return True

    eventually("the end of the serving", probe)
