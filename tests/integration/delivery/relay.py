"""A small SMTP relay on a real socket that says what a test wants, where the simulator would not."""

import asyncio
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

    dialogues: the commands of each connection so far; mails: what came after DATA. close_idle ends every connection.
    """

    offers: Sequence[str] = ("SIZE 1000000", "8BITMIME")
    replies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dialogues: list[list[str]] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)
    port: int = 0
    _said: dict[str, int] = field(default_factory=dict)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def commands(self) -> list[str]:
        """All commands in order, whichever the connection."""
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
        dialogue: list[str] = []
        self.dialogues.append(dialogue)
        try:
            writer.write(f"{self.reply('GREETING')}\r\n".encode())
            while line := await reader.readline():
                command = line.decode(errors="replace").strip()
                dialogue.append(command)
                verb = command.split(" ")[0].upper()
                reply = self.reply(verb)
                if reply == HANG_UP:
                    return
                if reply == SILENCE:
                    await reader.read()
                    return
                writer.write(f"{reply}\r\n".encode())
                if verb == "STARTTLS":
                    return  # and never shakes hands
                if verb == "DATA" and reply.startswith("354"):
                    self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
                    end = self.reply("END")
                    if end == HANG_UP:
                        return
                    writer.write(f"{end}\r\n".encode())
        except ConnectionError:
            return
        finally:
            self._open.discard(writer)
            writer.close()

    async def hang_up(self) -> None:
        """End every connection, and wait until each is closed on our side."""
        for writer in tuple(self._open):
            writer.close()
            await writer.wait_closed()


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
