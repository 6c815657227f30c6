"""Groups: who goes with whom, how a bad row is isolated, what is answered to whom."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.group_commit import BadRowError, GroupCommit, OverloadedError


class Commits:
    """Stands for the database: remembers groups, refuses rows in `bad`, waits at `gate` while it is closed."""

    def __init__(self, bad: frozenset[int] = frozenset(), *, open_gate: bool = True) -> None:
        self.groups: list[list[int]] = []
        self.stored: list[int] = []
        self.bad = bad
        self.gate = asyncio.Event()
        if open_gate:
            self.gate.set()

    async def __call__(self, group: Sequence[int]) -> list[str]:
        self.groups.append(list(group))
        await self.gate.wait()
        if self.bad.intersection(group):
            raise BadRowError("refused")
        self.stored.extend(group)
        return [f"r{item}" for item in group]


async def some_turns() -> None:
    """Enough turns of the loop for everything that can go on to go on; no time passes."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_comes_in_one_turn_goes_in_one_group() -> None:
    commits = Commits()
    group = GroupCommit(commits)
    results = await asyncio.gather(*(group.submit(n) for n in range(40)))
    assert results == [f"r{n}" for n in range(40)]
    assert commits.groups == [list(range(40))]


async def test_what_comes_while_commits_are_on_their_way_goes_in_the_next() -> None:
    """At most three at once; whatever queued meanwhile is the next group, in order, without a wait of its own."""
    commits = Commits(open_gate=False)
    group = GroupCommit(commits, max_in_flight=3)
    tasks = []
    for n in range(3):
        tasks.append(asyncio.create_task(group.submit(n)))
        await some_turns()
    tasks += [asyncio.create_task(group.submit(n)) for n in range(3, 30)]
    await some_turns()
    assert commits.groups == [[0], [1], [2]]
    commits.gate.set()
    assert await asyncio.gather(*tasks) == [f"r{n}" for n in range(30)]
    assert commits.groups[3:] == [list(range(3, 30))]


async def test_groups_are_capped() -> None:
    commits = Commits()
    group = GroupCommit(commits, max_group=10)
    assert len(await group.submit_all(list(range(35)))) == 35
    assert [len(rows) for rows in commits.groups] == [10, 10, 10, 5]


@given(st.integers(1, 60), st.frozensets(st.integers(0, 59)))
def test_a_bad_row_fails_alone(size: int, bad: frozenset[int]) -> None:
    """Whatever rows are bad: those get BadRowError, all others their own result, and each is stored exactly once."""

    async def run() -> None:
        commits = Commits(bad)
        group = GroupCommit(commits)
        results = await group.submit_all(list(range(size)))
        for number, result in enumerate(results):
            if number in bad:
                assert isinstance(result, BadRowError)
            else:
                assert result == f"r{number}"
        assert sorted(commits.stored) == [n for n in range(size) if n not in bad]

    asyncio.run(run())


async def test_any_other_error_is_everybodys_and_the_next_group_goes_on() -> None:
    class Failing(Commits):
        async def __call__(self, group: Sequence[int]) -> list[str]:
            if not self.groups:
                self.groups.append(list(group))
                raise ConnectionError("gone")
            return await super().__call__(group)

    group = GroupCommit(Failing())
    results = await group.submit_all([1, 2])
    assert [type(result) for result in results] == [ConnectionError, ConnectionError]
    assert await group.submit(3) == "r3"


async def test_too_many_waiting_are_refused_as_a_whole() -> None:
    commits = Commits(open_gate=False)
    group = GroupCommit(commits, max_in_flight=1, max_waiting=5)
    first = asyncio.create_task(group.submit(0))
    await some_turns()
    waiting = asyncio.create_task(group.submit_all([1, 2, 3]))
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await group.submit_all([4, 5, 6])
    commits.gate.set()
    assert await first == "r0"
    assert await waiting == ["r1", "r2", "r3"]
    assert commits.stored == [0, 1, 2, 3]


async def test_a_submitter_that_hangs_up_takes_nobody_along() -> None:
    """Its row is committed all the same: what was sent to the database may not be half-forgotten."""
    commits = Commits(open_gate=False)
    group = GroupCommit(commits)
    left, stays = asyncio.create_task(group.submit(1)), asyncio.create_task(group.submit(2))
    await some_turns()
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    commits.gate.set()
    assert await stays == "r2"
    assert commits.stored == [1, 2]


async def test_drain_waits_for_all() -> None:
    commits = Commits()
    group = GroupCommit(commits, max_in_flight=1, max_group=2)
    tasks = [asyncio.create_task(group.submit(n)) for n in range(7)]
    await asyncio.sleep(0)
    await group.drain()
    assert commits.stored == list(range(7))
    await asyncio.gather(*tasks)
