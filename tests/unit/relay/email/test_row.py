"""A row opens to a request or to what keeps it shut; sealing it keeps nothing in the clear."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import orjson
import pytest

from services.relay.email.row import EmailRow, open_row, seal_row
from shared.core.email import EmailRequest
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.sealing import KeyRing, Purpose, seal
from shared.delivery.prepare import Unprepared
from shared.wire.channel import MessageClass

RING = KeyRing("k1", {"k1": b"1" * 32}, b"l" * 32)
OTHER = KeyRing("k2", {"k2": b"2" * 32}, b"l" * 32)
LOST = KeyRing("k1", {"k1": b"1" * 32}, b"l" * 32, lost=frozenset({"k2"}))
CLEAR = EmailRow(
    id=UUID(int=7),
    message_class=MessageClass.TX,
    template="ORDER_SHIPPED",
    type="ORDER",
    locale="tr",
    user_id="7",
    recipients=orjson.dumps({"to": ["Ayşe <ayse@example.com>"], "cc": ["bora@example.com"], "bcc": []}),
    parameters=b'{"orderNo": "98213"}',
    sealed=False,
    attachments=[{"filename": "a.pdf", "contentType": "application/pdf", "storageRef": "file:a.pdf"}],
    attempt_count=0,
    outcomes={},
    expires_at=None,
    created_at=datetime(2026, 1, 15, tzinfo=UTC),
)


def sealed(row: EmailRow, ring: KeyRing) -> EmailRow:
    pair = seal_row(row, ring)
    assert pair is not None
    return replace(row, recipients=pair[0], parameters=pair[1], sealed=True)


def test_clear_and_sealed_rows_open_to_the_same_request() -> None:
    clear = open_row(CLEAR, RING)
    assert isinstance(clear, EmailRequest)
    assert open_row(sealed(CLEAR, RING), RING) == clear
    assert [recipient.mailbox.address.text for recipient in clear.recipients] == [
        "ayse@example.com",
        "bora@example.com",
    ]
    assert (clear.type_name, clear.locale, clear.user_id) == ("ORDER", "tr", "7")
    assert clear.parameters == {"orderNo": "98213"}
    assert clear.attachments[0].filename == "a.pdf"


def test_what_is_sealed_shows_nothing_and_is_not_sealed_twice() -> None:
    row = sealed(CLEAR, RING)
    assert b"ayse" not in row.recipients
    assert b"98213" not in (row.parameters or b"")
    assert seal_row(row, RING) is None


def test_a_row_without_parameters_has_none() -> None:
    request = open_row(replace(CLEAR, parameters=None), RING)
    assert isinstance(request, EmailRequest)
    assert request.parameters == {}
    assert sealed(replace(CLEAR, parameters=None), RING).parameters is None


@pytest.mark.parametrize(
    ("row", "ring", "status", "reason"),
    [
        pytest.param(sealed(CLEAR, OTHER), RING, DeliveryStatus.PENDING, Reason.UNSEALABLE, id="unknown-key-waits"),
        pytest.param(sealed(CLEAR, OTHER), LOST, DeliveryStatus.FAILED, Reason.UNSEALABLE, id="lost-key"),
        pytest.param(
            replace(sealed(CLEAR, RING), id=UUID(int=8)), RING, DeliveryStatus.FAILED, Reason.UNSEALABLE, id="moved"
        ),
        pytest.param(
            replace(sealed(CLEAR, RING), recipients=sealed(CLEAR, RING).parameters or b""),
            RING,
            DeliveryStatus.FAILED,
            Reason.UNSEALABLE,
            id="columns-swapped",
        ),
        pytest.param(
            replace(CLEAR, recipients=b'{"to": ["nobody"]}'),
            RING,
            DeliveryStatus.FAILED,
            Reason.INVALID,
            id="no-address",
        ),
        pytest.param(replace(CLEAR, recipients=b"x"), RING, DeliveryStatus.FAILED, Reason.INVALID, id="no-json"),
        pytest.param(replace(CLEAR, parameters=b"[1]"), RING, DeliveryStatus.FAILED, Reason.RENDER, id="no-object"),
        pytest.param(replace(CLEAR, parameters=b"{"), RING, DeliveryStatus.FAILED, Reason.RENDER, id="cut-parameters"),
        pytest.param(replace(CLEAR, attachments=[{}]), RING, DeliveryStatus.FAILED, Reason.INVALID, id="attachment"),
    ],
)
def test_what_does_not_open_says_why_without_an_address(
    row: EmailRow, ring: KeyRing, status: DeliveryStatus, reason: Reason
) -> None:
    found = open_row(row, ring)
    assert isinstance(found, Unprepared)
    assert (found.status, found.reason) == (status, reason)
    for private in ("ayse", "nobody", "98213"):
        assert private not in found.detail


def test_the_columns_are_sealed_for_their_row_and_name_as_the_client_does() -> None:
    row = replace(
        CLEAR,
        sealed=True,
        recipients=seal(RING, Purpose.OUTBOX, CLEAR.id.bytes + b"recipients", CLEAR.recipients),
        parameters=seal(RING, Purpose.OUTBOX, CLEAR.id.bytes + b"parameters", b"{}"),
    )
    assert isinstance(open_row(row, RING), EmailRequest)


def test_repr_shows_nothing_of_a_person() -> None:
    assert "ayse" not in repr(CLEAR)
    assert "98213" not in repr(CLEAR)
