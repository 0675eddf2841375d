"""Requests over HTTP/1.1 that look like gRPC calls to whoever routes them, and what came of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

# Far more than one takes on a busy machine.
_PATIENCE = 15.0
_CONNECTIONS = 8


@dataclass(frozen=True)
class HttpCall:
    """A path and what a call carries beside it."""

    path: str
    metadata: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Answer:
    """The status of HTTP, that of gRPC where somebody states one, and the body."""

    status: int
    code: int | None
    body: str


def make_calls(port: int, authority: str, calls: Sequence[HttpCall]) -> list[Answer]:
    """Makes all of them, over a few connections that are kept, and returns the answers in their order."""
    return asyncio.run(_make(port, authority, calls))


async def _make(port: int, authority: str, calls: Sequence[HttpCall]) -> list[Answer]:
    answers: dict[int, Answer] = {}
    waiting = iter(enumerate(calls))

    async def worker() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for index, call in waiting:
                writer.write(_request(authority, call))
                answers[index] = await asyncio.wait_for(_answer(reader), _PATIENCE)
        finally:
            writer.close()

    await asyncio.gather(*(worker() for _ in range(min(_CONNECTIONS, len(calls)))))
    return [answers[index] for index in range(len(calls))]


def _request(authority: str, call: HttpCall) -> bytes:
    lines = [
        f"POST {call.path} HTTP/1.1",
        f"host: {authority}",
        "content-type: application/grpc",
        "te: trailers",
        "content-length: 0",
        *(f"{name}: {value}" for name, value in call.metadata),
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


async def _answer(reader: asyncio.StreamReader) -> Answer:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    code = headers.get("grpc-status")
    return Answer(int(first.split(" ")[1]), None if code is None else int(code), body.decode())
