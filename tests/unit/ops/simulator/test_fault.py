from random import Random

import pytest
from pydantic import ValidationError

from ops.simulator.fault import Call, FaultForm, FaultTable, GoAway, SmtpPhase, applies


def form(provider: str = "twilio", **more: object) -> FaultForm:
    return FaultForm.model_validate({"provider": provider, "action": {}, **more})


@pytest.mark.parametrize(
    ("match", "call", "expected"),
    [
        pytest.param({}, Call("twilio", ("+905321234567",), "r1"), True, id="no-match-means-any"),
        pytest.param({}, Call("apns", ("0a",), "r1"), False, id="another-provider"),
        pytest.param({"to": "+905321234567"}, Call("twilio", ("+905321234567",)), True, id="to"),
        pytest.param({"to": "+905321234567"}, Call("twilio", ("+905321234568",)), False, id="another-to"),
        pytest.param({"to": "+90*"}, Call("twilio", ("+905321234567",)), True, id="to-prefix"),
        pytest.param({"to": "*"}, Call("twilio", ()), False, id="a-call-without-recipient-has-no-to"),
        pytest.param({"to": "b@x"}, Call("twilio", ("a@x", "b@x")), True, id="any-recipient"),
        pytest.param({"reference": "r1"}, Call("twilio", (), "r1"), True, id="reference"),
        pytest.param({"reference": "r1"}, Call("twilio", (), None), False, id="no-reference"),
        pytest.param({"to": "a*", "reference": "r2"}, Call("twilio", ("a",), "r1"), False, id="all-must-agree"),
    ],
)
def test_applies(match: dict[str, str], call: Call, expected: bool) -> None:
    assert applies(form(match=match), call) is expected


@pytest.mark.parametrize(
    ("smtp", "phase", "expected"),
    [
        pytest.param(None, SmtpPhase.DATA_END, True, id="default-is-the-final-reply"),
        pytest.param(None, SmtpPhase.MAIL, False, id="not-earlier"),
        pytest.param({"phase": "mail", "code": 421}, SmtpPhase.MAIL, True, id="its-phase"),
        pytest.param({"phase": "mail", "code": 421}, SmtpPhase.DATA_END, False, id="another-phase"),
    ],
)
def test_smtp_faults_act_at_their_phase(smtp: dict[str, object] | None, phase: SmtpPhase, expected: bool) -> None:
    action = {} if smtp is None else {"smtp": smtp}
    assert applies(form("smtp", action=action), Call("smtp", ("a@x",), None, phase)) is expected


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param({"provider": "apns", "action": {"smtp": {"code": 421}}}, "needs provider smtp", id="smtp-on-apns"),
        pytest.param({"provider": "smtp", "action": {"status": 503}}, "use action.smtp", id="status-on-smtp"),
        pytest.param({"provider": "twilio", "action": {"http2": {"resetStream": 7}}}, "apns", id="http2-on-twilio"),
        pytest.param({"provider": "fcm", "action": {"receipt": {"status": "sent"}}}, "twilio", id="receipt-on-fcm"),
        pytest.param(
            {"provider": "smtp", "match": {"reference": "r"}, "action": {"smtp": {"phase": "data", "code": 451}}},
            "match.reference is not known yet",
            id="reference-before-the-mail",
        ),
        pytest.param({"provider": "apns", "action": {}, "times": 0}, "times", id="never"),
        pytest.param({"provider": "apns", "action": {"headers": {"a": "b\r\nc: d"}}}, "headers", id="header-injection"),
        pytest.param({"provider": "apns", "action": {"dely": 1}}, "dely", id="misspelt"),
    ],
)
def test_what_cannot_happen_is_refused(value: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        FaultForm.model_validate(value)


def test_the_oldest_fault_goes_first_and_times_run_out() -> None:
    table = FaultTable(Random(1))
    first = table.add(form(times=2))
    second = table.add(form())
    taken = [table.take(Call("twilio")) for _ in range(4)]
    assert taken == [first, first, second, second]
    assert [listed["id"] for listed in table.listing()] == [second.id]


def test_a_removed_fault_is_gone() -> None:
    table = FaultTable(Random(1))
    fault = table.add(form())
    assert (table.remove(fault.id), table.remove(fault.id), table.take(Call("twilio"))) == (True, False, None)


def test_probability_draws_from_the_seed() -> None:
    def hits(seed: int) -> list[bool]:
        table = FaultTable(Random(seed))
        table.add(form(probability=0.25))
        return [table.take(Call("twilio")) is not None for _ in range(4000)]

    assert hits(7) == hits(7)
    assert hits(7) != hits(8)
    assert 900 < sum(hits(7)) < 1100


@pytest.mark.parametrize(
    ("goaway", "stream_id", "last"),
    [
        pytest.param({}, 7, 7, id="this-one-is-still-answered"),
        pytest.param({"processed": False}, 7, 5, id="this-one-is-not"),
        pytest.param({"processed": False}, 1, 0, id="not-even-the-first"),
        pytest.param({"lastStreamId": 5}, 7, 5, id="named"),
    ],
)
def test_goaway_last_stream(goaway: dict[str, object], stream_id: int, last: int) -> None:
    assert GoAway.model_validate(goaway).last_for(stream_id) == last
