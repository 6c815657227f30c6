"""What an e-mail request must satisfy, and what it becomes."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from services.ingest.caller import Caller
from services.ingest.email import (
    AdmittedEmail,
    admit_email,
    compose_email,
    model_of,
    read_request,
    refused_problem,
)
from services.ingest.email_model import EmailBody, Model
from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.core.identifier import EMAIL, public_id
from shared.core.lifecycle import Reason
from shared.core.sealing import KeyRing
from shared.decision.facts import Mode
from shared.ledger.ask import NO_SOURCE, Refused
from shared.web.problem import Problem
from shared.wire.channel import Category, MessageClass

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ID = UUID("019b8e3a-0000-7000-8000-000000000001")
RING = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))


def kind(name: str, category: Category, message_class: MessageClass = MessageClass.TX) -> NotificationType:
    return NotificationType(name, category, message_class, ("EMAIL",), timedelta(days=1))


def template(name: str, locale: str, *parameters: str) -> Template:
    return Template(name, "EMAIL", locale, 1, {"subject": "s", "text": "t"}, frozenset(parameters))


CATALOGUE = Catalogue(
    [
        kind("INVOICE", Category.TRANSACTIONAL),
        kind("RESET", Category.SECURITY, MessageClass.CRITICAL),
        kind("SALE", Category.MARKETING, MessageClass.BULK),
        kind("BARE", Category.TRANSACTIONAL),
    ],
    [template("INVOICE", "en", "number"), template("INVOICE", "tr", "number", "ad"), template("SALE", "en")],
    [],
)


def body(**changes: Any) -> EmailBody:
    return EmailBody.model_validate(
        {"to": ["Ada <ada@example.com>"], "template": "INVOICE", "parameters": {"number": 7}, **changes}
    )


def check(*, user_locale: str | None = None, **changes: Any) -> AdmittedEmail | Problem:
    given = body(**changes)
    request = read_request(given)
    if isinstance(request, Problem):
        return request
    return admit_email(given, request, CATALOGUE, user_locale=user_locale, default_locale="en")


def admitted(**changes: Any) -> AdmittedEmail:
    found = check(**changes)
    assert isinstance(found, AdmittedEmail)
    return found


def caller(mode: str = "live") -> Caller:
    return Caller(UUID(int=1), "k", 4, "shop", b"", mode, frozenset({"all"}), None, None, None)


@pytest.mark.parametrize(
    ("changes", "code", "paths"),
    [
        pytest.param({"to": ["ada@example.com", "bob"]}, "invalid_address", ["to.1"], id="second-address"),
        pytest.param({"cc": ["a\r\nBcc: x@example.com"]}, "invalid_address", ["cc.0"], id="injection"),
        pytest.param(
            {"attachments": [{"filename": "a/b", "contentType": "x/y", "storageRef": "file:a"}]},
            "invalid_attachment",
            ["attachments.0.filename"],
            id="attachment",
        ),
        pytest.param(
            {"attachments": [{"filename": "a", "contentType": "x/y", "storageRef": "https://files.example/a"}]},
            "invalid_attachment",
            ["attachments.0.storageRef"],
            id="storage-reference",
        ),
        pytest.param({"to": ["B\u202emoc.a <ada@example.com>"]}, "invalid_address", ["to.0"], id="turned-over"),
        pytest.param({"parameters": {"number": 2**70}}, "invalid_parameters", ["parameters"], id="large-number"),
        pytest.param(
            {"parameters": {"number": 7, "unsubscribeUrl": "https://evil.example"}},
            "invalid_parameters",
            ["parameters.unsubscribeUrl"],
            id="parameter-that-is-ours-E8",
        ),
        pytest.param({"template": "NOBODY"}, "unknown_type", ["template"], id="unknown-template"),
        pytest.param({"type": "NOBODY"}, "unknown_type", ["type"], id="unknown-type"),
        pytest.param({"template": "BARE"}, "template_missing", ["template"], id="no-template"),
        pytest.param({"parameters": {}}, "template_parameters_missing", ["parameters.number"], id="parameter"),
        pytest.param({"parameters": {"number": None}}, "template_parameters_missing", ["parameters.number"], id="null"),
        pytest.param({"locale": "tr-TR"}, "template_parameters_missing", ["parameters.ad"], id="own-locale"),
        pytest.param({"user_locale": "tr"}, "template_parameters_missing", ["parameters.ad"], id="user-locale"),
        pytest.param({"priority": "urgent"}, "unknown_priority", ["priority"], id="priority"),
        pytest.param(
            {"template": "SALE", "parameters": {}, "cc": ["bob@example.com"]},
            "marketing_to_several",
            ["to"],
            id="marketing-to-two-E8",
        ),
    ],
)
def test_what_the_caller_can_correct_is_refused_by_its_path(
    changes: dict[str, Any], code: str, paths: list[str]
) -> None:
    found = check(**changes)

    assert isinstance(found, Problem)
    assert (found.status, found.code, [error.path for error in found.errors]) == (422, code, paths)
    assert "ada@" not in found.detail


def test_the_type_gives_the_class_and_the_template_the_words() -> None:
    found = admitted(type="RESET")

    assert (found.type.name, found.message_class, found.request.template) == ("RESET", MessageClass.CRITICAL, "INVOICE")


@pytest.mark.parametrize(
    ("priority", "message_class", "clamped"),
    [(None, MessageClass.TX, False), ("low", MessageClass.LOW, False), ("critical", MessageClass.TX, True)],
)
def test_a_priority_lowers_and_is_clamped(priority: str | None, message_class: MessageClass, clamped: bool) -> None:
    found = admitted(priority=priority)

    assert (found.message_class, found.clamped is not None) == (message_class, clamped)


@pytest.mark.parametrize(
    ("mode", "asked", "default", "model"),
    [
        ("live", None, "B", "B"),
        ("live", None, "A", "A"),
        ("live", "A", "B", "A"),
        ("live", "B", "A", "B"),
        ("test", "A", "A", "B"),
        ("team", None, "A", "B"),
    ],
)
def test_only_a_live_key_is_sent_straight_from_the_table(
    mode: str, asked: Model | None, default: Model, model: Model
) -> None:
    assert model_of(body(model=asked), caller(mode), default) == model


def test_an_ask_is_one_by_the_caller_s_key_or_by_its_own_id() -> None:
    keyed = compose_email(admitted(idempotencyKey="order-7"), caller("test"), RING, ID, NOW, None)
    bare = compose_email(admitted(expiresInSeconds=60), caller(), RING, ID, NOW, None)

    assert (keyed.key, keyed.mode, keyed.expires_at) == ("order-7", Mode.TEST, None)
    assert (bare.key, bare.mode, bare.expires_at) == (public_id(EMAIL, ID), Mode.LIVE, NOW + timedelta(seconds=60))
    assert (bare.source, bare.source_id, bare.application_id) == (NO_SOURCE, ID, 4)


def test_the_fingerprint_tells_another_mail_and_no_other_difference() -> None:
    def fingerprint(**changes: Any) -> bytes:
        return compose_email(admitted(**changes), caller(), RING, ID, NOW, None).fingerprint

    same = fingerprint()
    assert fingerprint(locale="en", priority="low", expiresInSeconds=60, idempotencyKey="x") == same
    file = {"filename": "a.pdf", "contentType": "application/pdf", "storageRef": "file:a.pdf"}
    for changes in (
        {"to": ["bob@example.com"]},
        {"bcc": ["bob@example.com"]},
        {"parameters": {"number": 8}},
        {"type": "RESET"},
        {"attachments": [file]},
    ):
        assert fingerprint(**changes) != same, changes


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.UNKNOWN_TYPE, "unknown_type"),
        (Reason.NO_CONSENT, "marketing_refused"),
        (Reason.NO_TEMPLATE, "template_missing"),
        (Reason.EXPIRED, "expired_on_arrival"),
    ],
)
def test_what_the_ledger_refuses_after_all_is_told_alike(reason: Reason, code: str) -> None:
    assert refused_problem(Refused(reason, "it is too late"), admitted().request).code == code
