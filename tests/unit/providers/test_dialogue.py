"""Replies find whoever asked, in order; what ends early says so, and takes nobody along who was ahead."""

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.providers.email.smtp.dialogue import Asked, Dialogue, Reply


class Line(asyncio.Transport):
    """A transport that keeps what is written, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.aborted = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.aborted

    def write(self, data: Any) -> None:
        assert not self.aborted
        self.writes.append(bytes(data))

    def abort(self) -> None:
        self.aborted = True


class Talk:
    """A dialogue over such a line."""

    def __init__(self) -> None:
        self.line = Line()
        self.dialogue = Dialogue(self.line)
        self.closings = 0
        self.dialogue.on_closing = self._count

    def _count(self) -> None:
        self.closings += 1

    def asked(self, commands: bytes, replies: int = 1, *, within_sec: float = 600.0, in_sec: float = 600.0) -> Asked:
        deadline = time.monotonic() + in_sec
        return Asked(self.dialogue, commands, replies, within_sec=within_sec, deadline=deadline)

    def ask(self, commands: bytes, replies: int = 1, **limits: float) -> Asked:
        asked = self.asked(commands, replies, **limits)
        self.dialogue.ask(asked)
        return asked

    def in_turn(self, commands: bytes, replies: int = 1, **limits: float) -> Asked:
        asked = self.asked(commands, replies, **limits)
        self.dialogue.ask_in_turn(asked)
        return asked


async def told(asked: Asked) -> tuple[list[Reply], str]:
    """What came of it; fails by time if nothing has ended it."""
    return await asyncio.wait_for(asked.answered(), 60), asked.why


LINES = [b"250-one\r\n", b"250-\xc5\x9fi\r\n", b"250 three\r\n", b"354 go\r\n", b"221\r\n"]
REPLIES = [Reply(250, "one\nşi\nthree"), Reply(354, "go"), Reply(221, "")]


@given(st.lists(st.integers(1, sum(map(len, LINES)) - 1)))
def test_replies_are_the_same_however_they_are_cut(cuts: Sequence[int]) -> None:
    async def run() -> None:
        talk = Talk()
        first, second = talk.ask(b"A\r\n", 2), talk.ask(b"B\r\n")
        data = b"".join(LINES)
        bounds = [0, *sorted(cuts), len(data)]
        for start, end in pairwise(bounds):
            talk.dialogue.data_received(data[start:end])
        assert await told(first) == (REPLIES[:2], "")
        assert await told(second) == (REPLIES[2:], "")
        assert not talk.dialogue.closing

    asyncio.run(run())


async def test_bytes_that_are_no_utf8_are_no_trouble() -> None:
    talk = Talk()
    asked = talk.ask(b"A\r\n")
    talk.dialogue.data_received(b"550 5.1.1 \xfe\xff\r\n")
    ((reply,), why) = await told(asked)
    assert (reply.code, reply.text[:6], why) == (550, "5.1.1 ", "")


@pytest.mark.parametrize(
    "data",
    [b"hello\r\n", b"25\r\n", b"\r\n", b"2x0 ok\r\n", "٢٥٠ ok\r\n".encode()],
    ids=["no-code", "short", "empty", "no-digits", "other-digits"],
)
async def test_what_is_no_reply_ends_all(data: bytes) -> None:
    talk = Talk()
    first, second = talk.ask(b"A\r\n"), talk.ask(b"B\r\n")
    talk.dialogue.data_received(b"250 ok\r\n" + data + b"250 too late\r\n")
    assert await told(first) == ([Reply(250, "ok")], "")
    assert await told(second) == ([], "out of turn")
    assert talk.line.is_closing()


async def test_reply_that_nobody_waits_for_ends_it() -> None:
    talk = Talk()
    talk.dialogue.data_received(b"421 4.4.2 idle too long\r\n")
    assert talk.line.is_closing()
    assert await told(talk.ask(b"A\r\n")) == ([], "disconnected")
    assert talk.line.writes == []


@pytest.mark.parametrize("piece", [b"x" * 1000, b"250-" + b"x" * 996 + b"\r\n"], ids=["one-line", "many-lines"])
async def test_reply_without_an_end_is_not_kept_for_ever(piece: bytes) -> None:
    talk = Talk()
    asked = talk.ask(b"A\r\n")
    for _ in range(32):
        talk.dialogue.data_received(piece)
    assert not talk.line.is_closing()
    talk.dialogue.data_received(piece)
    assert await told(asked) == ([], "endless reply")
    assert talk.line.is_closing()


# ---------------------------------------------------------------- turns


async def test_who_waits_for_the_turn_is_written_with_the_last_of_whoever_had_it() -> None:
    talk = Talk()
    talk.in_turn(b"one\r\n")
    talk.in_turn(b"two\r\n")
    three = talk.in_turn(b"three\r\n")
    assert talk.line.writes == [b"one\r\n"]
    talk.dialogue.ask(talk.asked(b"one's end\r\n"), more=True)
    talk.dialogue.end_turn()
    assert talk.line.writes == [b"one\r\n", b"one's end\r\ntwo\r\n"]
    talk.dialogue.end_turn()
    talk.dialogue.end_turn()
    assert talk.line.writes[2:] == [b"three\r\n"]
    talk.in_turn(b"four\r\n")
    assert talk.line.writes[3:] == [b"four\r\n"]
    talk.dialogue.data_received(b"250 1\r\n250 1e\r\n250 2\r\n250 3\r\n")
    assert await told(three) == ([Reply(250, "3")], "")


async def test_who_goes_before_the_turn_comes_leaves_no_trace() -> None:
    talk = Talk()
    one = talk.in_turn(b"one\r\n")
    two = asyncio.create_task(talk.in_turn(b"two\r\n").answered())
    three = talk.in_turn(b"three\r\n", in_sec=0.0)
    four = talk.in_turn(b"four\r\n")
    await asyncio.sleep(0)
    two.cancel()
    assert await told(three) == ([], "timed out")
    talk.dialogue.end_turn()
    assert talk.line.writes == [b"one\r\n", b"four\r\n"]
    talk.dialogue.data_received(b"250 1\r\n250 4\r\n")
    assert await told(one) == ([Reply(250, "1")], "")
    assert await told(four) == ([Reply(250, "4")], "")
    assert (talk.closings, two.cancelled()) == (0, True)


async def test_no_turn_comes_on_a_connection_that_is_left() -> None:
    talk = Talk()
    one = talk.in_turn(b"one\r\n")
    two = talk.in_turn(b"two\r\n")
    talk.dialogue.leave()
    assert await told(two) == ([], "disconnected")
    assert await told(talk.in_turn(b"three\r\n")) == ([], "disconnected")
    talk.dialogue.end_turn()
    assert talk.line.writes == [b"one\r\n"]
    assert not talk.line.is_closing()
    talk.dialogue.data_received(b"250 1\r\n")
    assert await told(one) == ([Reply(250, "1")], "")
    assert talk.line.is_closing()
    assert talk.closings == 1


# ---------------------------------------------------------------- ends


async def test_connection_that_is_lost_ends_everybody_once() -> None:
    talk = Talk()
    asked = [talk.ask(b"A\r\n", 2), talk.ask(b"B\r\n"), talk.in_turn(b"C\r\n"), talk.in_turn(b"D\r\n")]
    talk.dialogue.data_received(b"250 ok\r\n")
    talk.dialogue.connection_lost(None)
    assert [await told(each) for each in asked] == [
        ([Reply(250, "ok")], "disconnected"),
        *[([], "disconnected")] * 3,
    ]
    assert talk.closings == 1


async def test_transport_that_is_closed_already_takes_nothing() -> None:
    line = Line()
    line.abort()
    dialogue = Dialogue(line)
    asked = Asked(dialogue, b"A\r\n", 1, within_sec=600.0, deadline=time.monotonic() + 600)
    dialogue.ask(asked)
    assert dialogue.closing
    assert await told(asked) == ([], "disconnected")


@pytest.mark.parametrize("how", ["deadline", "command"])
async def test_whose_time_is_up_ends_those_behind_and_waits_for_those_ahead(how: str) -> None:
    talk = Talk()
    first = talk.ask(b"A\r\n")
    second = talk.ask(b"B\r\n", in_sec=0.0) if how == "deadline" else talk.ask(b"B\r\n", 2, within_sec=0.0)
    third = talk.ask(b"C\r\n")
    if how == "command":
        talk.dialogue.data_received(b"250 A\r\n")
    assert await told(second) == ([], "timed out")
    assert await told(third) == ([], "disconnected")
    assert talk.dialogue.closing
    if how == "deadline":
        assert not talk.line.is_closing()
        talk.dialogue.data_received(b"250 A\r\n")
    assert await told(first) == ([Reply(250, "A")], "")
    assert talk.line.is_closing()


async def test_a_command_s_time_begins_with_the_reply_before_it() -> None:
    talk = Talk()
    first = talk.ask(b"A\r\n")
    second = talk.ask(b"B\r\n", 2, within_sec=0.2)
    await asyncio.sleep(0.5)
    talk.dialogue.data_received(b"250 A\r\n")
    for _ in range(2):
        await asyncio.sleep(0.0)
        talk.dialogue.data_received(b"250 B\r\n")
    assert await told(first) == ([Reply(250, "A")], "")
    assert await told(second) == ([Reply(250, "B")] * 2, "")
    assert not talk.dialogue.closing


async def test_a_long_limit_does_not_hide_a_short_one_that_follows() -> None:
    talk = Talk()
    talk.ask(b"A\r\n")
    short = talk.ask(b"B\r\n", within_sec=0.1)
    talk.dialogue.data_received(b"250 A\r\n")
    assert await told(short) == ([], "timed out")


async def test_who_is_cancelled_in_the_middle_leaves_the_connection_and_those_ahead_their_replies() -> None:
    talk = Talk()
    first = talk.ask(b"A\r\n")
    second = asyncio.create_task(talk.ask(b"B\r\n", 2).answered())
    third = talk.ask(b"C\r\n")
    await asyncio.sleep(0)
    second.cancel()
    assert await told(third) == ([], "disconnected")
    talk.dialogue.data_received(b"250 A\r\n")
    assert await told(first) == ([Reply(250, "A")], "")
    assert talk.line.is_closing()


async def test_who_is_cancelled_as_the_reply_comes_leaves_the_connection_too() -> None:
    """It would be in the middle of a mail."""
    talk = Talk()
    task = asyncio.create_task(talk.ask(b"A\r\n").answered())
    await asyncio.sleep(0)
    talk.dialogue.data_received(b"354 go\r\n")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert talk.line.is_closing()
