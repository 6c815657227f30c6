"""Changes of consents, told to the registry; and what became of those that were told in batches.

Killed anywhere, a record is found when its lease ends and told again. That is harmless: the registry takes a line only
if it is later than the one it has, so the second telling is refused; and before a refusal of something told before is
believed, the registry is asked what it has. If that is what the line says, it was accepted.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from services.relay.iys.client import IysClient
from services.relay.iys.error import RegistryError
from services.relay.iys.permission import Enqueued, Permission, Refusal, Taken
from services.relay.iys.settings import IysSettings
from services.relay.iys.store import ACCEPTED, PENDING, REJECTED, SUBMITTED, Claimed, Finished, RecordStore
from shared.core.retry import MAX_JITTER, doubling
from shared.core.sealing import Purpose, SealError, UnknownKeyError, open_sealed
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import IYS_RECORDS

BACK_OFF: Final = doubling(first_sec=10.0, cap_sec=3600.0, max_attempts=10)
"""Rests after a failed telling; the longest repeats for ever, because the law wants the registry to know."""
NO_ADDRESS: Final = "ULAK_NO_ADDRESS"
UNSEALABLE: Final = "ULAK_UNSEALABLE"
_KEY_WAIT_SEC: Final = 30.0

_log = get_logger(__name__)
_Opened = tuple[Claimed, Permission]


class Telling:
    """What submission and its follow-up share: opening records, and settling what the registry refuses."""

    def __init__(
        self,
        store: RecordStore,
        client: IysClient,
        rings: RingSource,
        settings: IysSettings,
        *,
        jitter: Callable[[], float],
    ) -> None:
        self.store = store
        self.client = client
        self.settings = settings
        self._rings = rings
        self._jitter = jitter

    def opened(self, claimed: Sequence[Claimed]) -> tuple[list[_Opened], list[Finished]]:
        """Records with their addresses in the clear, and those that cannot be told, or not yet."""
        opened: list[_Opened] = []
        finished: list[Finished] = []
        for record in claimed:
            found = self._open(record)
            if isinstance(found, Finished):
                finished.append(found)
            else:
                opened.append((record, found))
        return opened, finished

    async def settled(self, record: Claimed, permission: Permission, answer: Taken | Refusal) -> Finished:
        """What an answer makes of a record; raises RegistryError where the registry must be asked and cannot be."""
        if isinstance(answer, Taken):
            return Finished(record, ACCEPTED)
        if record.attempts > 1 and await self.client.stands(permission):
            return Finished(record, ACCEPTED)
        return Finished(record, REJECTED, code=answer.code, detail=answer.shown)

    def later(self, record: Claimed, error: RegistryError) -> Finished:
        """As it was, for another time: nothing is wrong with the record."""
        rest_sec = BACK_OFF.delay_sec(max(record.attempts, 1)) * (1 + MAX_JITTER * self._jitter())
        return Finished(
            record,
            record.state,
            request_id=record.request_id,
            sub_request_id=record.sub_request_id,
            detail=str(error)[:256],
            rest_sec=max(rest_sec, error.retry_after_sec or 0.0),
        )

    async def finish(self, finished: Sequence[Finished]) -> None:
        await self.store.finish(finished)
        for each in finished:
            if each.state != each.claimed.state:
                IYS_RECORDS.labels(each.state).inc()
            if each.state == REJECTED:
                _log.warning("iys_rejected", consent_id=str(each.claimed.consent_id), code=each.code)

    def _open(self, record: Claimed) -> Permission | Finished:
        if record.address_sealed is None:
            detail = "no address is known of it: record the consent again with its address"
            return Finished(record, REJECTED, code=NO_ADDRESS, detail=detail)
        try:
            address = open_sealed(self._rings.ring, Purpose.ADDRESS, record.subject, record.address_sealed).decode()
        except UnknownKeyError as error:
            self._rings.refresh()
            return self.later(record, RegistryError(str(error), retry_after_sec=_KEY_WAIT_SEC))
        except SealError as error:
            return Finished(record, REJECTED, code=UNSEALABLE, detail=f"its address does not open: {error}"[:256])
        return Permission(record.channel, address, record.kind, record.word, record.source)


class Submission:
    """PENDING records, told."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    async def round(self) -> bool:
        """One claim; True if it was full. Raises RegistryError, after the records were put back."""
        telling = self._telling
        claimed = await telling.store.claim(PENDING, limit=telling.settings.batch, lease_sec=telling.settings.lease_sec)
        opened, finished = telling.opened(claimed)
        await telling.finish(finished)
        await self._tell(opened)
        return len(claimed) == telling.settings.batch

    async def _tell(self, opened: Sequence[_Opened]) -> None:
        """One by itself, several as a batch; a batch that is refused as a whole in halves, so that one bad line is
        alone in the end.
        """
        if not opened:
            return
        telling = self._telling
        try:
            if len(opened) == 1:
                [(record, permission)] = opened
                answer = await telling.client.add(permission)
                await telling.finish([await telling.settled(record, permission, answer)])
                return
            enqueued = await telling.client.add_all([permission for _, permission in opened])
        except RegistryError as error:
            await telling.finish([telling.later(record, error) for record, _ in opened])
            raise
        if isinstance(enqueued, Enqueued):
            await telling.finish(self._submitted(opened, enqueued))
            return
        middle = len(opened) // 2
        await self._tell(opened[:middle])
        await self._tell(opened[middle:])

    def _submitted(self, opened: Sequence[_Opened], enqueued: Enqueued) -> list[Finished]:
        rest_sec = self._telling.settings.result_sec
        return [
            Finished(record, SUBMITTED, enqueued.request_id, sub_id, rest_sec=rest_sec)
            for (record, _), sub_id in zip(opened, enqueued.sub_request_ids, strict=True)
        ]


class FollowUp:
    """SUBMITTED records, asked about by their requests."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    async def round(self) -> bool:
        """One claim; True if it was full. Raises RegistryError, after the records were put back."""
        telling = self._telling
        claimed = await telling.store.claim(
            SUBMITTED, limit=telling.settings.batch, lease_sec=telling.settings.lease_sec
        )
        opened, finished = telling.opened(claimed)
        await telling.finish(finished)
        requests: defaultdict[str, list[_Opened]] = defaultdict(list)
        for record, permission in opened:
            requests[record.request_id or ""].append((record, permission))
        left = list(requests.items())
        while left:
            request_id, records = left.pop()
            try:
                await telling.finish(await self._results(request_id, records))
            except RegistryError as error:
                waiting = [*records, *(each for _, others in left for each in others)]
                await telling.finish([telling.later(record, error) for record, _ in waiting])
                raise
        return len(claimed) == telling.settings.batch

    async def _results(self, request_id: str, records: Sequence[_Opened]) -> list[Finished]:
        results = await self._telling.client.results(request_id)
        finished: list[Finished] = []
        for record, permission in records:
            if results is None:  # forgotten, or never finished there: told again
                finished.append(Finished(record, PENDING, detail="the registry does not know the request"))
                continue
            answer = results.get(record.sub_request_id or "")
            if answer is None:
                rest_sec = self._telling.settings.result_sec
                finished.append(
                    Finished(record, SUBMITTED, record.request_id, record.sub_request_id, rest_sec=rest_sec)
                )
            else:
                finished.append(await self._telling.settled(record, permission, answer))
        return finished
