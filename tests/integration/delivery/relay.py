"""A small SMTP relay on a real socket that says what a test wants, where the simulator would not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

USUAL: Mapping[str, str] = {
    "GREETING": "220 relay.example ESMTP",
    "HELO": "250 relay.example",
    "STARTTLS": "220 go ahead",
    "DATA": "354 go ahead",
    "RSET": "250 2.0.0 ok",
    "QUIT": "221 2.0.0 bye",
}
HANG_UP = ""
"""Instead of a reply: the connection ends."""
SILENCE = " "
"""Instead of a reply: nothing, until the client goes."""


@dataclass
class Relay:
    """replies by verb override the usual ones; several for one verb are used in turn, the last one for good.

    held: the reply to a verb waits for its event; END is the verb of the final dot.
    dialogues: the commands of each connection as they came; ahead: those that came before an earlier one was answered;
    mails: what came after DATA, dots and all.
    """

    offers: Sequence[str] = ("SIZE 1000000", "8BITMIME")
    replies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    held: Mapping[str, asyncio.Event] = field(default_factory=dict)
    dialogues: list[list[str]] = field(default_factory=list)
    ahead: list[str] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)
    port: int = 0
    _said: dict[str, int] = field(default_factory=dict)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def commands(self) -> list[str]:
        """All commands, connection by connection."""
        return [command for dialogue in self.dialogues for command in dialogue]

    def reply(self, verb: str) -> str:
        if verb in self.replies:
            turn = self._said.get(verb, 0)
            self._said[verb] = turn + 1
            return self.replies[verb][min(turn, len(self.replies[verb]) - 1)]
        if verb == "EHLO":
            lines = ["relay.example", *self.offers]
            return "\r\n".join(f"250{'-' if line is not lines[-1] else ' '}{line}" for line in lines)
        return USUAL.get(verb, "250 2.1.0 ok")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        connection = _Connection(self, reader)
        reading = asyncio.create_task(connection.read())
        try:
            writer.write(f"{self.reply('GREETING')}\r\n".encode())
            while (verb := await connection.arrived.get()) is not None:
                if verb in self.held:
                    await self.held[verb].wait()
                reply = self.reply(verb)
                if reply == HANG_UP:
                    return
                if reply == SILENCE:
                    await reading
                    return
                writer.write(f"{reply}\r\n".encode())
                if verb == "STARTTLS":
                    return  # and never shakes hands
                connection.answered(verb, reply)
        finally:
            reading.cancel()
            self._open.discard(writer)
            writer.close()

    async def hang_up(self) -> None:
        """End every connection, and wait until each is closed on our side."""
        for writer in tuple(self._open):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


class _Connection:
    """What comes over one connection, read as it comes, however late it is answered."""

    def __init__(self, relay: Relay, reader: asyncio.StreamReader) -> None:
        self.arrived: asyncio.Queue[str | None] = asyncio.Queue()
        """Verbs in order; None: the client has gone."""
        self._relay = relay
        self._reader = reader
        self._dialogue: list[str] = []
        self._unanswered = 0
        self._data_answered = asyncio.Event()
        self._content_follows = False
        relay.dialogues.append(self._dialogue)

    def answered(self, verb: str, reply: str) -> None:
        self._unanswered -= 1
        if verb == "DATA":
            self._content_follows = reply.startswith("354")
            self._data_answered.set()

    async def read(self) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await self._reader.readline():
                command = line.decode(errors="replace").strip()
                self._dialogue.append(command)
                if self._unanswered:
                    self._relay.ahead.append(command)
                verb = command.split(" ")[0].upper()
                self._has(verb)
                if verb == "DATA":
                    await self._data_answered.wait()
                    self._data_answered.clear()
                    if self._content_follows:
                        self._relay.mails.append(await self._content())
                        self._has("END")
        self.arrived.put_nowait(None)

    def _has(self, verb: str) -> None:
        self._unanswered += 1
        self.arrived.put_nowait(verb)

    async def _content(self) -> bytes:
        lines = [await self._reader.readuntil(b"\r\n")]
        while lines[-1] != b".\r\n":
            lines.append(await self._reader.readuntil(b"\r\n"))
        return b"".join(lines)


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[Relay]:
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.hang_up()
        await server.wait_closed()
