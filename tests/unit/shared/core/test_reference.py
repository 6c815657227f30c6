"""Our name for a delivery travels through providers and comes back as the same delivery."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.reference import DeliveryKey

KEYS = st.builds(
    DeliveryKey,
    notification_id=st.uuids(),
    channel=st.sampled_from(["SMS", "PUSH", "EMAIL"]),
    target_key=st.binary(min_size=32, max_size=32),
)


def test_reference_by_hand() -> None:
    key = DeliveryKey(UUID("01890a5d-ac96-774b-bcce-b302099a8057"), "SMS", b"\xff" * 3)
    assert key.reference == "ntf_01h455vb4pex5vsknk084sn02q.SMS.____"


@given(KEYS)
def test_reference_reads_back_and_is_url_safe(key: DeliveryKey) -> None:
    assert DeliveryKey.parse(key.reference) == key
    assert set(key.reference) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


@given(KEYS, KEYS)
def test_reference_uuid_is_stable_version_8_and_its_own(one: DeliveryKey, other: DeliveryKey) -> None:
    assert one.reference_uuid == DeliveryKey.parse(one.reference).reference_uuid
    assert one.reference_uuid.version == 8
    assert one.reference_uuid.variant == "specified in RFC 4122"
    assert (one.reference_uuid == other.reference_uuid) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "a.b.c.d",
        "ntf_01h455vb4pex5vsknk084sn02q.SMS.!!!!",
        "ntf_01h455vb4pex5vsknk084sn02q.SMS.__ __",
        "ntf_01h455vb4pex5vsknk084sn02q.SMS.ş",
        "ntf_01h455vb4pex5vsknk084sn02q.SMS.____=",
        "ntf_01h455vb4pex5vsknk084sn02q.SMS._____",
        "cmp_01h455vb4pex5vsknk084sn02q.SMS.____",
        "01890a5d-ac96-774b-bcce-b302099a8057.SMS.____",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a delivery reference"):
        DeliveryKey.parse(text)


@given(st.text(max_size=80))
def test_any_text_reads_back_or_is_refused(text: str) -> None:
    try:
        key = DeliveryKey.parse(text)
    except ValueError:
        return
    assert key.reference == text
