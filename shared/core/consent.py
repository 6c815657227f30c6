"""Consents to marketing: what a ledger line says, whom it belongs to, which of several stands. Pure.

Codes are those of İYS, the Turkish registry of commercial messages (https://dev.iys.org.tr, "İzin Yönetimi"): a consent
that is told to the registry needs one, and one that is not is described as well by them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from shared.core.sealing import KeyRing, keyed_hash

FUTURE: Final = timedelta(minutes=1)
"""How far ahead of ours a teller's clock may be: a word of tomorrow would outweigh every word of today."""


class Purpose(StrEnum):
    """What was consented to."""

    MARKETING = "MARKETING"
    TRACKING = "TRACKING"


class RecipientKind(StrEnum):
    """A consumer or a business (İYS `recipientType`)."""

    BIREYSEL = "BIREYSEL"
    TACIR = "TACIR"


class Source(StrEnum):
    """How the word reached us. HS_* are the registry's codes for "by the service provider" (İYS `source`).

    HS_KARAR is the provider's own decision and therefore a refusal only; HS_2015 is a consent from before 1 May 2015,
    when the law came into force. The others are Ulak's own: IYS is what the registry told us.
    """

    HS_FIZIKSEL_ORTAM = "HS_FIZIKSEL_ORTAM"
    HS_ISLAK_IMZA = "HS_ISLAK_IMZA"
    HS_WEB = "HS_WEB"
    HS_CAGRI_MERKEZI = "HS_CAGRI_MERKEZI"
    HS_SOSYAL_MEDYA = "HS_SOSYAL_MEDYA"
    HS_EPOSTA = "HS_EPOSTA"
    HS_MESAJ = "HS_MESAJ"
    HS_MOBIL = "HS_MOBIL"
    HS_EORTAM = "HS_EORTAM"
    HS_ETKINLIK = "HS_ETKINLIK"
    HS_2015 = "HS_2015"
    HS_ATM = "HS_ATM"
    HS_KARAR = "HS_KARAR"
    ONE_CLICK = "ONE_CLICK"
    COMPLAINT = "COMPLAINT"
    STOP = "STOP"
    IYS = "IYS"


TOLD: Final = frozenset(source for source in Source if source.startswith("HS_"))
"""What a caller may give; the other sources are Ulak's own observations."""
REFUSALS_ONLY: Final = frozenset({Source.HS_KARAR, Source.ONE_CLICK, Source.COMPLAINT, Source.STOP})
"""Ways by which nobody can consent."""


@dataclass(frozen=True, slots=True)
class Word:
    """What somebody said, and when they said it (aware)."""

    granted: bool
    at: datetime


def outweighs(new: Word, old: Word) -> bool:
    """Whether `new` stands in the place of `old`: the latest event wins, and a refusal wins a tie."""
    return (new.at, not new.granted) > (old.at, not old.granted)


def standing(words: Iterable[Word]) -> Word | None:
    """The word that stands, whatever the order in which they came and however often; None if nothing was said."""
    found: Word | None = None
    for word in words:
        if found is None or outweighs(word, found):
            found = word
    return found


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger, to be appended.

    subject: the address's `target_key` on EMAIL and SMS, `user_subject` on PUSH and INBOX. address: what it was given
    for, where that is an address. reference: the teller's own id of it, unique within the source: the same again is no
    second line. evidence: proof in the teller's words (a form, a recording's number, an IP address). Neither address
    nor evidence is in the repr.
    """

    id: UUID
    subject: bytes
    channel: str
    granted: bool
    at: datetime
    source: Source
    purpose: Purpose = Purpose.MARKETING
    user_id: int | None = None
    address: str | None = field(default=None, repr=False)
    recipient_kind: RecipientKind = RecipientKind.BIREYSEL
    wording_version: str | None = None
    evidence: str | None = field(default=None, repr=False)
    reference: str | None = None
    recorded_by: str = ""

    @property
    def word(self) -> Word:
        return Word(self.granted, self.at)


class InvalidConsentError(ValueError):
    """A line that cannot be true. path is the field, the message says what to send instead."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path = path
        self.detail = detail


def check_word(word: Word, source: Source, now: datetime) -> None:
    """InvalidConsentError for a word of the future, or a consent by a way that only refusals come by."""
    if word.at > now + FUTURE:
        raise InvalidConsentError("at", "lies in the future: send when the person said so")
    if word.granted and source in REFUSALS_ONLY:
        raise InvalidConsentError("source", f"{source} cannot be a consent: send the way by which it was given")


def user_subject(ring: KeyRing, user_id: int) -> bytes:
    """Whom a consent to PUSH or INBOX belongs to: a keyed hash of the recipient's own `user_id`, 32 bytes.

    On EMAIL and SMS a consent belongs to the address it was given for: its `target_key`.
    """
    return keyed_hash(ring, "consent:user", str(user_id))


# ---------------------------------------------------------------- as the registry has it

IYS_TYPES: Final = {"SMS": "MESAJ", "EMAIL": "EPOSTA"}
"""The registry's `type` by channel. Its third, ARAMA, is voice, which Ulak has not; push and inbox have none there."""
IYS_CHANNELS: Final = {name: channel for channel, name in IYS_TYPES.items()}
IYS_ZONE: Final = timedelta(hours=3)
"""'İzinlerin saat dilimi GMT+3 kabul edilir' (İzin Doğrulama Kuralları)."""
_OLDEST: Final = datetime(2015, 5, 1, tzinfo=UTC) - IYS_ZONE
_IYS_SOURCES: Final = {
    Source.ONE_CLICK: Source.HS_EPOSTA,
    Source.COMPLAINT: Source.HS_KARAR,
    Source.STOP: Source.HS_MESAJ,
}


def iys_status(granted: bool) -> str:
    return "ONAY" if granted else "RET"


def iys_source(source: Source) -> Source:
    """The registry's code for one of our sources; ValueError for IYS, which is never told to whom it came from."""
    if source is Source.IYS:
        raise ValueError("what the registry told us is not told to it")
    return _IYS_SOURCES.get(source, source)


def iys_date(word: Word, source: Source) -> str:
    """`consentDate`: `YYYY-MM-DD HH:MM:SS` in the registry's zone.

    The registry takes a line only if its second is later than that of the line it has, so a refusal's second is
    rounded up and a consent's down: of both in one second, the refusal is taken. HS_2015 has one date for all.
    """
    at = _OLDEST if source is Source.HS_2015 else word.at
    if not word.granted and at.microsecond:
        at += timedelta(seconds=1)
    return (at.astimezone(UTC) + IYS_ZONE).strftime("%Y-%m-%d %H:%M:%S")


def parse_iys_date(text: str) -> datetime:
    """Inverse, aware; ValueError for anything else."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) - IYS_ZONE
