"""A stored request becomes a mail with what holds at this moment: template, sender, files."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.content.render import Renderer
from shared.core.address import target_key
from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.core.email import AttachmentRef, EmailRequest, parse_recipients
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.ports import DkimKey, Prepared, SenderProfile
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, seal
from shared.core.sender import StoredProfile, seal_profile
from shared.core.storage import MissingFileError, Scheme, TooLargeError
from shared.core.unsubscribe import Refusal, link
from shared.delivery.email import EmailPreparation
from shared.delivery.file import FilesTooLargeError
from shared.delivery.mail import Mail, MailMaker
from shared.delivery.prepare import Unprepared, content_row
from shared.delivery.settings import EmailSettings
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import Category, MessageClass
from tests.unit.delivery.test_triage import row

RING = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))
PROFILE = SenderProfile("orders@shop.example", "Mağaza", dkim=DkimKey("shop.example", "s1", b"PEM"))
LIMITS = EmailSettings(attachment_max_bytes=10, attachments_total_max_bytes=15)


@dataclass
class Files:
    """Storage in memory."""

    files: Mapping[str, bytes] = field(default_factory=dict)

    async def read(self, ref: str, *, max_bytes: int, timeout_sec: float) -> bytes:
        if ref not in self.files:
            raise MissingFileError("no such file")
        if len(self.files[ref]) > max_bytes:
            raise TooLargeError(Scheme.FILE, max_bytes)
        return self.files[ref]

    async def delete(self, ref: str) -> None:
        raise NotImplementedError(ref)

    def owns(self, ref: str) -> bool:
        raise NotImplementedError(ref)


@dataclass
class Readings:
    """A catalogue that is `after` once it is read again, as `CatalogueCache` is after a push."""

    current: Catalogue
    after: Catalogue | None = None

    async def get(self, *, max_age_sec: float | None = None) -> Catalogue:
        if max_age_sec is not None and self.after is not None:
            self.current = self.after
        return self.current


def a_type(name: str = "ORDER_SHIPPED", **changes: Any) -> NotificationType:
    shipped = NotificationType(name, Category.TRANSACTIONAL, MessageClass.TX, ("EMAIL",), timedelta(hours=1))
    return replace(shipped, **changes)


def a_template(locale: str = "tr", text: str = "Merhaba {{ name }}", version: int = 1) -> Template:
    return Template(
        "ORDER_SHIPPED", "EMAIL", locale, version, {"subject": f"{locale} konu", "text": text}, frozenset({"name"})
    )


def catalogue(*templates: Template, senders: tuple[StoredProfile, ...] = (), **type_changes: Any) -> Catalogue:
    return Catalogue([a_type(**type_changes), a_type("RESET", sender_profile=None)], templates, [], senders)


def maker(
    readings: Catalogue | Readings,
    *,
    ring: KeyRing = RING,
    files: Mapping[str, bytes] | None = None,
    public_url: str | None = None,
) -> MailMaker:
    source = Readings(readings) if isinstance(readings, Catalogue) else readings
    return MailMaker(
        source,
        Renderer(),
        Files(files or {}),
        FixedRingSource(ring),
        default_locale="tr",
        limits=LIMITS,
        public_url=public_url,
    )


def request(**changes: Any) -> EmailRequest:
    recipients = parse_recipients(["Ayşe <ayse@example.com>"], ["mehmet@example.com"], ["gizli@example.com"])
    return replace(EmailRequest(recipients, "ORDER_SHIPPED", {"name": "Ayşe"}), **changes)


async def made(found: MailMaker, asked: EmailRequest | None = None, *, user_locale: str | None = None) -> Mail:
    mail = await found.make(asked or request(), message_reference="eml_1", user_locale=user_locale)
    assert isinstance(mail, Mail), mail
    return mail


async def refused(found: MailMaker, asked: EmailRequest | None = None) -> Unprepared:
    answer = await found.make(asked or request(), message_reference="eml_1")
    assert isinstance(answer, Unprepared)
    return answer


async def test_everything_in_its_place() -> None:
    mail = await made(maker(catalogue(a_template())))
    assert mail.content == {"subject": "tr konu", "text": "Merhaba Ayşe"}
    assert mail.envelope.message_reference == "eml_1"
    assert [str(mailbox) for mailbox in mail.envelope.to] == ['"Ayşe" <ayse@example.com>']
    assert [str(mailbox) for mailbox in mail.envelope.cc] == ["mehmet@example.com"]
    assert mail.envelope.sender is None
    assert mail.type.name == "ORDER_SHIPPED"


async def test_a_blind_copy_is_in_no_header() -> None:
    mail = await made(maker(catalogue(a_template())))
    assert "gizli" not in f"{mail.envelope.to}{mail.envelope.cc}"


@pytest.mark.parametrize(
    ("locale", "user_locale", "subject"),
    [
        ("en-GB", "de", "en konu"),
        (None, "de-AT", "de konu"),
        (None, None, "tr konu"),
        ("fr", None, "tr konu"),
    ],
)
async def test_language(locale: str | None, user_locale: str | None, subject: str) -> None:
    found = maker(catalogue(a_template(), a_template("en"), a_template("de")))
    assert (await made(found, request(locale=locale), user_locale=user_locale)).content["subject"] == subject


@pytest.mark.parametrize(
    ("found", "asked", "reason"),
    [
        (catalogue(a_template()), request(type="NO_SUCH"), Reason.UNKNOWN_TYPE),
        (catalogue(), request(), Reason.NO_TEMPLATE),
        (catalogue(a_template("en")), request(), Reason.NO_TEMPLATE),
        (catalogue(a_template()), request(parameters={}), Reason.RENDER),
        (catalogue(a_template(text="{{ name.x.y }}")), request(), Reason.RENDER),
    ],
)
async def test_what_cannot_be_made_fails_for_good(found: Catalogue, asked: EmailRequest, reason: Reason) -> None:
    answer = await refused(maker(found), asked)
    assert (answer.status, answer.reason) == (DeliveryStatus.FAILED, reason)
    assert "Ayşe" not in answer.detail


async def test_a_repaired_template_is_found_before_a_mail_fails() -> None:
    broken, repaired = catalogue(a_template(text="{{ name.x.y }}")), catalogue(a_template(version=2))
    assert (await made(maker(Readings(broken, repaired)))).content["text"] == "Merhaba Ayşe"


async def test_each_making_takes_the_version_of_its_moment() -> None:
    readings = Readings(catalogue(a_template()))
    found = maker(readings)
    assert (await made(found)).content["text"] == "Merhaba Ayşe"
    readings.current = catalogue(a_template(text="Selam {{ name }}", version=2))
    assert (await made(found)).content["text"] == "Selam Ayşe"


async def test_the_types_sender_with_its_key_opened() -> None:
    stored = seal_profile("orders", PROFILE, RING)
    found = maker(catalogue(a_template(), senders=(stored,), sender_profile="orders"))
    assert (await made(found)).envelope.sender == PROFILE
    assert (await made(found, request(type="RESET"))).envelope.sender is None
    assert await found.sender("ORDER_SHIPPED") == PROFILE


async def test_a_senders_key_sealed_under_a_key_yet_to_come_is_waited_for() -> None:
    stored = seal_profile("orders", PROFILE, KeyRing("k2", {"k2": bytes(32)}, bytes(32)))
    found = catalogue(a_template(), senders=(stored,), sender_profile="orders")
    assert (await refused(maker(found))).status is DeliveryStatus.PENDING
    lost = await refused(maker(found, ring=replace(RING, lost=frozenset({"k2"}))))
    assert (lost.status, lost.reason) == (DeliveryStatus.FAILED, Reason.CONFIG)


def with_files(*names: str) -> EmailRequest:
    return request(attachments=tuple(AttachmentRef(f"{name}.pdf", "application/pdf", name) for name in names))


async def test_files_are_read_when_they_are_asked_for() -> None:
    found = maker(catalogue(a_template()), files={"a": b"1234567890", "b": b"12345"})
    first, second = (await made(found, with_files("a", "b"))).envelope.attachments
    assert (first.filename, first.content_type) == ("a.pdf", "application/pdf")
    for _ in range(2):  # another attempt of the same envelope reads again
        assert await first.read(1.0) == b"1234567890"
        assert await second.read(1.0) == b"12345"


async def test_a_file_that_is_too_large_alone() -> None:
    (only,) = (
        await made(maker(catalogue(a_template()), files={"a": b"12345678901"}), with_files("a"))
    ).envelope.attachments
    with pytest.raises(TooLargeError, match="larger than 10 bytes"):
        await only.read(1.0)


async def test_files_that_are_too_large_together() -> None:
    found = maker(catalogue(a_template()), files={"a": b"1234567890", "b": b"123456"})
    first, second = (await made(found, with_files("a", "b"))).envelope.attachments
    await first.read(1.0)
    with pytest.raises(FilesTooLargeError, match="15 bytes together"):
        await second.read(1.0)


async def test_a_missing_file_says_so() -> None:
    (only,) = (await made(maker(catalogue(a_template())), with_files("a"))).envelope.attachments
    with pytest.raises(MissingFileError):
        await only.read(1.0)


def test_one_file_may_not_be_larger_than_all_together() -> None:
    with pytest.raises(ValueError, match="ULAK_EMAIL_ATTACHMENT_MAX_BYTES is above"):
        EmailSettings(attachment_max_bytes=20, attachments_total_max_bytes=10)


SALE = a_template(text="Merhaba {{ name }} {{ unsubscribeUrl|default('-') }}")
ME = "https://me.shop.example"


async def test_marketing_to_one_person_holds_their_own_way_out_E8() -> None:
    found = maker(catalogue(SALE, category=Category.MARKETING), public_url=ME)
    mail = await made(found, request(recipients=parse_recipients(["Ayşe <Ayse@example.com>"])))
    key = target_key(RING, "EMAIL", "ayse@example.com")
    assert mail.envelope.unsubscribe_url == link(ME, RING, Refusal(key, "EMAIL", "ORDER_SHIPPED"))
    assert mail.content["text"] == f"Merhaba Ayşe {mail.envelope.unsubscribe_url}"


@pytest.mark.parametrize(
    ("category", "to", "public_url"),
    [
        pytest.param(Category.TRANSACTIONAL, ["ayse@example.com"], ME, id="not-marketing"),
        pytest.param(Category.MARKETING, ["ayse@example.com", "deniz@example.com"], ME, id="read-by-several"),
        pytest.param(Category.MARKETING, ["ayse@example.com"], None, id="no-public-address"),
    ],
)
async def test_other_mails_hold_none(category: Category, to: list[str], public_url: str | None) -> None:
    found = maker(catalogue(SALE, category=category), public_url=public_url)
    mail = await made(found, request(recipients=parse_recipients(to)))
    assert mail.envelope.unsubscribe_url is None
    assert mail.content["text"] == "Merhaba Ayşe -"


@pytest.mark.parametrize(("marketing", "offered"), [(True, True), (False, False)])
async def test_what_the_router_rendered_is_offered_the_way_out_only_as_marketing(
    marketing: bool, offered: bool
) -> None:
    bare = row(marketing=marketing, type_name="ORDER_SHIPPED", content_purpose=Purpose.CONTENT)
    key = target_key(RING, "EMAIL", "ayse@example.com")
    bare = replace(bare, key=DeliveryKey(bare.key.notification_id, "EMAIL", key))
    sealed = replace(
        bare,
        address_sealed=seal(RING, Purpose.ADDRESS, key, b"ayse@example.com"),
        content_sealed=seal(RING, Purpose.CONTENT, content_row(bare), b'{"subject": "x", "text": "y"}'),
    )
    preparation = EmailPreparation(NoRequests(), maker(catalogue(SALE), public_url=ME), FixedRingSource(RING))
    [prepared] = await preparation([sealed])
    assert isinstance(prepared, Prepared)
    url = prepared.envelope.unsubscribe_url if prepared.envelope else None
    assert url == (link(ME, RING, Refusal(key, "EMAIL", "ORDER_SHIPPED")) if offered else None)


class NoRequests:
    """Nothing that is rendered late."""

    async def requests(self, ids: Collection[UUID]) -> Mapping[UUID, bytes]:
        return {}
