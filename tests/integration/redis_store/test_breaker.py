"""The shared breaker on a real server: the same as the pure one, for several workers, with and without Redis."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from shared.core.breaker import Breaker, Mark, Phase, Policy, Run, Switch, allow, observe, retry
from shared.redis_store.breaker import Breakers, BreakerScript, Guarded
from shared.wire.channel import MessageClass

pytestmark = pytest.mark.redis

SMS = Guarded("twilio", MessageClass.TX)
POLICY = Policy()
NOW = 1_764_572_400_000


@dataclass(frozen=True)
class Seen:
    later_ms: int
    runs: Sequence[Run]
    detail: str


@dataclass(frozen=True)
class Asked:
    later_ms: int
    wanted: int
    urgent: bool


POLICIES = st.builds(
    Policy,
    failures_in_row=st.integers(1, 12),
    window_ms=st.sampled_from([10, 1_000, 10_000]),
    min_calls=st.integers(1, 20),
    rate_percent=st.integers(1, 100),
    open_ms=st.integers(0, 3_000),
    probes=st.integers(1, 6),
    probe_every_ms=st.integers(0, 1_500),
)
RUNS = st.lists(st.builds(Run, st.sampled_from(Mark), st.integers(1, 9)), max_size=4)
LATER_MS = st.integers(-200, 4_000)


@dataclass(frozen=True)
class Retried:
    later_ms: int


STEPS = st.lists(
    st.one_of(
        st.builds(Seen, LATER_MS, RUNS, st.sampled_from(["", "503", "süresi doldu"])),
        st.builds(Asked, LATER_MS, st.integers(1, 20), st.booleans()),
        st.builds(Retried, LATER_MS),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(policy=POLICIES, steps=STEPS)
def test_both_do_the_same(redis_url: str, policy: Policy, steps: Sequence[Seen | Asked | Retried]) -> None:
    async def compare() -> None:
        redis = Redis.from_url(redis_url)
        script = BreakerScript(redis, f"test-{secrets.token_hex(6)}:", policy)
        pure, now = Breaker(), NOW
        for step in steps:
            now += step.later_ms
            if isinstance(step, Asked):
                allowed = allow(policy, pure, now, wanted=step.wanted, urgent=step.urgent)
                assert await script.allow(SMS, wanted=step.wanted, urgent=step.urgent, now=now) == allowed
                pure = allowed[0]
            elif isinstance(step, Retried):
                pure = retry(pure, now)
                assert await script.retry(SMS, now=now) == pure
            else:
                seen = observe(policy, pure, now, since=pure.since, seen=step.runs, detail=step.detail)
                told = await script.observe(SMS, since=pure.since, seen=step.runs, detail=step.detail, now=now)
                assert told == seen
                pure = seen[0]
        await redis.aclose()

    asyncio.run(compare())


class Heard:
    """Keeps the switches that a worker tells of."""

    def __init__(self) -> None:
        self.switches: list[tuple[Guarded, Switch]] = []

    async def __call__(self, account: str, message_class: MessageClass, switch: Switch) -> None:
        self.switches.append((Guarded(account, message_class), switch))


class Clock:
    def __init__(self) -> None:
        self.at = NOW / 1000

    def __call__(self) -> float:
        return self.at


def worker(redis: Redis | None, key_prefix: str, clock: Clock | None = None) -> tuple[Breakers, Heard]:
    heard = Heard()
    script = None if redis is None else BreakerScript(redis, key_prefix, POLICY)
    made = Breakers(script, POLICY, told=heard, retry_sec=1.0, clock=clock or Clock())
    return made, heard


async def fail(breakers: Breakers, times: int, mark: Mark = Mark.FAILED) -> None:
    since = breakers.known(SMS).since
    await breakers.report(SMS, since=since, seen=[Run(mark, times)], detail="503")


async def test_two_workers_share_one_breaker_and_tell_of_it_once(redis_client: Redis, key_prefix: str) -> None:
    (one, one_heard), (two, two_heard) = worker(redis_client, key_prefix), worker(redis_client, key_prefix)
    await fail(one, 6)
    await fail(two, 4)
    await one.refresh()
    assert one.known(SMS).phase is two.known(SMS).phase is Phase.OPEN
    assert one_heard.switches == []
    assert [switch.reason for _, switch in two_heard.switches] == ["10 failures in a row, the last: 503"]


async def test_success_of_one_breaks_the_row_of_the_other(redis_client: Redis, key_prefix: str) -> None:
    (one, _), (two, _) = worker(redis_client, key_prefix), worker(redis_client, key_prefix)
    await fail(one, 9)
    two.known(SMS)
    await two.refresh()
    await two.report(SMS, since=0, seen=[Run(Mark.OK, 1)], detail="")
    assert two.known(SMS).failures == 9  # not told yet: what works costs no call
    await two.refresh()
    await fail(one, 9)
    assert one.known(SMS).phase is Phase.CLOSED


async def test_each_account_and_class_has_its_own(redis_client: Redis, key_prefix: str) -> None:
    made, _ = worker(redis_client, key_prefix)
    await fail(made, 10)
    for other in (Guarded("twilio", MessageClass.BULK), Guarded("vonage", MessageClass.TX)):
        made.known(other)
    await made.refresh()
    assert made.known(Guarded("twilio", MessageClass.BULK)).phase is Phase.CLOSED
    assert made.known(Guarded("vonage", MessageClass.TX)).phase is Phase.CLOSED


async def test_probes_are_limited_over_all_workers(redis_client: Redis, key_prefix: str) -> None:
    script = BreakerScript(redis_client, key_prefix, POLICY)
    await script.observe(SMS, since=0, seen=[Run(Mark.FAILED, 10)], detail="503", now=NOW)
    granted = [
        (await script.allow(SMS, wanted=100, urgent=False, now=NOW + at))[1]
        for at in (299_000, 300_000, 300_500, 301_000, 301_001)
    ]
    assert granted == [0, 5, 0, 5, 0]


async def test_forgotten_script_is_loaded_again_R3(redis_client: Redis, key_prefix: str) -> None:
    made, _ = worker(redis_client, key_prefix)
    await fail(made, 5)
    await redis_client.script_flush()
    await fail(made, 5)
    assert made.known(SMS).phase is Phase.OPEN


async def test_without_redis_each_worker_goes_by_itself() -> None:
    clock = Clock()
    made, heard = worker(None, "", clock)
    await fail(made, 10)
    assert made.known(SMS).phase is Phase.OPEN
    clock.at += 300
    assert await made.allow(SMS, 100, urgent=False) == 5
    await fail(made, 5, Mark.OK)
    assert made.known(SMS).phase is Phase.CLOSED
    assert [switch.after for _, switch in heard.switches] == [Phase.OPEN, Phase.HALF_OPEN, Phase.CLOSED]


async def test_redis_that_goes_away_leaves_what_was_known(own_redis_url: str, key_prefix: str) -> None:
    redis = Redis.from_url(own_redis_url)
    clock = Clock()
    made, heard = worker(redis, key_prefix, clock)
    await fail(made, 10)
    with SyncRedis.from_url(own_redis_url) as server:
        server.shutdown(nosave=True)
    await made.refresh()
    assert made.known(SMS).phase is Phase.OPEN
    assert await made.allow(SMS, 1, urgent=False) == 0
    clock.at = made.known(SMS).until / 1000
    assert await made.allow(SMS, 1, urgent=False) == 1
    await fail(made, 5, Mark.OK)
    assert [switch.after for _, switch in heard.switches] == [Phase.OPEN, Phase.HALF_OPEN, Phase.CLOSED]
    await redis.aclose()
