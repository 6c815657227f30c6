from random import Random

import pytest

from ops.simulator.providers.twilio.reference import reference
from ops.simulator.providers.twilio.rule import refusal
from ops.simulator.providers.twilio.segment import segments
from ops.simulator.providers.twilio.signature import signature
from ops.simulator.receipt import ReceiptMode, ReceiptPolicy, Step, plan

GOOD = {"To": "+905321234567", "From": "+15005550006", "Body": "Merhaba"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({}, None, id="good"),
        pytest.param({"From": "", "MessagingServiceSid": "MG" + "a" * 32}, None, id="messaging-service"),
        pytest.param({"From": "MAGAZA"}, None, id="alphanumeric-sender"),
        pytest.param({"From": "MAGAZAMAGAZA"}, 21212, id="alphanumeric-12"),
        pytest.param({"From": "", "MessagingServiceSid": "MGx"}, 21701, id="no-such-service"),
        pytest.param({"To": "905321234567"}, 21211, id="no-plus-S4"),
        pytest.param({"To": "+0532123456"}, 21211, id="leading-zero-S4"),
        pytest.param({"To": "+9053212345671234"}, 21211, id="16-digits-S4"),
        pytest.param({"To": "+٩٠٥٣٢١٢٣٤٥٦٧"}, 21211, id="arabic-digits-S4"),
        pytest.param({"Body": "ş" * 1600}, None, id="1600-characters"),
        pytest.param({"Body": "ş" * 1601}, 21617, id="1601-characters"),
        pytest.param({"StatusCallback": "https://[bad"}, 21609, id="callback-malformed"),
        pytest.param({"To": "+15005550009"}, 21614, id="no-mobile"),
    ],
)
def test_refusal(change: dict[str, str], code: int | None) -> None:
    problem = refusal(GOOD | change)
    assert (problem and problem.code) == code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 1, id="empty"),
        pytest.param("a" * 160, 1, id="160"),
        pytest.param("a" * 161, 2, id="161"),
        pytest.param("a" * 306, 2, id="306"),
        pytest.param("a" * 307, 3, id="307"),
        pytest.param("€" * 80, 1, id="extension-counts-two"),
        pytest.param("]" * 153, 3, id="no-escape-pair-is-split-S1"),
        pytest.param("ş" * 70, 1, id="turkish-is-ucs2-S3"),
        pytest.param("ş" * 71, 2, id="ucs2-71"),
        pytest.param("ş" + "]" * 69, 1, id="extension-counts-one-in-ucs2-S1"),
        pytest.param("😀" * 35, 1, id="surrogate-pairs"),
        pytest.param("😀" * 67, 3, id="no-surrogate-pair-is-split"),
    ],
)
def test_segments(text: str, expected: int) -> None:
    assert segments(text) == expected


def test_signature_as_in_twilios_own_example() -> None:
    """Twilio documentation, 'Webhooks security', the example with the token 12345, as in the tests of its libraries."""
    params = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+14158675309",
        "Digits": "1234",
        "From": "+14158675309",
        "To": "+18005551212",
    }
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert signature("12345", url, params) == "RSOYDt4T1cUTdK1PDd93/VVr8B8="


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://x.example/callbacks/twilio?ref=ntf%2D1&a=b", "ntf-1"),
        ("https://x.example/callbacks/twilio", None),
        ("https://[bad", None),
        (None, None),
    ],
)
def test_reference(address: str | None, expected: str | None) -> None:
    assert reference(address) == expected


STATUSES = ["queued", "sent", "delivered"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(ReceiptMode.AUTOMATIC, [Step(0.02, status) for status in STATUSES], id="automatic"),
        pytest.param(ReceiptMode.DELAYED, [Step(5.0, status) for status in STATUSES], id="delayed"),
        pytest.param(
            ReceiptMode.REPEATED, [Step(0.02, status) for status in STATUSES for _ in range(2)], id="repeated"
        ),
        pytest.param(ReceiptMode.WITHHELD, [Step(0.02, status, posted=False) for status in STATUSES], id="withheld"),
    ],
)
def test_plan(mode: ReceiptMode, expected: list[Step]) -> None:
    assert plan(STATUSES, ReceiptPolicy(mode=mode), Random(1)) == expected


def test_shuffled_receipts_are_each_sent_once_in_every_order_there_is() -> None:
    random = Random(1)
    policy = ReceiptPolicy(mode=ReceiptMode.SHUFFLED)
    orders = {tuple(step.status for step in plan(STATUSES, policy, random)) for _ in range(200)}
    assert len(orders) == 6
    assert all(sorted(order) == sorted(STATUSES) for order in orders)
