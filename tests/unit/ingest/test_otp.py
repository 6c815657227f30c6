"""Which code supersedes which, and that nothing shows a code."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from services.ingest.caller import Caller
from services.ingest.model import OtpRequest
from services.ingest.otp import OtpRow, RenderedOtp, compose_otp, first_of_each_request, render_otp, supersede
from shared.content.render import Renderer
from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.web.problem import Problem
from shared.wire.channel import Category, MessageClass

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
RING = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))
CALLER = Caller(UUID(int=1), "key", 1, "shop", b"", "live", frozenset({"otp"}), None, None, None)
OTP_TYPE = NotificationType("OTP", Category.SECURITY, MessageClass.CRITICAL, ("SMS",), timedelta(minutes=5))


def request(**changes: object) -> OtpRequest:
    base = {"requestId": "r", "phone": "+905321234567", "code": "482913", "expiresInSeconds": 180}
    return OtpRequest.model_validate({**base, **changes})


def catalogue(text: str = "{{ code }} {{ expiresInMinutes }}", *names: str) -> Catalogue:
    return Catalogue([OTP_TYPE], [Template("OTP", "SMS", "tr", 3, {"text": text}, frozenset(names or {"code"}))], ())


def rendered(found: RenderedOtp | Problem) -> RenderedOtp:
    assert isinstance(found, RenderedOtp), found
    return found


def row(number: int, phone: int = 0, purpose: str = "login") -> OtpRow:
    base = rendered(render_otp(request(), catalogue(), Renderer(), locale=None, default_locale="tr"))
    composed = compose_otp(base, CALLER, RING, UUID(int=number), UUID(int=0), NOW, None)
    return replace(composed, phone_key=bytes([phone]), purpose=purpose, request_id=f"r{number}")


@pytest.mark.parametrize(
    ("rows", "stored", "current", "superseded", "overtaken"),
    [
        pytest.param([row(5)], {}, [5], [], [], id="first"),
        pytest.param([row(5)], {5: 0}, [5], [], [], id="itself-entered"),
        pytest.param([row(5)], {3: 0}, [5], [3], [], id="newer-than-stored"),
        pytest.param([row(5)], {9: 0}, [], [], [5], id="older-than-stored"),
        pytest.param([row(6), row(5)], {}, [6], [], [5], id="two-in-one-group"),
        pytest.param([row(5), row(6)], {3: 0}, [6], [3], [5], id="two-after-one"),
        pytest.param([row(5), row(6, phone=1)], {3: 0, 4: 1}, [5, 6], [3, 4], [], id="two-phones"),
        pytest.param([row(5), row(6, purpose="pay")], {}, [5, 6], [], [], id="two-purposes"),
    ],
)
def test_the_newest_code_goes_out(
    rows: list[OtpRow], stored: dict[int, int], current: list[int], superseded: list[int], overtaken: list[int]
) -> None:
    """stored: id -> phone of what the database holds as current."""
    found = supersede(rows, {(bytes([phone]), "login"): UUID(int=number) for number, phone in stored.items()})
    assert sorted(item.id.int for item in found.current.values()) == current
    assert [identifier.int for identifier in found.superseded] == superseded
    assert sorted(identifier.int for identifier in found.overtaken) == overtaken


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2)), unique_by=lambda pair: pair[0], min_size=1), st.data()
)
def test_one_code_per_phone_is_left(codes: list[tuple[int, int]], data: st.DataObject) -> None:
    """However codes are dealt into groups and whatever order those come in: the newest per phone is the one left."""
    rows = [row(number, phone) for number, phone in codes]
    shuffled = data.draw(st.permutations(rows))
    current: dict[tuple[bytes, str], UUID] = {}
    stopped: set[UUID] = set()
    while shuffled:
        size = data.draw(st.integers(1, len(shuffled)))
        group, shuffled = shuffled[:size], shuffled[size:]
        found = supersede(group, current)
        current |= {key: item.id for key, item in found.current.items()}
        stopped |= {*found.superseded, *found.overtaken}
    for phone in {phone for _, phone in codes}:
        newest = max(number for number, owner in codes if owner == phone)
        left = [number for number, owner in codes if owner == phone and UUID(int=number) not in stopped]
        assert left == [newest]


def test_text_is_rendered_and_sealed() -> None:
    found = rendered(render_otp(request(), catalogue(), Renderer(), locale="tr-TR", default_locale="en"))
    composed = compose_otp(found, CALLER, RING, UUID(int=5), UUID(int=6), NOW, None)
    content = open_sealed(RING, Purpose.OTP, UUID(int=5).bytes + b"SMS", composed.content_sealed)
    assert orjson.loads(content) == {"text": "482913 3"}
    assert (composed.template_version, composed.expires_at) == (3, NOW + timedelta(seconds=180))


def test_nothing_shows_code_or_phone() -> None:
    found = rendered(render_otp(request(), catalogue(), Renderer(), locale=None, default_locale="tr"))
    composed = compose_otp(found, CALLER, RING, UUID(int=5), UUID(int=6), NOW, None)
    for shown in (repr(found), repr(composed)):
        assert "482913" not in shown
        assert "5321234567" not in shown


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"code": "999999"}, id="code"),
        pytest.param({"phone": "+905321234568"}, id="phone"),
        pytest.param({"expiresInSeconds": 60}, id="life"),
        pytest.param({"purpose": "payment"}, id="purpose"),
        pytest.param({"locale": "en"}, id="language"),
    ],
)
def test_fingerprint_tells_another_request_A1(change: dict[str, object]) -> None:
    first, other = (
        compose_otp(
            rendered(render_otp(asked, catalogue(), Renderer(), locale=None, default_locale="tr")),
            CALLER,
            RING,
            UUID(int=5),
            UUID(int=6),
            NOW,
            None,
        )
        for asked in (request(), request(**change))
    )
    assert first.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("found", "code"),
    [
        pytest.param(Catalogue((), (), ()), "otp_not_configured", id="no-type"),
        pytest.param(
            catalogue("{{ code }} {{ shop }}", "code", "shop"), "otp_not_configured", id="template-wants-more"
        ),
    ],
)
def test_what_is_not_configured_is_said(found: Catalogue, code: str) -> None:
    problem = render_otp(request(), found, Renderer(), locale=None, default_locale="tr")
    assert isinstance(problem, Problem)
    assert (problem.status, problem.code) == (503, code)
    assert "482913" not in problem.detail


def test_the_first_of_the_same_request_is_stored() -> None:
    one, two, three = replace(row(5), request_id="same"), row(7), replace(row(6), request_id="same")
    assert [item.id.int for item in first_of_each_request([one, two, three])] == [5, 7]


@pytest.mark.parametrize("code", ["123", "12345678901", "12 34", "१२३४", "12-34"])
def test_codes_are_4_to_10_digits_or_letters(code: str) -> None:
    with pytest.raises(ValidationError):
        request(code=code)
