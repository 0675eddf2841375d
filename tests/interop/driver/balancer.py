"""A TCP balancer in front of replicas, which moves clients from one to another."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from dataclasses import dataclass, field

from driver.loop_thread import LoopThread
from driver.tcp_relay import Stream, relay

# The node id of a client, as it is in the first request of each stream.
_CLIENT = re.compile(rb"(client-\d+-|envoy-\d+)")
# The first request of a client is within this many bytes.
_FIRST_REQUEST = 256 << 10
_INTERVAL = 0.25


@dataclass
class Moves:
    """What the balancer has done."""

    connections: int = 0
    # Connections that it has ended itself.
    ended: int = 0
    # Clients that came back and got another replica than before.
    moved: int = 0
    # Those of them by the beginning of their node id.
    moved_by_kind: Counter[str] = field(default_factory=Counter)
    by_replica: Counter[int] = field(default_factory=Counter)


class Balancer:
    """Gives each connection to a random replica that accepts it, and ends some of them again and again."""

    def __init__(self, loop: LoopThread, replicas: list[int], seed: int) -> None:
        self._loop = loop
        self._replicas = replicas
        self._random = random.Random(seed)
        self._last: dict[bytes, int] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._share = 0.0
        self._forwards = asyncio.Event()
        self.moves = Moves()
        self.port: int = loop.run(self._start())

    def end_each_second(self, share: float) -> None:
        """Ends this share of all connections within each second from now on, at random."""
        self._share = share

    async def _start(self) -> int:
        self._forwards.set()
        self._ending = asyncio.create_task(self._end_some())
        # For as many clients as there are, which come back together.
        return await self._loop.listen(self._accept, backlog=4096)

    async def _end_some(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            for connection in list(self._connections):
                if self._random.random() < self._share * _INTERVAL:
                    self.moves.ended += 1
                    connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.moves.connections += 1
        self._connections.add(task)
        try:
            if (chosen := await self._connect()) is not None:
                replica, far = chosen
                self.moves.by_replica[replica] += 1
                await relay((reader, writer), far, self._forwards, _Recognition(self, replica))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _connect(self) -> tuple[int, Stream] | None:
        for replica in self._random.sample(self._replicas, len(self._replicas)):
            try:
                return replica, await asyncio.open_connection("127.0.0.1", replica)
            except OSError:
                # It has been killed.
                continue
        return None

    def note_client(self, client: bytes, replica: int) -> None:
        """Counts a client by the replica that it has now."""
        before = self._last.get(client)
        self._last[client] = replica
        if before is not None and before != replica:
            self.moves.moved += 1
            self.moves.moved_by_kind[client.split(b"-")[0].decode()] += 1


class _Recognition:
    """Finds the node id in what a client sends."""

    def __init__(self, balancer: Balancer, replica: int) -> None:
        self._balancer = balancer
        self._replica = replica
        self._seen = b""
        self._is_over = False

    def __call__(self, chunk: bytes) -> None:
        if self._is_over:
            return
        self._seen += chunk
        if found := _CLIENT.search(self._seen):
            self._balancer.note_client(found.group(), self._replica)
        if found or len(self._seen) > _FIRST_REQUEST:
            self._is_over = True
            self._seen = b""
