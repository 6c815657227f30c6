"""Which quota holds: the settings', or what an operator has set instead, from the moment it is heard of."""

from collections.abc import Mapping

import pytest

from shared.core.control import Controls, QuotaOverride
from shared.redis_store.pacer import Pacer
from shared.redis_store.quota import LiveQuotas, quota_of
from shared.redis_store.token_bucket import Quota

OWN = Quota("twilio", 500.0, 150.0)


def said(
    per_second: float | None = None, reserve: float | None = None, *, account: str = "twilio", scope: str = ""
) -> QuotaOverride:
    return QuotaOverride(account, scope, per_second, reserve, None, None, None, None)


@pytest.mark.parametrize(
    ("own", "override", "expected"),
    [
        pytest.param(OWN, None, OWN, id="settings"),
        pytest.param(None, None, None, id="nobody-says-anything"),
        pytest.param(OWN, said(100.0), Quota("twilio", 100.0, 30.0), id="the-reserve-keeps-its-part"),
        pytest.param(OWN, said(100.0, 0.0), Quota("twilio", 100.0, 0.0), id="both"),
        pytest.param(OWN, said(reserve=200.0), Quota("twilio", 500.0, 200.0), id="the-reserve-alone"),
        pytest.param(OWN, said(100.0, 150.0), Quota("twilio", 100.0, 30.0), id="a-reserve-that-does-not-fit-any-more"),
        pytest.param(None, said(7.0), Quota("twilio", 7.0, 0.0), id="where-there-was-none"),
        pytest.param(None, said(reserve=7.0), None, id="a-reserve-of-nothing"),
    ],
)
def test_what_holds(own: Quota | None, override: QuotaOverride | None, expected: Quota | None) -> None:
    assert quota_of("twilio", own, override) == expected


def controls(revision: int, *overrides: QuotaOverride) -> Controls:
    return Controls(revision, quotas={(each.account, each.scope): each for each in overrides})


def test_a_change_is_there_with_the_next_look_and_goes_again() -> None:
    now = [controls(1)]
    live: Mapping[str, Quota] = LiveQuotas({"twilio": OWN}, lambda: now[0])
    assert dict(live) == {"twilio": OWN}
    now[0] = controls(2, said(100.0), said(5.0, account="smtp"), said(1.0, scope="class:bulk"))
    assert dict(live) == {"twilio": Quota("twilio", 100.0, 30.0), "smtp": Quota("smtp", 5.0, 0.0)}
    assert live.get("fcm") is None
    now[0] = controls(3)
    assert dict(live) == {"twilio": OWN}


async def test_without_redis_a_worker_s_share_changes_with_it() -> None:
    clock, now = [0.0], [controls(1)]

    async def sleep(seconds: float) -> None:
        clock[0] += seconds

    pacer = Pacer(
        None,
        LiveQuotas({"twilio": Quota("twilio", 100.0)}, lambda: now[0]),
        workers=2,
        retry_sec=1.0,
        clock=lambda: clock[0],
        sleep=sleep,
    )

    async def granted_in_a_second() -> int:
        ends, granted, got = clock[0] + 1.0, 0, 1
        while got:
            got = await pacer.take("twilio", 1_000, critical=False, patience_sec=ends - clock[0])
            granted += got
        clock[0] = ends
        return granted

    assert 45 <= await granted_in_a_second() <= 55
    now[0] = controls(2, said(20.0))
    assert 8 <= await granted_in_a_second() <= 12
