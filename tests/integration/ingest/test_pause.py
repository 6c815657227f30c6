"""What callers are told of a delivery that a pause holds."""

import pytest

from shared.core.sealing import KeyRing
from tests.integration.ingest.conftest import Ingest
from tests.integration.ingest.test_cancel import PATH, decided

HOLD = (
    "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key, pause_id)"
    " SELECT d.expires_at, 'delivery', d.notification_id, d.channel, d.target_key, p.id"
    " FROM ulak.deliveries d, ulak.pauses p WHERE d.status = 'PENDING' AND p.kind <> 'lane'"
)
PAUSE = "INSERT INTO ulak.pauses (kind, key, note, paused_by) VALUES ($1, $2, 'wrong price', 'operator ada')"


@pytest.mark.parametrize(("kind", "key"), [("type", "ORDER_SHIPPED"), ("lane", "push-tx")])
async def test_who_has_paused_it_since_when_and_why(ingest: Ingest, key_ring: KeyRing, kind: str, key: str) -> None:
    public, _ = await decided(ingest, key_ring, a="PENDING", c="SENT")
    await ingest.pool.execute(PAUSE, kind, key)
    await ingest.pool.execute(HOLD)

    held, sent = (await ingest.client.get(f"{PATH}/{public}")).json()["deliveries"]
    assert {name: held["pause"][name] for name in ("kind", "name", "by", "reason")} == {
        "kind": kind,
        "name": key,
        "by": "operator ada",
        "reason": "wrong price",
    }
    assert "pause" not in sent
    told = (await ingest.client.get(f"{PATH}/{public}/explain")).json()["steps"][-1]["text"]
    assert f"{kind} {key} is paused since {held['pause']['since'][:10]}" in told
    assert "by operator ada, because: wrong price." in told


async def test_after_the_resume_nothing_is_told_of_it(ingest: Ingest, key_ring: KeyRing) -> None:
    public, _ = await decided(ingest, key_ring, a="PENDING")
    for kind, key in (("type", "ORDER_SHIPPED"), ("lane", "push-tx"), ("lane", "push-bulk")):
        await ingest.pool.execute(PAUSE, kind, key)
    await ingest.pool.execute(HOLD)
    await ingest.pool.execute("UPDATE ulak.pauses SET resumed_at = now() WHERE key <> 'push-bulk'")
    (delivery,) = (await ingest.client.get(f"{PATH}/{public}")).json()["deliveries"]
    assert "pause" not in delivery
