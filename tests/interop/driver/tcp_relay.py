"""A network between two processes that can fail: relays of TCP connections on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from driver.loop_thread import LoopThread

_CHUNK = 64 << 10

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def relay(
    near: Stream, far: Stream, forwards: asyncio.Event, observe: Callable[[bytes], None] | None = None
) -> None:
    """Forwards in both directions while the event is set, until one side closes the connection.

    Then both are closed. `observe` is shown all that goes to the far side.
    """

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_outward: bool) -> None:
        while chunk := await reader.read(_CHUNK):
            await forwards.wait()
            if observe and is_outward:
                observe(chunk)
            writer.write(chunk)
            await writer.drain()

    both = [asyncio.create_task(pump(near[0], far[1], True)), asyncio.create_task(pump(far[0], near[1], False))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        # A connection that was reset is not worth a message.
        await asyncio.gather(*both, return_exceptions=True)
        near[1].close()
        far[1].close()


class Network(Enum):
    """What a relay does."""

    UP = "forwards"
    # As when a host is gone: connections end, and new ones are closed.
    CUT = "closes connections"
    # As when a firewall drops packets: nothing is forwarded, and nobody is told.
    SILENT = "forwards nothing"


class TcpRelay:
    """Forwards connections to one port on loopback, until it is told not to."""

    def __init__(self, loop: LoopThread, target: int) -> None:
        self._loop = loop
        self._target = target
        self._state = Network.UP
        self._forwards = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self.port: int = loop.run(self._start())

    def become(self, state: Network) -> None:
        """Changes the state of the network."""
        self._loop.run(self._become(state))

    async def _start(self) -> int:
        self._forwards.set()
        return await self._loop.listen(self._accept)

    async def _become(self, state: Network) -> None:
        self._state = state
        if state is Network.SILENT:
            self._forwards.clear()
        else:
            self._forwards.set()
        if state is Network.CUT:
            for connection in self._connections:
                connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._state is Network.CUT:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forwards.wait()
            far = await asyncio.open_connection("127.0.0.1", self._target)
            await relay((reader, writer), far, self._forwards)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
