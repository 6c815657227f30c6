"""One class of one source's e-mail: claimed, prepared, sent, recorded (semantics.md, Model A).

No database connection is held during a send. Killed anywhere, a row is found by its lease; between the provider's word
and the record it is sent once more, under the same Message-ID.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from services.relay.email.plan import Record, after_attempt, provider_is_down, put_back, refused
from services.relay.email.preparation import Preparer, Ready
from services.relay.email.settings import ModelASettings
from services.relay.email.store import Claim, EmailStore, SuppressionStore
from services.relay.scan import ScanPlan
from shared.core.identifier import EMAIL, public_id
from shared.core.lifecycle import Reason
from shared.core.outcome import Ambiguous, NotSent, Outcome, ProviderDown, Scope, TargetGone, Throttled
from shared.core.ports import Prepared, Sender
from shared.delivery.attempt import record_while_leased, send_claimed, window
from shared.delivery.plan import DEFAULT_THROTTLE_SEC
from shared.postgres.errors import UNAVAILABLE, describe
from shared.redis_store.pacer import Pacer
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import EMAIL_CLAIMS_LOST, EMAIL_ENDED, OUTCOMES, SEND_LATENCY, UNRECOGNISED
from shared.wire.channel import MessageClass

LANE: Final = "model-a"
"""What stands for a lane in the metrics that count attempts."""
PATIENCE_SEC: Final = 2.0
"""A longer wait for tokens gives the rows back, so that they do not sit out their lease."""
_ROUNDS_PER_TURN: Final = 50
"""Full batches after which the loop gets its turn."""
_FULL_SCAN_SEC: Final = 1.0

_log = get_logger(__name__)


class Dispatcher:
    """`round` sends what is due; several claims are under way while batches are full."""

    def __init__(
        self,
        source: str,
        store: EmailStore,
        message_class: MessageClass,
        settings: ModelASettings,
        *,
        preparer: Preparer,
        sender: Sender,
        pacer: Pacer,
        suppressions: SuppressionStore,
        rings: RingSource,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """stopping: True once the process was told to end; nothing is claimed or begun any more then."""
        self._source = source
        self._store = store
        self._class = message_class
        self._critical = message_class is MessageClass.CRITICAL
        self._settings = settings
        self._backoff = settings.backoff_policy
        self._preparer = preparer
        self._sender = sender
        self._pacer = pacer
        self._suppressions = suppressions
        self._rings = rings
        self._stopping = stopping
        self._clock = clock
        self._jitter = jitter
        self._plan = ScanPlan(_FULL_SCAN_SEC)

    async def round(self) -> bool:
        """Send what is due. True if batches were full to the end: there is more. Raises what the databases raise."""
        if not await self._one_batch():
            return False
        turns = await asyncio.gather(
            *(self._turn() for _ in range(self._settings.in_flight)),
            return_exceptions=True,  # what is on the wire is never left behind by a failure beside it
        )
        for turn in turns:
            if isinstance(turn, BaseException):
                raise turn
        return any(turns)

    async def _turn(self) -> bool:
        for _ in range(_ROUNDS_PER_TURN):
            if not await self._one_batch():
                return False
        return True

    async def _one_batch(self) -> bool:
        """One claim; True if it was full and the provider is not down."""
        if self._stopping():
            return False
        claim = await self._claim()
        if not claim.rows:
            return False
        try:
            prepared = await self._preparer.prepare(claim.rows, self._clock())
        except BaseException:
            await self._record(claim, [put_back(row) for row in claim.rows])
            raise
        await self._record(claim, prepared.records)
        heard = await self._send(claim, deque(prepared.ready))
        return len(claim.rows) == self._settings.batch and not provider_is_down(heard)

    async def _claim(self) -> Claim:
        started = time.monotonic()
        floor = self._plan.floor(started)
        claim = await self._store.claim(
            self._class, floor=floor, limit=self._settings.batch, lease_sec=self._settings.lease_sec
        )
        now = time.monotonic()
        self._plan.claimed(
            floor=floor,
            newest=claim.newest,
            full=len(claim.rows) == self._settings.batch,
            at=now,
            took_sec=now - started,
        )
        return claim

    async def _send(self, claim: Claim, ready: deque[Ready]) -> list[Outcome]:
        """Send mail by mail as there are tokens, one for each recipient; what nobody began on is given back."""
        heard: list[Outcome] = []
        tokens = 0
        until: datetime | None = None
        try:
            while ready and not self._stopping():
                wanted = sum(len(mail.messages) for mail in ready) - tokens
                granted = await self._pacer.take(
                    self._sender.provider, wanted, critical=self._critical, patience_sec=PATIENCE_SEC
                )
                if not granted:
                    until = self._clock() + timedelta(seconds=PATIENCE_SEC)
                    break
                tokens += granted
                going: list[Ready] = []
                while ready and len(ready[0].messages) <= tokens:
                    tokens -= len(ready[0].messages)
                    going.append(ready.popleft())
                heard += await self._hand_over(claim, going)
        finally:
            await self._pacer.refund(self._sender.provider, tokens, critical=self._critical)
            await self._record(claim, [put_back(mail.row, "not begun", until=until) for mail in ready])
        return heard

    async def _hand_over(self, claim: Claim, mails: Sequence[Ready]) -> list[Outcome]:
        """One claim's mails over the wire; recorded as they are answered, of each mail all recipients together."""
        now = self._clock()
        late = [mail for mail in mails if mail.expires_at <= now]  # it may have waited for its tokens
        await self._record(claim, [refused(mail.row, Reason.EXPIRED) for mail in late])
        heard: list[Outcome] = []
        in_time = [mail for mail in mails if mail.expires_at > now]
        try:
            going = await self._preparer.still_wanted(in_time)
        except BaseException:
            await self._record(claim, [put_back(mail.row) for mail in in_time])
            raise
        unused = sum(len(mail.messages) for mail in in_time) - sum(len(mail.messages) for mail in going)
        await self._pacer.refund(self._sender.provider, unused, critical=self._critical)
        await self._finish(claim, [(mail, {}) for mail in going if not mail.messages])
        messages: list[tuple[tuple[Ready, int], Prepared]] = [
            ((mail, position), message) for mail in going for position, message in mail.messages.items()
        ]

        async def finish(keys: Sequence[tuple[Ready, int]], outcomes: Sequence[Outcome], _ends: bool) -> None:
            heard.extend(outcomes)
            answered: dict[UUID, tuple[Ready, dict[int, Outcome]]] = {}
            for (mail, position), outcome in zip(keys, outcomes, strict=True):
                answered.setdefault(mail.row.id, (mail, {}))[1][position] = outcome
            await self._finish(claim, list(answered.values()))

        if messages:
            lease = window(claim.lease_end, self._settings.send_deadline_sec, self._stopping)
            await send_claimed(self._sender, messages, lease, finish=finish, sent=_nobody_waits)
        return heard

    async def _finish(self, claim: Claim, answered: Sequence[tuple[Ready, Mapping[int, Outcome]]]) -> None:
        now = self._clock()
        records = [
            after_attempt(
                mail.row,
                answers,
                recipients=mail.recipients,
                left_out=mail.left_out,
                provider=self._sender.provider,
                expires_at=mail.expires_at,
                backoff=self._backoff,
                now=now,
                jitter=self._jitter(),
            )
            for mail, answers in answered
        ]
        await self._record(claim, records)
        outcomes = [outcome for _, answers in answered for outcome in answers.values()]
        self._report(outcomes)
        await self._pace(outcomes)
        await self._suppress([
            mail.messages[position].key.target_key
            for mail, answers in answered
            for position, outcome in answers.items()
            if isinstance(outcome, TargetGone)
        ])  # fmt: skip

    async def _record(self, claim: Claim, records: Sequence[Record]) -> None:
        if not records:
            return
        written = await record_while_leased(
            lambda: self._store.record(claim.id, records, self._rings.ring), claim.lease_end
        )
        now = self._clock()
        for record in records:
            if record.row.id in written:
                self._tell(record, now)
        if lost := len(records) - len(written):
            EMAIL_CLAIMS_LOST.labels(self._source).inc(lost)
            _log.warning("email_claims_lost", source=self._source, rows=lost, effect="they may be sent once more")

    def _tell(self, record: Record, now: datetime) -> None:
        if record.status == "PENDING":
            return
        EMAIL_ENDED.labels(record.status, record.reason or "").inc()
        if record.status == "SENT":
            SEND_LATENCY.labels(LANE).observe((now - record.row.created_at).total_seconds())
            return
        _log.warning(
            "email_failed",
            source=self._source,
            email_id=public_id(EMAIL, record.row.id),
            error=record.error,
            attempts=record.attempt_count,
        )

    def _report(self, outcomes: Sequence[Outcome]) -> None:
        provider = self._sender.provider
        for name, count in Counter(type(outcome).__name__.lower() for outcome in outcomes).items():
            OUTCOMES.labels(LANE, provider, name).inc(count)
        for outcome in outcomes:
            if isinstance(outcome, Ambiguous) and outcome.unrecognised:
                UNRECOGNISED.labels(provider).inc()
                _log.error("outcome_unrecognised", provider=provider, detail=outcome.detail)
        down = next((outcome for outcome in outcomes if isinstance(outcome, ProviderDown)), None)
        if down is not None:
            _log.error("provider_down", provider=provider, lane=LANE, detail=down.detail)

    async def _pace(self, outcomes: Sequence[Outcome]) -> None:
        account = self._sender.provider
        unused = sum(isinstance(outcome, NotSent) for outcome in outcomes)
        await self._pacer.refund(account, unused, critical=self._critical)
        rest_sec = max(
            (
                DEFAULT_THROTTLE_SEC if outcome.retry_after_sec is None else outcome.retry_after_sec
                for outcome in outcomes
                if isinstance(outcome, Throttled) and outcome.scope is Scope.ACCOUNT
            ),
            default=0.0,
        )
        if rest_sec:
            await self._pacer.drain(account, rest_sec, critical=self._critical)

    async def _suppress(self, keys: Sequence[bytes]) -> None:
        """After the record, which matters more: a dead address that is missed here is met again."""
        try:
            await self._suppressions.add(keys)
        except UNAVAILABLE as error:
            _log.warning("suppression_not_written", addresses=len(keys), error=describe(error))


async def _nobody_waits() -> None:
    """`send_claimed` tells when the wire is free; here the next claim is not held for it."""
