"""One canonical form per address; what can never be sent to is refused (E2, E3, S4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.address import InvalidAddressError, masked, parse_email, parse_phone, target_key
from shared.core.sealing import KeyRing

RING = KeyRing(active="k1", keys={"k1": bytes(32)}, lookup_key=bytes(range(32)))


@pytest.mark.parametrize(
    "written",
    [
        "+905321234567",
        "0532 123 45 67",
        "532 123 45 67",
        "0 (532) 123-45-67",
        "+90 (0)532 123 45 67",
        "+90 0532 123 45 67",
        "0090 532 123 45 67",
        "0090 (0)532 123 45 67",
        "90 532 123 45 67",
        "٠٥٣٢ ١٢٣ ٤٥ ٦٧",
        "+٩٠٥٣٢١٢٣٤٥٦٧",
        "۰۵۳۲۱۲۳۴۵۶۷",
        "\uff10\uff15\uff13\uff12\uff11\uff12\uff13\uff14\uff15\uff16\uff17",  # full-width digits
        "\u202a+90 532 123 45 67\u202c",  # copied from an address book
        "  0532\u00a0123\u00a045\u00a067 ",
    ],
)
def test_every_way_to_write_a_number_is_one_S4(written: str) -> None:
    assert parse_phone(written) == "+905321234567"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("+49 1512 3456789", "+4915123456789"),
        ("0049 (0)1512 3456789", "+4915123456789"),
        ("+44 7400 123456", "+447400123456"),
        ("+1 201-555-0123", "+12015550123"),
    ],
)
def test_numbers_of_other_countries_S4(written: str, canonical: str) -> None:
    assert parse_phone(written) == canonical


def test_national_form_is_read_in_the_region_asked_for_S4() -> None:
    assert parse_phone("01512 3456789", default_region="DE") == "+4915123456789"


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("", id="empty"),
        pytest.param("   ", id="blank"),
        pytest.param("112", id="emergency"),
        pytest.param("0532 123 45 6", id="one-digit-short"),
        pytest.param("+90 532 123 45 678", id="one-digit-long"),
        pytest.param("0212 555 12 34", id="landline"),
        pytest.param("0900 123 45 67", id="premium-rate"),
        pytest.param("0850 123 45 67", id="company-line"),
        pytest.param("0532 CALL NOW", id="vanity"),
        pytest.param("0532 123 45 67 ext. 12", id="extension"),
        pytest.param("0532 123 45 67 #12", id="extension-by-hash"),
        pytest.param("+999 532 123 45 67", id="no-such-country"),
        pytest.param("ali@example.com", id="an-email-address"),
        pytest.param("+90 532 123 45 67, +90 532 123 45 68", id="two-numbers"),
        pytest.param("1" * 5_000, id="huge"),
    ],
)
def test_what_cannot_take_an_sms_is_refused_S4(written: str) -> None:
    with pytest.raises(InvalidAddressError) as caught:
        parse_phone(written)
    assert not written.strip() or written not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_number_or_refused_S4(text: str) -> None:
    try:
        number = parse_phone(text)
    except InvalidAddressError:
        return
    assert number.startswith("+")
    assert number[1:].isascii()
    assert number[1:].isdigit()
    assert parse_phone(number) == number


@pytest.mark.parametrize(
    ("written", "text", "canonical"),
    [
        pytest.param("ali@example.com", "ali@example.com", "ali@example.com", id="plain"),
        pytest.param("Ali.Veli@EXAMPLE.com", "Ali.Veli@example.com", "ali.veli@example.com", id="case"),
        pytest.param("ali@bücher.example", "ali@xn--bcher-kva.example", "ali@xn--bcher-kva.example", id="idn-E2"),
        pytest.param("ali@BÜCHER.example", "ali@xn--bcher-kva.example", "ali@xn--bcher-kva.example", id="idn-case-E2"),
        pytest.param("ayşe@example.com", "ayşe@example.com", "ayşe@example.com", id="smtputf8-E2"),
        pytest.param("mıke@example.com", "mıke@example.com", "mıke@example.com", id="dotless-E3"),
        pytest.param("İ@example.com", "İ@example.com", "İ@example.com", id="dotted-capital-E3"),
        pytest.param("a+b@example.com", "a+b@example.com", "a+b@example.com", id="tag"),
    ],
)
def test_email_forms(written: str, text: str, canonical: str) -> None:
    address = parse_email(written)
    assert (address.text, address.canonical) == (text, canonical)


@pytest.mark.parametrize(
    ("one", "other"), [("mıke@example.com", "mike@example.com"), ("İ@example.com", "i@example.com")]
)
def test_look_alikes_are_different_people_E3(one: str, other: str) -> None:
    assert parse_email(one).canonical != parse_email(other).canonical
    assert target_key(RING, "EMAIL", parse_email(one).canonical) != target_key(
        RING, "EMAIL", parse_email(other).canonical
    )


@pytest.mark.parametrize(
    ("written", "needed"),
    [("ayşe@example.com", True), ("ali@bücher.example", False), ("ali@example.com", False)],
)
def test_only_a_foreign_local_part_needs_smtputf8_E2(written: str, needed: bool) -> None:
    assert parse_email(written).needs_smtputf8 is needed


@pytest.mark.parametrize(
    "written",
    [
        "",
        "ali",
        "ali@",
        "@example.com",
        "ali@localpart",
        "a b@example.com",
        ".ali@example.com",
        "a..b@example.com",
        "ali@exa mple.com",
        "ali@example..com",
        "Ali <ali@example.com>",
        "ali@example.com, veli@example.com",
        "ali@example.com\nBcc: veli@example.com",
        "ali@example.com\r\n",
        "a" * 65 + "@example.com",
        "ş" * 33 + "@example.com",
        "ali@" + "a" * 250 + ".com",
        "ali@[127.0.0.1]",
        "ali\x00@example.com",
    ],
)
def test_what_is_no_email_address_is_refused(written: str) -> None:
    with pytest.raises(InvalidAddressError) as caught:
        parse_email(written)
    assert "veli" not in str(caught.value)


def test_target_keys_are_per_channel() -> None:
    keys = {target_key(RING, channel, "+905321234567") for channel in ("SMS", "PUSH", "EMAIL")}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize(
    ("channel", "address", "shown"),
    [
        ("EMAIL", "ayse.yilmaz@example.com", "a***@example.com"),
        ("SMS", "+905321234567", "+90********67"),
        ("PUSH", "fcm-token-1f9c", "…1f9c"),
    ],
)
def test_masked(channel: str, address: str, shown: str) -> None:
    assert masked(channel, address) == shown
