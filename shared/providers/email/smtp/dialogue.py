"""Commands over a connection and their replies, in order. Several commands may be unanswered at once (RFC 2920)."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Final, cast

_LONGEST_REPLY_BYTES: Final = 32_768
"""As aiosmtplib allows a greeting; who sends more without an end is no mail server."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply's code, and its text: the lines of a longer one joined by line ends."""

    code: int
    text: str


class Dialogue(asyncio.Protocol):
    """What follows greeting, TLS and login on a connection.

    Replies come in the order of the commands (RFC 2920 section 3.2), so each is given to whoever has waited longest.
    Nothing here raises: a connection that ends, is silent too long or speaks out of turn shows as replies that miss.
    """

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        """Takes the connection over from whatever protocol has led it so far."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._transport.set_protocol(self)
        self._buffer = bytearray()
        self._lines: list[str] = []
        self._asked: deque[Asked] = deque()
        self._ended = self._transport.is_closing()
        self.closing = self._ended
        """Whether nothing more may be asked; what has been asked may still be answered."""

    def ask(self, commands: bytes, replies: int, *, within_sec: float, deadline: float) -> "Asked":
        """Write; await the result for as many replies.

        Each reply is due within_sec after the one before it, and all of them at the deadline, of `time.monotonic()`.
        """
        asked = Asked(self, replies, within_sec, deadline)
        if self.closing:
            asked.end("disconnected")
            return asked
        self._asked.append(asked)
        if len(self._asked) == 1:
            asked.is_next()
        self._transport.write(commands)
        return asked

    def leave(self) -> None:
        """Close without a word, as soon as what others wait for has been answered."""
        self.closing = True
        if not self._asked:
            self._end("disconnected")

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while (end := buffer.find(b"\n", start)) >= 0:
            self._line(bytes(buffer[start:end]))
            start = end + 1
        del buffer[:start]
        if len(buffer) + sum(map(len, self._lines)) > _LONGEST_REPLY_BYTES:
            self._end("endless reply")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's port; why is all the same
        self._end("disconnected")

    def _line(self, line: bytes) -> None:
        code = line[:3]
        if self._ended:
            return
        if not self._asked or not code.isdigit() or len(code) < 3:
            self._end("out of turn")
            return
        self._lines.append(line[4:].decode("utf-8", "surrogateescape").rstrip("\r"))
        if line[3:4] == b"-":
            return
        reply = Reply(int(code), self._lines[0] if len(self._lines) == 1 else "\n".join(self._lines))
        self._lines.clear()
        if self._asked[0].answer(reply):
            self._asked.popleft()
            if self._asked:
                self._asked[0].is_next()
            elif self.closing:
                self._end("disconnected")

    def gave_up(self, asked: "Asked") -> None:
        """A wait has ended without its replies: whoever waits before it may still have theirs, nobody after it can."""
        while self._asked and self._asked[-1] is not asked:
            self._asked.pop().end("disconnected")
        if self._asked:
            self._asked.pop()
        self.leave()

    def _end(self, why: str) -> None:
        self.closing = True
        if not self._ended:
            self._ended = True
            self._transport.abort()
        while self._asked:
            self._asked.popleft().end(why)


class Asked:
    """Commands that have been written; awaited, their replies: all of them, or those that came before it ended.

    `why` says in a word or two how it ended early. A caller that is cancelled gives up on the connection.
    """

    __slots__ = ("_deadline", "_dialogue", "_future", "_timer", "_wanted", "_within_sec", "replies", "why")

    def __init__(self, dialogue: Dialogue, wanted: int, within_sec: float, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._dialogue = dialogue
        self._wanted = wanted
        self._within_sec = within_sec
        self._deadline = deadline
        self._future: asyncio.Future[None] = loop.create_future()
        self._timer = loop.call_later(deadline - time.monotonic(), self._expire)
        self.replies: list[Reply] = []
        self.why = ""

    async def answered(self) -> list[Reply]:
        """The replies, when they are all there or no more will come."""
        try:
            await self._future
        except asyncio.CancelledError:
            self._timer.cancel()
            self._dialogue.gave_up(self)
            raise
        return self.replies

    def is_next(self) -> None:
        """All that was asked before has been answered: from now on counts how long a reply may take."""
        left_sec = min(self._within_sec, self._deadline - time.monotonic())
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(left_sec, self._expire)

    def answer(self, reply: Reply) -> bool:
        """Take the next reply; True with the last one."""
        self.replies.append(reply)
        if len(self.replies) < self._wanted:
            self.is_next()
            return False
        self.end("")
        return True

    def end(self, why: str) -> None:
        """No more replies come."""
        self._timer.cancel()
        if not self._future.done():
            self.why = why
            self._future.set_result(None)

    def _expire(self) -> None:
        if not self._future.done():
            self.end("timed out")
            self._dialogue.gave_up(self)
