"""What is told to the registry, and how its answers are read."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from services.relay.iys.permission import (
    Change,
    Enqueued,
    Permission,
    Refusal,
    Taken,
    read_changes,
    read_enqueued,
    read_refusal,
    read_results,
    says_the_same,
)
from services.relay.iys.pull import read_change
from services.relay.iys.settings import IysSettings
from shared.core.consent import RecipientKind, Source, Word
from shared.core.sealing import KeyRing

AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
PERMISSION = Permission("SMS", "+905321234567", RecipientKind.BIREYSEL, Word(True, AT), Source.HS_WEB)
CHANGE = Change("t-1", "MESAJ", "+905321234567", "BIREYSEL", "RET", "2026-11-01 12:00:00", "IYS_MOBIL")


def test_a_line_as_the_registry_takes_it() -> None:
    assert PERMISSION.body() == {
        "type": "MESAJ",
        "recipient": "+905321234567",
        "recipientType": "BIREYSEL",
        "status": "ONAY",
        "source": "HS_WEB",
        "consentDate": "2026-11-01 12:00:00",
    }
    assert "532" not in repr(PERMISSION)


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        pytest.param(
            {"errors": [{"location": ["recipient"], "code": "H114", "message": "yok"}, {"code": "H113"}]},
            Refusal("H114", "yok", "recipient"),
            id="as-documented",
        ),
        pytest.param({"errors": [{"code": "H155", "message": "eski"}]}, Refusal("H155", "eski"), id="no-location"),
        pytest.param({"errors": []}, Refusal("", ""), id="none"),
        pytest.param({"errors": "no"}, Refusal("", ""), id="no-list"),
        pytest.param(["no"], Refusal("", ""), id="no-object"),
        pytest.param({"errors": [{"code": "H" * 99, "message": "m" * 999}]}, Refusal("H" * 32, "m" * 256), id="long"),
    ],
)
def test_errors(body: Any, refusal: Refusal) -> None:
    assert read_refusal(body) == refusal


def test_a_batch_that_names_each_line() -> None:
    body = {"requestId": "r", "subRequests": [{"subrequestId": "a"}, {"subrequestId": "b"}]}
    assert read_enqueued(body, 2) == Enqueued("r", ["a", "b"])
    assert read_enqueued(body, 3) is None
    assert read_enqueued({"requestId": "r", "subRequests": [{"subrequestId": ""}]}, 1) is None
    assert read_enqueued({"subRequests": [{"subrequestId": "a"}]}, 1) is None
    assert read_enqueued([], 0) is None


def test_results_by_line() -> None:
    body = [
        {"index": 1, "status": "failure", "subrequestId": "a", "error": {"code": "H155", "message": "eski"}},
        {"index": 2, "status": "success", "subrequestId": "b", "transactionId": "t"},
        {"index": 3, "status": "enqueue", "subrequestId": "c"},
        "nobody",
    ]
    assert read_results(body) == {"a": Refusal("H155", "eski"), "b": Taken()}
    assert read_results({}) == {}


def test_whether_the_registry_says_the_same() -> None:
    assert says_the_same({"status": "ONAY"}, PERMISSION)
    assert not says_the_same({"status": "RET"}, PERMISSION)
    assert not says_the_same(None, PERMISSION)


def test_changes_that_are_readable() -> None:
    body = {
        "after": "x",
        "list": [
            {
                "transactionId": "t-1",
                "type": "MESAJ",
                "recipient": "+905321234567",
                "recipientType": "BIREYSEL",
                "status": "RET",
                "consentDate": "2026-11-01 12:00:00",
                "creationDate": "2026-11-01 12:00:01",
                "source": "IYS_MOBIL",
            },
            {"type": "MESAJ", "recipient": "+905321234567"},
        ],
    }
    assert read_changes(body, "w").changes == [CHANGE]
    assert read_changes(body, "w").after == "x"
    assert read_changes({"list": None}, "w").after == "w"
    assert read_changes("no", "w").changes == ()


def test_a_change_is_a_line_of_the_ledger(key_ring: KeyRing) -> None:
    line = read_change(CHANGE, key_ring)
    assert line is not None
    assert (line.channel, line.granted, line.at, line.source) == ("SMS", False, AT, Source.IYS)
    assert (line.reference, line.address) == ("t-1", "+905321234567")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Change("t", "ARAMA", "+905321234567", "BIREYSEL", "RET", "2026-11-01 12:00:00", ""), id="voice"),
        pytest.param(Change("t", "EPOSTA", "nobody", "BIREYSEL", "RET", "2026-11-01 12:00:00", ""), id="no-address"),
        pytest.param(Change("t", "MESAJ", "+905321234567", "BIREYSEL", "RET", "yesterday", ""), id="no-date"),
        pytest.param(Change("t", "MESAJ", "+905321234567", "X", "RET", "2026-11-01 12:00:00", ""), id="no-kind"),
        pytest.param(Change("t", "MESAJ", "+905321234567", "TACIR", "?", "2026-11-01 12:00:00", ""), id="no-status"),
    ],
)
def test_what_is_no_line_of_ours_is_passed_over(key_ring: KeyRing, change: Change) -> None:
    assert read_change(change, key_ring) is None


def test_settings_are_complete_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD", "CODE", "BRAND_CODE"):
        monkeypatch.delenv(f"ULAK_IYS_{name}", raising=False)
    assert not IysSettings().configured
    with pytest.raises(ValidationError, match="ULAK_IYS_CODE, ULAK_IYS_BRAND_CODE must be set"):
        IysSettings(username="u", password=SecretStr("p"))
    with pytest.raises(ValidationError, match="longer than ULAK_IYS_TIMEOUT_SEC"):
        IysSettings(timeout_sec=200)
    settings = IysSettings(username="u", password=SecretStr("secret"), code="1", brand_code="2")
    assert settings.brand == "1/2"
    assert "secret" not in repr(settings)
