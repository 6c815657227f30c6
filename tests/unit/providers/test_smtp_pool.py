"""Which connection a mail goes over, with sessions that say what a test wants."""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from shared.core.outcome import ProviderDown
from shared.providers.email.smtp.classify import Phase
from shared.providers.email.smtp.handshake import DialogueError
from shared.providers.email.smtp.pool import Connections
from shared.providers.email.smtp.session import PROMPT_SEC, Session
from shared.providers.email.smtp.settings import SmtpSettings


@dataclass(eq=False)
class Fake:
    mails: int = 0
    moved_at: float = field(default_factory=time.monotonic)
    prompt: bool = False
    pipelining: bool = True
    closing: bool = False
    said_goodbye: bool = False
    closes: Callable[[], None] = lambda: None

    def on_closing(self, then: Callable[[], None]) -> None:
        self.closes = then

    def abandon(self) -> None:
        self.closing = True
        self.closes()

    async def quit(self) -> None:
        self.said_goodbye = True


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, concurrency: int) -> None:
        self.opened: list[Fake] = []
        self.depths: list[bool] = []
        self.fails: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        monkeypatch.setattr(Session, "open", self._open)
        settings = SmtpSettings(host="relay", from_address="a@shop.example", concurrency=concurrency, idle_sec=60.0)
        self.connections = Connections(settings, ssl.create_default_context(), self.depths.append)

    async def _open(self, _settings: SmtpSettings, _context: ssl.SSLContext) -> Fake:
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        self.opened.append(Fake())
        return self.opened[-1]

    async def take(self, within_sec: float = 60.0) -> Fake:
        return cast("Fake", await self.connections.take(time.monotonic() + within_sec))

    def back(self, session: Fake) -> None:
        self.connections.back(cast("Session", session))


async def test_the_one_used_last_is_used_again_and_the_others_grow_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 3)
    one, two, three = [await world.take() for _ in range(3)]
    for session in (two, three, one):
        world.back(session)
    assert await world.take() is one
    two.moved_at -= 61
    assert await world.take() is three
    assert two.closing
    assert not three.closing
    assert await world.take() not in (one, two, three)


async def test_when_all_are_open_the_one_that_carries_the_least_takes_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 2)
    one, two = await world.take(), await world.take()
    assert {await world.take(), await world.take()} == {one, two}
    assert (one.mails, two.mails) == (2, 2)
    world.back(two)
    assert await world.take() is two
    assert len(world.opened) == 2


async def test_one_that_is_stuck_in_a_mail_takes_another_last(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 2)
    stuck, other = await world.take(), await world.take()
    stuck.moved_at -= 2 * PROMPT_SEC
    assert [await world.take(), await world.take()] == [other, other]
    other.moved_at -= 2 * PROMPT_SEC
    assert await world.take() is stuck


async def test_one_that_closes_is_not_used_and_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 2)
    busy, free = await world.take(), await world.take()
    world.back(free)
    busy.abandon()
    free.abandon()
    world.back(busy)
    again = [await world.take(), await world.take()]
    assert again == world.opened[2:]
    await world.connections.close()
    assert [session.said_goodbye for session in world.opened] == [False, False, True, True]


async def test_depth_is_told_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1)
    for prompt, pipelining in [(False, True), (True, True), (True, True), (False, True), (True, False), (True, True)]:
        session = await world.take()
        session.prompt, session.pipelining = prompt, pipelining
        world.back(session)
    assert world.depths == [True, False, True]


async def test_who_waits_for_one_to_open_takes_what_comes_free_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1)
    world.gate.clear()
    taking = [asyncio.create_task(world.take()) for _ in range(2)]
    await asyncio.sleep(0)
    world.gate.set()
    first, second = await asyncio.gather(*taking)
    assert first is second
    assert (len(world.opened), first.mails) == (1, 2)


async def test_none_that_opens_in_time_is_a_timeout_and_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1)
    world.gate.clear()
    with pytest.raises(TimeoutError):
        await world.take(0.05)
    world.gate.set()
    world.fails = DialogueError(ProviderDown("x"), phase=Phase.TLS, over=True)
    with pytest.raises(DialogueError):
        await world.take()
    world.fails = None
    assert (await world.take()).mails == 1
