"""The `xds` binary under test: its management server and its client."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from pathlib import Path

from driver.checks import Scenario
from driver.processes import Argv, Event, EventProcess
from driver.waiting import eventually, expect, stays

TYPE_URLS = {
    "lds": "type.googleapis.com/envoy.config.listener.v3.Listener",
    "rds": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
    "cds": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    "eds": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
}

# Neither half ever runs this long; it only ends a process that everybody else forgot.
_LIFETIME = "300s"
# Several times what `xds serve` waits before it prints a changed table.
_SETTLED = 0.6


class Ordering(Enum):
    """What `xds serve` is told of the order of types."""

    DEFAULT = "order"
    OFF = "off"
    MAKE_BEFORE_BREAK = "make-before-break"


class Streams(Enum):
    """Over how many streams the one client of a test subscribes."""

    AGGREGATED = "one for all types"
    ONE_PER_TYPE = "at least one for each type"


@dataclass(frozen=True)
class StatusRow:
    """The state of one resource type on one stream, as `xds serve` reports it."""

    node: str
    stream: str
    type: str
    subscribed: str | int
    sent: str
    acked: str
    state: str
    responses: int
    acks: int
    nacks: int
    error: str | None

    @classmethod
    def parse(cls, row: Event) -> StatusRow:
        """The row of a status event; it may have fields that no check asks for."""
        names = [field.name for field in fields(cls)]
        expect(row.keys() >= set(names), f"a status row without some of {names}: {row}")
        return cls(**{name: row[name] for name in names})

    @classmethod
    def together(cls, rows: Sequence[StatusRow]) -> StatusRow:
        """What the rows of one type say taken together: the counts add up, the worst state counts."""
        first, *others = rows
        if not others:
            return first
        wildcard = any(row.subscribed == "*" for row in rows)
        return cls(
            node=first.node,
            stream=" ".join(sorted(row.stream for row in rows)),
            type=first.type,
            subscribed="*" if wildcard else sum(int(row.subscribed) for row in rows),
            sent=" ".join(sorted({row.sent for row in rows})),
            acked=" ".join(sorted({row.acked for row in rows})),
            state=max((row.state for row in rows), key=("ACKED", "WAITING", "SENT", "NACKED").index),
            responses=sum(row.responses for row in rows),
            acks=sum(row.acks for row in rows),
            nacks=sum(row.nacks for row in rows),
            error=next((row.error for row in rows if row.error), None),
        )


class _WithoutTables(EventProcess):
    """Drops the status events: of hundreds of clients, each has hundreds of rows."""

    def _is_kept(self, line: str) -> bool:
        return '"event":"status"' not in line[:200]


class XdsServe:
    """`xds serve` on a directory or another source, with the events that it prints."""

    def __init__(
        self,
        scenario: Scenario,
        binary: Path,
        directory: Path | str,
        listen: str = "127.0.0.1:0",
        *,
        streams: Streams = Streams.AGGREGATED,
        ordering: Ordering = Ordering.DEFAULT,
        rest: str | None = None,
        flags: Sequence[str | Path] = (),
        keeps_tables: bool = True,
    ) -> None:
        self._streams = streams
        argv: list[str | Path] = [binary, "serve", directory, "--listen", listen, "-o", "ndjson"]
        argv += ["--csds", "127.0.0.1:0", "--for", _LIFETIME, "--ordering", ordering.value, *flags]
        if rest:
            # Envoy waits for a second.
            argv += ["--rest", rest, "--rest-hold", "500ms"]
        kind = EventProcess if keeps_tables else _WithoutTables
        self._process = scenario.spawn(kind, "xds-serve", argv)
        serving = self._process.wait_event("serving", lambda event: event["event"] == "serving")
        self.address: str = serving["listen"]
        self.rest: str | None = serving.get("rest")
        self.csds: str | None = serving.get("csds")
        self.resources: int = serving["resources"]

    @property
    def process_id(self) -> int:
        """The number of the process."""
        return self._process.process_id

    @property
    def port(self) -> int:
        """The port that it really listens on."""
        return int(self.address.rpartition(":")[2])

    @property
    def rest_port(self) -> int:
        """The port of REST-JSON; that of gRPC if there is none."""
        return int((self.rest or self.address).rpartition(":")[2])

    def mark(self) -> int:
        """A place in the stream of events, for `since` and `reloaded`."""
        return len(self._process.events)

    def since(self, mark: int, kind: str) -> list[Event]:
        """The events of one kind that came after a mark."""
        return [event for event in self._process.events[mark:] if event["event"] == kind]

    def wait(self, kind: str, mark: int) -> Event:
        """The first event of a kind after a mark."""
        return self._process.wait_event(kind, lambda event: event["event"] == kind, mark)

    def rows(self) -> dict[str, StatusRow]:
        """The latest table by type; fails when it shows more than the one client of the test.

        A type that has several streams counts as one: Envoy opens one for each cluster's endpoints.
        """
        self._process.expect_running()
        table = next((event for event in reversed(self._process.events) if event["event"] == "status"), None)
        rows = [StatusRow.parse(row) for row in table["rows"]] if table else []
        nodes, streams = {row.node for row in rows}, {row.stream for row in rows}
        expect(len(nodes) <= 1, f"one client was expected: {sorted(nodes)}")
        by_type: dict[str, list[StatusRow]] = {}
        for row in rows:
            by_type.setdefault(row.type, []).append(row)
        if self._streams is Streams.AGGREGATED:
            expect(len(streams) <= 1, f"one stream was expected: {sorted(streams)}")
        else:
            expect(len(streams) == len(rows), f"a stream for each row was expected: {rows}")
        return {name: StatusRow.together(rows) for name, rows in by_type.items()}

    def row(self, type_name: str) -> StatusRow:
        """The latest row of one type."""
        rows = self.rows()
        expect(type_name in rows, f"no row for {type_name}; there are rows for {sorted(rows)}")
        return rows[type_name]

    def wait_row(self, type_name: str, what: str, wanted: Callable[[StatusRow], bool]) -> StatusRow:
        """Waits until the row of a type is as wanted."""

        def probe() -> StatusRow:
            row = self.row(type_name)
            expect(wanted(row), str(row))
            return row

        return eventually(f"{type_name} row of xds serve: {what}", probe)

    def wait_acked(self, *types: str, new_after: dict[str, StatusRow] | None = None) -> dict[str, StatusRow]:
        """Waits until each type is ACKed: at another version than in an older table, if one is given."""

        def probe() -> dict[str, StatusRow]:
            rows = {name: self.row(name) for name in types}
            for name, row in rows.items():
                expect(row.state == "ACKED" and row.acked == row.sent, f"not ACKed: {row}")
                if new_after is not None:
                    expect(row.acked != new_after[name].acked, f"still the old version: {row}")
            return rows

        return eventually(f"{', '.join(types)} ACKed", probe)

    def settled(self) -> dict[str, StatusRow]:
        """The table once it says that every response was answered, and stays as it is for a moment."""

        def probe() -> dict[str, StatusRow]:
            rows = stays("rows", self.rows, _SETTLED)
            expect(all(row.state != "SENT" for row in rows.values()), f"unanswered: {rows}")
            return rows

        return eventually("a settled table of xds serve", probe)

    def expect_sent(self, before: dict[str, StatusRow], **more: int) -> None:
        """Since an older table exactly these responses were sent, and none of another type."""
        expected = {name: row.responses + more.get(name, 0) for name, row in before.items()}
        now = {name: row.responses for name, row in self.settled().items()}
        expect(now == expected, f"responses by type: {now}, expected: {expected}")

    def counters(self) -> dict[str, tuple[int, int, int]]:
        """Responses, ACKs and NACKs by type: what shows that nothing was sent again."""
        return {name: (row.responses, row.acks, row.nacks) for name, row in self.rows().items()}

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._process.stop(signal.SIGKILL)

    def stop_cleanly(self) -> None:
        """Ends it as an operator does; it has to exit with 0 and must not have panicked."""
        _stop_cleanly(self._process)


class XdsWatch:
    """`xds watch` on a management server, or on a file, with the events that it prints."""

    def __init__(
        self,
        scenario: Scenario,
        binary: Path,
        server: str | Path,
        node: str,
        subscriptions: Sequence[str],
        options: Sequence[str] = (),
    ) -> None:
        where = "--file" if isinstance(server, Path) else "--server"
        argv: Argv = [binary, "watch", where, server, "--node", node, "-o", "ndjson", "--for", _LIFETIME]
        self._process = scenario.spawn(EventProcess, "xds-watch", [*argv, *options, *subscriptions])

    @property
    def events(self) -> list[Event]:
        """Everything printed until now."""
        self._process.expect_running()
        return self._process.events

    def mark(self) -> int:
        """A place in the stream of events, for `changes`."""
        return len(self.events)

    def receipt(self, mark: int, text: str) -> float:
        """When it printed the first event with a text after a mark, in seconds since the epoch."""

        def probe() -> str | None:
            return next((str(event["time"]) for event in self.events[mark:] if text in str(event)), None)

        printed = eventually(text, probe)
        return datetime.fromisoformat(str(printed).replace("Z", "+00:00")).timestamp()

    def warnings(self) -> int:
        """How many warnings it has logged."""
        self._process.expect_running()
        return self._process.stderr_log.read_text(errors="replace").count(" WARN ")

    def changes(self, mark: int) -> list[Event]:
        """What was printed after a mark, but for errors that leave all resources as they are."""
        return [event for event in self.events[mark:] if event["event"] != "ambient"]

    def stop_cleanly(self) -> None:
        """Ends it as a user does with Ctrl-C; it has to exit with 0 and must not have panicked."""
        _stop_cleanly(self._process, signal.SIGINT)


def _stop_cleanly(process: EventProcess, how: signal.Signals = signal.SIGTERM) -> None:
    process.expect_running()
    code = process.stop(how)
    expect(code == 0, f"{process.name} ended with {code} after {how.name}")
    log = process.stderr_log.read_text(errors="replace")
    expect("panicked at" not in log, f"{process.name} panicked:\n{log}")
