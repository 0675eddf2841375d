"""An event loop in a thread of its own, for servers and loads that run beside the checks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_PATIENCE = 30.0


class LoopThread:
    """Runs an event loop while its `with` block does. All tasks end with it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T], patience: float = _PATIENCE) -> T:
        """Runs work on the loop, and waits for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(patience)

    async def listen(self, accept: Accept, backlog: int = 100) -> int:
        """Listens on a free port of loopback until the loop ends, and returns the port. To be awaited on the loop."""
        server = await asyncio.start_server(accept, "127.0.0.1", 0, backlog=backlog)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        # Those of connections that were accepted just before begin now.
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
