"""Requests against a real database: what is decided, stored and published, and that twice is once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from shared.core.identifier import new_id
from shared.core.lifecycle import NotificationState
from shared.core.sealing import KeyRing, Purpose, seal
from shared.kafka.error import PublishError
from shared.postgres.catalogue_write import Push, push_catalogue
from shared.postgres.errors import PartitionMissingError
from shared.postgres.notification_type import NewType
from shared.postgres.template import NewTemplate
from shared.runtime.keyring import FixedRingSource
from tests.integration.router.stage import SALE, SHIPPED, Router, hints_for

pytestmark = pytest.mark.postgres


async def test_a_request_becomes_deliveries_content_log_and_hints(router: Router) -> None:
    id_ = await router.accept()
    assert await router.requests(hints_for(id_)) == []
    assert await router.state(id_) == "DECIDED"
    assert await router.deliveries(id_) == [
        ("EMAIL", "PENDING", None),
        ("PUSH", "PENDING", None),
        ("PUSH", "PENDING", None),
    ]
    assert await router.content(id_, "EMAIL") == {"subject": "98213 yola çıktı", "text": "Kargo: Kargo A"}
    assert await router.content(id_, "PUSH") == {"title": "Siparişiniz yolda", "body": "98213, Kargo A"}
    assert await router.log(id_) == [("PUSH", "go", None), ("EMAIL", "go", None)]
    assert router.hints() == [
        ("email-tx", str(id_), "EMAIL"),
        ("push-tx", str(id_), "PUSH"),
        ("push-tx", str(id_), "PUSH"),
    ]


async def test_hints_of_one_user_share_a_key_and_carry_the_trace(router: Router) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    user_id = await router.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = '7'")
    await router.requests(hints_for(await router.accept(traceparent=trace)))
    assert {record.key for record in router.producer.records} == {str(user_id).encode()}
    assert all(("traceparent", trace.encode()) in record.headers for record in router.producer.records)


async def test_a_channel_switched_off_is_one_skipped_row_and_one_event(router: Router) -> None:
    id_ = await router.accept("8")
    await router.requests(hints_for(id_))
    assert await router.deliveries(id_) == [("EMAIL", "PENDING", None), ("PUSH", "SKIPPED", "preference")]
    assert router.hints() == [("email-tx", str(id_), "EMAIL")]
    assert router.told() == [("ulak.delivery.skipped.v1", "preference")]


async def test_the_same_batch_again_changes_nothing_and_tells_all_that_is_owed(router: Router) -> None:
    batch = hints_for(await router.accept(), await router.accept("8"))
    await router.requests(batch)
    rows = await router.pool.fetch("SELECT * FROM ulak.deliveries ORDER BY 1, 2, 3")
    again = router.fresh()
    await again.requests(batch)
    assert await router.pool.fetch("SELECT * FROM ulak.deliveries ORDER BY 1, 2, 3") == rows
    assert again.hints() == router.hints()
    assert again.told() == router.told()
    # Events repeat to the last byte, so that readers can drop the double.
    assert again.producer.on("delivery-events") == router.producer.on("delivery-events")


async def test_killed_between_commit_and_publish_the_hints_come_with_the_redelivery(router: Router) -> None:
    id_ = await router.accept()
    decided = await router.decider.decide(await router.store.load([id_]), router.now())
    await router.store.save(decided.plans, router.now())
    assert router.producer.records == []
    survivor = router.fresh()
    await survivor.requests(hints_for(id_))
    assert len(survivor.hints()) == 3


async def test_a_publish_that_fails_fails_the_batch_and_the_next_try_completes_it(router: Router) -> None:
    id_ = await router.accept()
    router.producer.fail_next("broker away")
    with pytest.raises(PublishError):
        await router.requests(hints_for(id_))
    await router.requests(hints_for(id_))
    assert len(router.hints()) == 3


async def test_what_is_settled_is_owed_no_hint(router: Router) -> None:
    id_ = await router.accept()
    await router.requests(hints_for(id_))
    await router.pool.execute(
        "UPDATE ulak.deliveries SET status = 'SENT', attempt = 1 WHERE notification_id = $1 AND channel = 'PUSH'", id_
    )
    again = router.fresh()
    await again.requests(hints_for(id_))
    assert again.hints() == [("email-tx", str(id_), "EMAIL")]
    assert again.told() == []


async def test_two_routers_with_the_same_batch_decide_it_once(router: Router) -> None:
    ids = [await router.accept() for _ in range(20)]
    first, second = router.fresh(), router.fresh()
    plans = [await r.decider.decide(await r.store.load(ids), r.now()) for r in (first, second)]
    saved = [await r.store.save(p.plans, r.now()) for r, p in zip((first, second), plans, strict=True)]
    assert len(saved[0].plans) == 20
    assert (saved[1].plans, len(saved[1].lost)) == ((), 20)
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.deliveries") == 60


async def test_whoever_loses_the_race_still_sees_to_the_hints(router: Router) -> None:
    """The winner may have died before it published; a hint too many is dropped by the worker, one too few is lost."""
    id_ = await router.accept()
    slow = router.fresh()
    stale = await slow.store.load([id_])
    await router.requests(hints_for(id_))
    decided = await slow.decider.decide(stale, slow.now())
    saved = await slow.store.save(decided.plans, slow.now())
    assert [owed.key for owed in await slow.store.owed(saved.lost)] != []


class TestDropped:
    async def test_a_hint_without_a_row_is_dropped(self, router: Router) -> None:
        assert await router.requests(hints_for(new_id())) == []
        assert router.producer.records == []

    async def test_a_cancelled_notification_starts_nothing(self, router: Router) -> None:
        id_ = await router.accept(state="CANCELLED")
        await router.requests(hints_for(id_))
        assert await router.deliveries(id_) == []
        assert router.producer.records == []

    async def test_a_cancel_that_comes_while_it_is_decided_wins(self, router: Router) -> None:
        id_ = await router.accept()
        decided = await router.decider.decide(await router.store.load([id_]), router.now())
        await router.pool.execute("UPDATE ulak.notifications SET state = 'CANCELLED' WHERE id = $1", id_)
        saved = await router.store.save(decided.plans, router.now())
        assert saved.lost == (id_,)
        assert await router.deliveries(id_) == []


class TestDeferral:
    async def test_a_scheduled_request_waits_and_goes_when_due(self, router: Router) -> None:
        due = datetime.now(UTC) + timedelta(minutes=10)
        id_ = await router.accept(send_at=due)
        await router.requests(hints_for(id_))
        assert await router.state(id_) == "DEFERRED"
        assert await router.pool.fetchval("SELECT due_at FROM ulak.deferred WHERE notification_id = $1", id_) == due
        assert (await router.deliveries(id_), router.producer.records) == ([], [])
        assert await router.log(id_) == [("PUSH", "defer", "scheduled"), ("EMAIL", "defer", "scheduled")]

        router.moment = due
        await router.requests(hints_for(id_))
        assert await router.state(id_) == "DECIDED"
        assert len(router.hints()) == 3
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.deferred") == 0

    async def test_a_hint_before_its_time_changes_nothing(self, router: Router) -> None:
        id_ = await router.accept(send_at=datetime.now(UTC) + timedelta(minutes=10))
        await router.requests(hints_for(id_))
        before = await router.log(id_)
        await router.requests(hints_for(id_))
        assert await router.log(id_) == before
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.deferred") == 1

    async def test_a_due_row_that_was_lost_is_made_again(self, router: Router) -> None:
        id_ = await router.accept(state="DEFERRED", send_at=datetime.now(UTC) + timedelta(minutes=10))
        await router.requests(hints_for(id_))
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.deferred WHERE notification_id = $1", id_) == 1

    async def test_when_due_everything_is_decided_again_with_fresh_facts(self, router: Router) -> None:
        due = datetime.now(UTC) + timedelta(minutes=10)
        id_ = await router.accept(send_at=due)
        await router.requests(hints_for(id_))
        await router.pool.execute(
            "INSERT INTO ulak.user_preferences SELECT user_id, 'TRANSACTIONAL', 'PUSH', '', false "
            "FROM ulak.recipients WHERE external_id = '7'"
        )
        router.moment = due
        router.preferences.forget()  # ten minutes have passed
        await router.requests(hints_for(id_))
        assert await router.deliveries(id_) == [("EMAIL", "PENDING", None), ("PUSH", "SKIPPED", "preference")]


class TestOneBadRow:
    """Whatever is wrong with one notification, the others of its batch go out, and a person can see what it was."""

    async def test_missing_parameters_fail_the_channels_that_need_them(self, router: Router) -> None:
        bad, good = await router.accept(params={"orderNo": "1"}), await router.accept()
        rejections = await router.requests(hints_for(bad, good))
        assert [(r.index, r.reason) for r in rejections] == [(0, "render")]
        assert "carrier" in rejections[0].detail
        assert {row[1:] for row in await router.deliveries(bad)} == {("FAILED", "render")}
        assert len(router.hints()) == 3
        letters = await router.pool.fetch("SELECT topic, notification_id, channel, error_class FROM ulak.dead_letters")
        assert {tuple(row) for row in letters} == {
            ("router-dlq", bad, "PUSH", "render"),
            ("router-dlq", bad, "EMAIL", "render"),
        }

    async def test_a_redelivery_tells_the_dead_letter_again(self, router: Router) -> None:
        bad = await router.accept(params={})
        await router.requests(hints_for(bad))
        again = await router.fresh().requests(hints_for(bad))
        assert [(r.index, r.reason) for r in again] == [(0, "render")]
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.dead_letters") == 2

    async def test_a_channel_without_template_is_skipped_the_other_goes(self, router: Router) -> None:
        id_ = await router.accept(channels=["SMS", "EMAIL"])
        rejections = await router.requests(hints_for(id_))
        assert await router.deliveries(id_) == [("EMAIL", "PENDING", None), ("SMS", "SKIPPED", "no_template")]
        assert [r.reason for r in rejections] == ["no_template"]

    async def test_params_that_were_tampered_with(self, router: Router) -> None:
        bad = await router.accept(params_sealed=b"\x01\x02k1" + bytes(40))
        good = await router.accept()
        rejections = await router.requests(hints_for(bad, good))
        assert {row[1:] for row in await router.deliveries(bad)} == {("FAILED", "unsealable")}
        assert [r.reason for r in rejections] == ["unsealable"]
        assert len(router.hints()) == 3

    async def test_a_lost_key_is_final(self, router: Router) -> None:
        lost = KeyRing("old", {"old": bytes(32)}, router.ring.lookup_key)
        id_ = new_id()
        sealed = seal(lost, Purpose.PARAMS, id_.bytes, b"{}")
        router = replace(router, ring=replace(router.ring, lost=frozenset({"old"})))
        bad = await router.accept(id=id_, params_sealed=sealed)
        assert [r.reason for r in await router.requests(hints_for(bad))] == ["unsealable"]

    async def test_an_unknown_key_waits_and_the_others_do_not(self, router: Router) -> None:
        """A rotation in progress: nothing is wrong with the row, so it stays ACCEPTED and the sweep brings it again."""
        new_ring = replace(router.ring, keys={**router.ring.keys, "k2": bytes(32)}, active="k2")
        id_ = new_id()
        early = await router.accept(
            id=id_, params_sealed=seal(new_ring, Purpose.PARAMS, id_.bytes, b'{"orderNo":1,"carrier":"x"}')
        )
        good = await router.accept()
        assert await router.requests(hints_for(early, good)) == []
        assert (await router.state(early), await router.state(good)) == ("ACCEPTED", "DECIDED")

        later = replace(router, ring=new_ring)
        await later.requests(hints_for(early))
        assert await router.state(early) == "DECIDED"

    async def test_a_ring_that_has_the_key_by_now_is_read_again(self, router: Router) -> None:
        new_ring = replace(router.ring, keys={**router.ring.keys, "k2": bytes(32)}, active="k2")

        class Rotating(FixedRingSource):
            def refresh(self) -> bool:
                self._ring = new_ring
                return True

        router = replace(router, ring_source=Rotating(router.ring))
        id_ = new_id()
        await router.accept(
            id=id_, params_sealed=seal(new_ring, Purpose.PARAMS, id_.bytes, b'{"orderNo":1,"carrier":"x"}')
        )
        await router.requests(hints_for(id_))
        assert await router.state(id_) == "DECIDED"

    async def test_a_row_that_the_database_refuses(self, router: Router) -> None:
        """Deliveries that are there already although nobody decided: somebody's hand in the tables."""
        bad, good = await router.accept(), await router.accept()
        await router.pool.execute(
            "INSERT INTO ulak.contents (notification_id, channel, purpose, locale, template_version) "
            "VALUES ($1, 'EMAIL', 'content-v1', 'tr', 1)",
            bad,
        )
        rejections = await router.requests(hints_for(bad, good))
        assert [(r.index, r.reason) for r in rejections] == [(0, "unstorable")]
        assert (await router.state(bad), await router.state(good)) == ("ACCEPTED", "DECIDED")

    async def test_a_missing_partition_fails_the_batch_after_the_others_are_saved(self, router: Router) -> None:
        """The row is right: it is tried again until there is a partition for it."""
        bad, good = await router.accept(), await router.accept()
        await router.pool.execute(
            f"ALTER TABLE ulak.contents ADD CHECK (notification_id <> '{bad}')"
        )  # as a missing partition
        with pytest.raises(PartitionMissingError):
            await router.requests(hints_for(bad, good))
        assert (await router.state(bad), await router.state(good)) == ("ACCEPTED", "DECIDED")

    async def test_a_type_that_was_taken_away(self, router: Router) -> None:
        bad, good = await router.accept(type="GONE", channels=["EMAIL"]), await router.accept()
        assert [r.reason for r in await router.requests(hints_for(bad, good))] == ["unknown_type"]
        assert await router.deliveries(bad) == [("EMAIL", "SKIPPED", "unknown_type")]
        assert await router.state(good) == "DECIDED"

    async def test_a_type_pushed_a_moment_ago_is_found(self, router: Router) -> None:
        await router.requests(hints_for(await router.accept()))  # the catalogue is in memory now
        new = NewType(replace(SHIPPED, name="ORDER_DELIVERED", default_channels=("EMAIL",)))
        template = NewTemplate("ORDER_DELIVERED", "EMAIL", "tr", {"subject": "a", "text": "b"}, frozenset())
        async with router.pool.acquire() as connection, connection.transaction():
            await push_catalogue(connection, Push(types=(new,), templates=(template,)))
        router.catalogue._read_at -= 2  # a second and more has passed
        id_ = await router.accept(type="ORDER_DELIVERED")
        await router.requests(hints_for(id_))
        assert await router.deliveries(id_) == [("EMAIL", "PENDING", None)]


async def test_the_template_of_the_recipients_language_or_else_the_default_J3(router: Router) -> None:
    english = NewTemplate("ORDER_SHIPPED", "EMAIL", "en", {"subject": "On its way", "text": "x"}, frozenset())
    async with router.pool.acquire() as connection, connection.transaction():
        await push_catalogue(connection, Push(templates=(english,)))
    in_english, in_french = await router.accept(locale="en-GB"), await router.accept(locale="fr")
    await router.requests(hints_for(in_english, in_french))
    assert (await router.content(in_english, "EMAIL"))["subject"] == "On its way"
    assert (await router.content(in_french, "EMAIL"))["subject"] == "98213 yola çıktı"


async def test_an_expired_request_is_skipped_on_every_channel(router: Router) -> None:
    id_ = await router.accept(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    await router.requests(hints_for(id_))
    assert await router.deliveries(id_) == [("EMAIL", "SKIPPED", "expired"), ("PUSH", "SKIPPED", "expired")]
    assert router.told() == [("ulak.delivery.skipped.v1", "expired")] * 2


async def test_marketing_goes_to_nobody_without_consent(router: Router) -> None:
    id_ = await router.accept(type=SALE.name, message_class=2)
    await router.requests(hints_for(id_))
    assert await router.deliveries(id_) == [("EMAIL", "SKIPPED", "no_consent")]


async def test_a_suppressed_device_is_left_out_and_the_other_gets_it(router: Router) -> None:
    await router.pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason) "
        "SELECT 'PUSH', token_key, 'test' FROM ulak.devices WHERE platform = 'ANDROID'"
    )
    id_ = await router.accept(channels=["PUSH"])
    await router.requests(hints_for(id_))
    assert sorted(row[1:] for row in await router.deliveries(id_)) == [("PENDING", None), ("SKIPPED", "suppressed")]


async def test_a_user_without_devices_gets_the_transactional_push_by_mail(router: Router) -> None:
    await router.pool.execute("UPDATE ulak.devices SET active = false")
    id_ = await router.accept(channels=["PUSH"])
    await router.requests(hints_for(id_))
    assert await router.deliveries(id_) == [("EMAIL", "PENDING", None), ("PUSH", "SKIPPED", "no_target")]
    assert await router.log(id_) == [("PUSH", "redirect", "no_target"), ("EMAIL", "go", None)]


async def test_a_team_key_reaches_its_allow_list_only(router: Router) -> None:
    key_id = uuid4()
    await router.pool.execute(
        "INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes, allow_list) "
        "SELECT $1, a.id, 'staging', $2, 'team', '{notifications}', ARRAY[r.email_key] "
        "FROM ulak.applications a, ulak.recipients r WHERE a.name = 'shop' AND r.external_id = '7'",
        key_id,
        key_id.bytes,
    )
    id_ = await router.accept(mode="team", api_key_id=key_id)
    await router.requests(hints_for(id_))
    assert await router.deliveries(id_) == [("EMAIL", "PENDING", None), ("PUSH", "SKIPPED", "not_on_allow_list")]


async def test_priority_decides_the_lane(router: Router) -> None:
    id_ = await router.accept(message_class=2)
    await router.requests(hints_for(id_))
    assert {topic for topic, _, _ in router.hints()} == {"email-bulk", "push-bulk"}


async def test_bulk_logs_only_what_differs(router: Router) -> None:
    id_ = await router.accept("8", message_class=2)
    await router.requests(hints_for(id_))
    assert await router.log(id_) == [("PUSH", "skip", "preference")]


async def test_a_message_that_stands_twice_in_a_batch_counts_once(router: Router) -> None:
    ids = [await router.accept() for _ in range(100)]
    await router.requests(hints_for(*ids, *ids))
    assert len(router.hints()) == 300
    assert (
        await router.pool.fetchval(
            "SELECT count(*) FROM ulak.notifications WHERE state = $1", NotificationState.DECIDED
        )
        == 100
    )
