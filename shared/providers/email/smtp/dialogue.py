"""Commands over a connection and their replies, in order. Several commands may be unanswered at once (RFC 2920)."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, cast

_LONGEST_REPLY_BYTES: Final = 32_768
"""As aiosmtplib allows a greeting; who sends more without an end is no mail server."""


class Reply(NamedTuple):
    """A reply's code, and its text: the lines of a longer one joined by line ends."""

    code: int
    text: str


class Asked:
    """Commands and the replies they are due; awaited, all of these, or those that came before it ended.

    Each reply is due within_sec after the one before it, and all of them at the deadline, of `time.monotonic()`. `why`
    says in a word or two how it ended early. A caller that is cancelled gives up: nobody may take its replies for the
    next one's, so that what is written then ends the connection.
    """

    __slots__ = ("_dialogue", "_future", "commands", "deadline", "due", "replies", "wanted", "why", "within_sec")

    def __init__(
        self, dialogue: "Dialogue", commands: bytes, wanted: int, *, within_sec: float, deadline: float
    ) -> None:
        self._dialogue = dialogue
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commands = commands
        self.wanted = wanted
        self.within_sec = within_sec
        self.deadline = deadline
        self.due = deadline
        self.replies: list[Reply] = []
        self.why = ""

    async def answered(self) -> list[Reply]:
        """The replies, when they are all there or no more will come."""
        try:
            await self._future
        except asyncio.CancelledError:
            self._dialogue.give_up(self)
            raise
        return self.replies

    def end(self, why: str) -> None:
        """No more replies come."""
        if not self._future.done():
            self.why = why
            self._future.set_result(None)


class Dialogue(asyncio.Protocol):
    """What follows greeting, TLS and login on a connection.

    Replies come in the order of the commands (RFC 2920 section 3.2), so each is given to whoever has waited longest.
    Nothing here raises: a connection that ends, is silent too long or speaks out of turn shows as replies that miss.

    One caller at a time has the turn, from `ask_in_turn` to `end_turn`, and may ask more meanwhile; the others wait
    with their commands unwritten.
    """

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        """Takes the connection over from whatever protocol has led it so far."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._transport.set_protocol(self)
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._lines: list[str] = []
        self._lines_bytes = 0
        self._unwritten: list[bytes] = []
        self._asked: deque[Asked] = deque()
        self._queue: deque[Asked] = deque()
        self._taken = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._ended = self._transport.is_closing()
        self.closing = self._ended
        """Whether nothing more may be asked; what has been asked may still be answered."""
        self.on_closing: Callable[[], None] = lambda: None
        """Called once, when that begins."""

    def ask(self, asked: Asked, *, more: bool = False) -> None:
        """Write its commands; more: together with those that follow at once."""
        if self.closing:
            asked.end("disconnected")
            return
        self._asked.append(asked)
        if len(self._asked) == 1:
            self._is_next(asked)
        else:
            self._look_by(asked.due)
        self._unwritten.append(asked.commands)
        if not more:
            self._write()

    def ask_in_turn(self, asked: Asked) -> None:
        """`ask` as soon as nobody has the turn; asked has it then."""
        if self._taken and not self.closing:
            self._queue.append(asked)
            self._look_by(asked.due)
        else:
            self._taken = True
            self.ask(asked)

    def end_turn(self) -> None:
        """Whoever has waited longest has the turn; its commands are written together with what is to be written yet."""
        self._taken = bool(self._queue)
        if self._taken:
            self.ask(self._queue.popleft(), more=True)
        self._write()

    def give_up(self, asked: Asked) -> None:
        """A wait has ended without its replies.

        Whoever waits before it may still have theirs, nobody after it can. What was not written leaves no trace.
        """
        if asked in self._queue:
            self._queue.remove(asked)
            return
        if asked in self._asked:
            while (last := self._asked.pop()) is not asked:
                last.end("disconnected")
        self.leave()

    def leave(self) -> None:
        """Close without a word, as soon as what others wait for has been answered."""
        self._close()
        if not self._asked:
            self._end("disconnected")

    # ------------------------------------------------------------ what comes

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        for line in data[:end].decode("utf-8", "surrogateescape").split("\n")[:-1]:
            if self._ended:
                return
            self._line(line)
        if len(self._rest) + self._lines_bytes > _LONGEST_REPLY_BYTES:
            self._end("endless reply")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's port; why is all the same
        self._end("disconnected")

    def _line(self, line: str) -> None:
        code = line[:3]
        if not self._asked or len(code) < 3 or not (code.isascii() and code.isdigit()):
            self._end("out of turn")
            return
        text = line[4:].rstrip("\r")
        if self._lines or line[3:4] == "-":
            self._lines.append(text)
            self._lines_bytes += len(text)
            if line[3:4] == "-":
                return
            text = "\n".join(self._lines)
            self._lines.clear()
            self._lines_bytes = 0
        asked = self._asked[0]
        asked.replies.append(Reply(int(code), text))
        if len(asked.replies) == asked.wanted:
            self._asked.popleft()
            asked.end("")
        if self._asked:
            self._is_next(self._asked[0])
        elif self.closing:
            self._end("disconnected")

    # ------------------------------------------------------------ time

    def _is_next(self, asked: Asked) -> None:
        """All that was asked before has been answered: from now on counts how long a reply may take."""
        asked.due = min(asked.deadline, time.monotonic() + asked.within_sec)
        self._look_by(asked.due)

    def _look_by(self, due: float) -> None:
        """One timer for all: it is set anew where somebody is due before it, not for each reply that comes in time."""
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_later(due - time.monotonic(), self._look)

    def _look(self) -> None:
        """End what is overdue; look again when the next one would be."""
        self._timer = None
        now = time.monotonic()
        for asked in [asked for asked in (*self._asked, *self._queue) if asked.due <= now]:
            asked.end("timed out")
            self.give_up(asked)
        waiting = [asked.due for asked in (*self._asked, *self._queue)]
        if waiting:
            self._look_by(min(waiting))

    # ------------------------------------------------------------ what goes, and the end

    def _write(self) -> None:
        if self._unwritten:
            self._transport.write(b"".join(self._unwritten))
            self._unwritten.clear()

    def _close(self) -> None:
        if not self.closing:
            self.closing = True
            self.on_closing()
        while self._queue:
            self._queue.popleft().end("disconnected")

    def _end(self, why: str) -> None:
        self._close()
        if not self._ended:
            self._ended = True
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._asked:
            self._asked.popleft().end(why)
