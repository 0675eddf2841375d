"""HTTP backends and an HTTP load in one thread of their own, and what became of each request."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from driver.loop_thread import LoopThread
from driver.waiting import eventually

# Far more than a request takes on a busy machine.
_PATIENCE = 15.0
# How long a slow answer takes, and the pause between two requests of one worker.
_SLOW = 0.4
_PAUSE = 0.01
# Workers that begin together would be between two requests together.
_STAGGER = 0.037


class Backend:
    """An HTTP/1.1 server on a free loopback port: it answers with its name, to `/.../slow` after a while.

    It keeps connections open for as long as the other side does, so that none ends under a request.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begins to listen, on `port`."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Takes no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = self.name.encode()
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                words = head.split(b" ", 2)
                if len(words) < 3:
                    # Not a request, such as the rest of the preface of HTTP/2.
                    break
                if words[1].endswith(b"/slow"):
                    await asyncio.sleep(_SLOW)
                writer.write(answer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            # Envoy has closed it, or the load is over. What a handler raises asyncio would print.
            pass
        finally:
            writer.close()


@dataclass
class Tally:
    """What became of the requests."""

    answered: int = 0
    # How often each thing went wrong.
    failures: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    # Of the requests that are not answered yet, when they began.
    in_flight: dict[int, float] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """How many were not answered as they should have been."""
        return sum(self.failures.values())

    def __str__(self) -> str:
        total = self.answered + self.failed
        reasons = "".join(f", {count} x {what}" for what, count in self.failures.most_common(8))
        return f"{total} requests over {self.connections} connections, {self.failed} failed{reasons}"


class LoadThread:
    """Runs backends and requests on an event loop of its own, while its `with` block does."""

    def __init__(self, *backends: str) -> None:
        self.backends = {name: Backend(name) for name in backends}
        self.tally = Tally()
        self._loop = LoopThread()
        self._stopping = False
        self._workers: list[asyncio.Task[None]] = []

    def __enter__(self) -> LoadThread:
        self._loop.__enter__()
        for backend in self.backends.values():
            self._loop.run(backend.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._close())
        self._loop.__exit__(kind, error, trace)

    def start(self, port: int, *, kept: int, new: int, slow: int) -> None:
        """Begins to send: over connections that are kept, over new ones, and requests that take a while."""
        self._loop.run(self._start(port, kept, new, slow))

    def stop(self) -> Tally:
        """Lets every request end that has begun, and returns what became of all of them."""
        self._stopping = True
        self._loop.run(self._join())
        return self.tally

    def wait_for_a_request(self) -> None:
        """Waits until a request is in flight."""
        eventually("a request in flight", lambda: bool(self.tally.in_flight))

    def oldest_in_flight(self) -> float | None:
        """When the oldest request began that is not answered yet."""
        return min(self.tally.in_flight.copy().values(), default=None)

    async def _start(self, port: int, kept: int, new: int, slow: int) -> None:
        names = list(self.backends)
        kinds = [(True, "")] * kept + [(False, "")] * new
        kinds += [(index % 2 == 0, "/slow") for index in range(slow)]
        for number, (keeps, suffix) in enumerate(kinds):
            worker = _Worker(self.tally, number, port, names[number % len(names)], suffix, keeps)
            self._workers.append(asyncio.create_task(worker.run(lambda: self._stopping)))
            await asyncio.sleep(_STAGGER)

    async def _join(self) -> None:
        # What a worker does not expect is an error of ours, and is raised here.
        await asyncio.gather(*self._workers)

    async def _close(self) -> None:
        for backend in self.backends.values():
            backend.close()


class _Worker:
    """Sends one request after the other, and says what came of each."""

    def __init__(self, tally: Tally, number: int, port: int, backend: str, suffix: str, keeps: bool) -> None:
        self._tally = tally
        self._number = number
        self._port = port
        self._backend = backend
        self._keeps = keeps
        last = "" if keeps else "connection: close\r\n"
        self._request = f"GET /{backend}{suffix} HTTP/1.1\r\nhost: load\r\n{last}\r\n".encode()
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, is_over: Callable[[], bool]) -> None:
        tally = self._tally
        while not is_over():
            tally.in_flight[self._number] = time.monotonic()
            failure = await self._fetch()
            del tally.in_flight[self._number]
            if failure is None:
                tally.answered += 1
            else:
                tally.failures[failure] += 1
            await asyncio.sleep(_PAUSE)
        self._close()

    async def _fetch(self) -> str | None:
        """One request and its answer; why it failed, if it did."""
        try:
            return await asyncio.wait_for(self._exchange(), _PATIENCE)
        except asyncio.TimeoutError:
            failure = f"no answer within {_PATIENCE:g} s"
        except asyncio.IncompleteReadError as error:
            failure = f"connection closed after {len(error.partial)} bytes"
        except OSError as error:
            failure = f"{type(error).__name__}"
        self._close()
        return failure

    async def _exchange(self) -> str | None:
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", self._port)
            self._tally.connections += 1
        reader, writer = self._connection
        writer.write(self._request)
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
        headers = dict(line.split(": ", 1) for line in lines if line)
        body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode("utf-8", "replace")
        if headers.get("connection") == "close":
            self._close()
        status = status_line.split(" ")[1]
        if status != "200":
            return f"HTTP {status} {body}".rstrip()
        return None if body == self._backend else f"answered by {body} instead of {self._backend}"

    def _close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None
