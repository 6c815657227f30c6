"""A request's body as lines, in constant memory, plain or gzipped; the parts without I/O are pure."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from starlette.types import Receive

from shared.web.problem import BODY_TOO_LARGE, BODY_TOO_SLOW, ProblemKind, RefusedError

LONGEST: Final = 64 * 1024
"""Bytes of a line, its end not counted."""
_PIECE: Final = 64 * 1024
_WORST_RATIO: Final = 200
"""Lines of JSON shrink to a tenth or thirtieth; gzip can do 1,000, which only somebody who means harm does."""
_FREE: Final = 1024 * 1024
"""Bytes out before the ratio counts: a short file may be one line over and over."""
_GZIP: Final = zlib.MAX_WBITS | 16

BROKEN_GZIP: Final = ProblemKind("broken_gzip", 400, "The body is not gzip")

Line = bytes | None
"""One line without its end; None: it was longer than `LONGEST`."""


class BrokenOffError(Exception):
    """The caller hung up in the middle of the body."""


@dataclass(frozen=True, slots=True)
class Limits:
    """most_bytes: of the body, unpacked. patience_sec: how long the next whole line may take to arrive."""

    most_bytes: int
    patience_sec: float


class Splitter:
    """Cuts bytes into lines at LF, and takes a CR before it away. Holds one line at most."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._too_long = False

    def feed(self, piece: bytes) -> list[Line]:
        """The lines that end in this piece."""
        *ended, begun = piece.split(b"\n")
        lines: list[Line] = []
        for part in ended:
            self._add(part)
            lines.append(self._line())
        self._add(begun)
        return lines

    def end(self) -> list[Line]:
        """The last line, where the body does not end with one's end."""
        return [self._line()] if self._begun or self._too_long else []

    def _add(self, part: bytes) -> None:
        if len(self._begun) + len(part) > self._longest + 1:  # a CR does not count
            self._too_long = True
            self._begun.clear()
        elif not self._too_long:
            self._begun += part

    def _line(self) -> Line:
        line = bytes(self._begun).removesuffix(b"\r")
        too_long = self._too_long or len(line) > self._longest
        self._begun.clear()
        self._too_long = False
        return None if too_long else line


class Inflater:
    """Unpacks gzip piece by piece, several members one after the other too, as `cat a.gz b.gz` makes them."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._packed = self._unpacked = 0

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Pieces of at most 64 KiB. RefusedError: it is not gzip, or unpacks to far more than data does."""
        self._packed += len(packed)
        held = False  # by zlib, which has taken all bytes in and not yet given all out
        while packed or held:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP)
            try:
                piece = self._member.decompress(packed, _PIECE)
            except zlib.error as error:
                raise RefusedError(BROKEN_GZIP("Send gzip, or leave Content-Encoding out.")) from error
            self._unpacked += len(piece)
            if self._unpacked > _FREE + _WORST_RATIO * self._packed:
                raise RefusedError(
                    BODY_TOO_LARGE(f"The body unpacks to more than {_WORST_RATIO} times its size. Send it plain.")
                )
            yield piece
            packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            held = len(piece) == _PIECE and not self._member.eof

    def end(self) -> None:
        """RefusedError: the body stops in the middle of a member."""
        if self._packed and not self._member.eof:
            raise RefusedError(BROKEN_GZIP("The gzip stream is cut off. Send the rest of the lines."))


async def read_lines(receive: Receive, limits: Limits, *, gzipped: bool) -> AsyncIterator[list[Line]]:
    """Lines as they arrive, those of one piece of the body at a time; what is not asked for is not read.

    Raises RefusedError for a body that is too large, too slow or not what it says, BrokenOffError when the caller is
    gone: what was yielded before stands, and only a body that ends has a last line without an end.
    """
    splitter, inflater = Splitter(), Inflater() if gzipped else None
    size, patience = 0, limits.patience_sec
    clock = asyncio.get_running_loop().time
    while True:
        asked = clock()
        try:
            async with asyncio.timeout(patience):
                message = await receive()
        except TimeoutError as error:
            raise RefusedError(
                BODY_TOO_SLOW(f"No whole line came for {limits.patience_sec:g} s. Send on from there, faster.")
            ) from error
        patience = max(0.0, patience - (clock() - asked))
        if message["type"] == "http.disconnect":
            raise BrokenOffError
        body: bytes = message.get("body", b"")
        for piece in [body] if inflater is None else inflater.feed(body):
            size += len(piece)
            if size > limits.most_bytes:
                raise RefusedError(BODY_TOO_LARGE(f"The body is larger than {limits.most_bytes} bytes. Send the rest."))
            if lines := splitter.feed(piece):
                patience = limits.patience_sec
                yield lines
        if not message.get("more_body", False):
            if inflater is not None:
                inflater.end()
            yield splitter.end()
            return
