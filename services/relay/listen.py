"""NOTIFY wakes the loops that a commit made work for. It only shortens a wait: what it misses, the poll finds (O4)."""

import asyncio
from collections.abc import Sequence
from typing import Final

import asyncpg

from services.relay.loop import Loop
from shared.postgres.pool import connect
from shared.postgres.settings import PostgresSettings
from shared.runtime.service import Stop

_KEEP_ALIVE_SEC: Final = 15.0


async def listen(postgres: PostgresSettings, loops: Sequence[Loop], stop: Stop) -> bool:
    """One LISTEN connection's life: every NOTIFY, and the connecting itself (O4), wakes the loops of its channel.

    Needs a direct connection: behind a pooler nothing would be heard (O5). Returns at stop; raises when the connection
    is lost, so that the loop around it connects again.
    """
    lost = asyncio.Event()

    def wake(_connection: object, _pid: int, channel: str, _payload: object) -> None:
        for loop in loops:
            if loop.channel == channel:
                loop.wake()

    async with connect(postgres, name="relay listen") as connection:
        connection.add_termination_listener(lambda _connection: lost.set())
        channels = sorted({loop.channel for loop in loops if loop.channel is not None})
        for channel in channels:
            await connection.add_listener(channel, wake)
        for loop in loops:
            loop.wake()
        waiting = asyncio.ensure_future(lost.wait())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.requested:
                await asyncio.wait({waiting, stopping}, timeout=_KEEP_ALIVE_SEC, return_when=asyncio.FIRST_COMPLETED)
                if lost.is_set():
                    raise asyncpg.ConnectionDoesNotExistError("the LISTEN connection was terminated")
                await connection.execute("SELECT 1")
        finally:
            waiting.cancel()
            stopping.cancel()
        for channel in channels:
            await connection.remove_listener(channel, wake)
    return False


def listener(name: str, postgres: PostgresSettings, loops: Sequence[Loop], stop: Stop, *, idle_sec: float) -> Loop:
    """The loop that listens for others."""

    async def live() -> bool:
        return await listen(postgres, loops, stop)

    return Loop(f"listen@{name}", live, idle_sec)
