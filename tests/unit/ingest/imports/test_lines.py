"""Lines out of bytes: wherever they are cut, packed or not."""

import gzip
import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from services.ingest.admin.imports.lines import (
    LONGEST,
    BrokenOffError,
    Inflater,
    Limits,
    Line,
    Splitter,
    read_lines,
)
from shared.web.problem import RefusedError

BODIES = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"bb", b"x" * 9]), max_size=30).map(b"".join)


def expected(body: bytes, longest: int) -> list[Line]:
    *ended, rest = body.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in [*ended, *([rest] if rest else [])]]
    return [line if len(line) <= longest else None for line in lines]


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(bounds)]


@given(BODIES, st.lists(st.integers(0, 1000), max_size=6))
def test_lines_are_the_same_wherever_the_pieces_are_cut(body: bytes, cuts: list[int]) -> None:
    splitter = Splitter(longest=8)
    lines = [line for piece in pieces(body, cuts) for line in splitter.feed(piece)]
    assert lines + splitter.end() == expected(body, 8)


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + 2, 10 * LONGEST])
def test_a_line_that_is_too_long_is_one_line_and_is_not_held(length: int) -> None:
    splitter = Splitter()
    body = b"x" * length + b"\r\nnext\n"
    lines = [line for start in range(0, len(body), 1000) for line in splitter.feed(body[start : start + 1000])]
    assert lines == [b"x" * length if length <= LONGEST else None, b"next"]


@given(st.lists(st.binary(max_size=200), max_size=4), st.lists(st.integers(0, 1000), max_size=6))
def test_members_of_gzip_one_after_the_other(members: list[bytes], cuts: list[int]) -> None:
    packed = b"".join(map(gzip.compress, members))
    inflater = Inflater()
    unpacked = b"".join(part for piece in pieces(packed, cuts) for part in inflater.feed(piece))
    inflater.end()
    assert unpacked == b"".join(members)


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1, 2**17, 2**20])
@pytest.mark.parametrize("step", [1, 100, 2**20])
def test_what_zlib_holds_back_comes_too(size: int, step: int) -> None:
    packed, inflater = gzip.compress(b"x" * size), Inflater()
    found = [len(part) for start in range(0, len(packed), step) for part in inflater.feed(packed[start : start + step])]
    inflater.end()
    assert sum(found) == size


def test_a_bomb_is_given_up_soon() -> None:
    packed = gzip.compress(b"\n" * 2**28)
    taken: list[int] = []
    with pytest.raises(RefusedError) as refused:
        taken.extend(len(part) for part in Inflater().feed(packed))
    assert refused.value.problem.code == "body_too_large"
    assert sum(taken) < 200 * len(packed) + 2**21
    assert max(taken) <= 2**16


def test_random_data_is_not_gzip() -> None:
    with pytest.raises(RefusedError) as refused:
        list(Inflater().feed(os.urandom(100)))
    assert refused.value.problem.code == "broken_gzip"


class Body:
    """What uvicorn's `receive` does; None in it is a caller who hangs up."""

    def __init__(self, *parts: bytes | None) -> None:
        self._parts = list(parts)

    async def __call__(self) -> Message:
        part = self._parts.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(self._parts)}


async def read(body: Body, most_bytes: int = 1000) -> tuple[list[Line], str | None]:
    """The lines, and what they ended with where it was not the body's end."""
    lines: list[Line] = []
    try:
        async for arrived in read_lines(body, Limits(most_bytes, 5.0), gzipped=False):
            lines += arrived
    except RefusedError as error:
        return lines, error.problem.code
    except BrokenOffError:
        return lines, "broken_off"
    return lines, None


async def test_half_a_line_is_one_only_where_the_body_ends() -> None:
    assert await read(Body(b"a\nb\nc")) == ([b"a", b"b", b"c"], None)
    assert await read(Body(b"a\nb\nc", None)) == ([b"a", b"b"], "broken_off")
    assert await read(Body(b"a\n", b"b\n" * 10), most_bytes=8) == ([b"a"], "body_too_large")
    assert await read(Body(b"")) == ([], None)
