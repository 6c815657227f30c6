"""Header fields: what readers see is what was meant, and nothing can make two fields of one."""

import email
import email.policy
import email.utils
from email.header import decode_header, make_header

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.providers.email.header import (
    InvalidMailError,
    mailboxes_field,
    message_id,
    one_line,
    parameter,
    text_field,
    token_field,
    wire_address,
)

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=300)
TURKISH = "Siparişiniz kargoya verildi: İstanbul’dan Iğdır’a, çok yakında kapınızda — güle güle kullanın! "
ARABIC = "تم شحن طلبك رقم ٩٨٢١٣ وسيصل إليك غدًا إن شاء الله"
HEBREW = "\u200fההזמנה שלך בדרך \u2068אליך\u2069"


def read(field: bytes) -> str:
    """A field's value as a reader shows it; fails for what is not exactly one field in lines of allowed length."""
    assert field.endswith(b"\r\n")
    lines = field[:-2].split(b"\r\n")
    assert b"\n" not in b"".join(lines)
    assert b"\r" not in b"".join(lines)
    assert all(line.startswith(b" ") for line in lines[1:])
    assert all(line.strip() for line in lines)
    assert all(len(line) <= 998 for line in lines)
    assert all(len(line) <= 76 for line in lines if b"=?" in line and b"@" not in line)
    message = email.message_from_bytes(field + b"\r\n")
    (value,) = message.values()
    return str(make_header(decode_header(value.replace("\r\n", ""))))


@pytest.mark.parametrize(
    "text",
    [
        "Your order is on its way",
        TURKISH.strip(),
        (TURKISH * 20).strip(),
        ARABIC,
        HEBREW,
        "ş" * 1200,
        "a" * 1200,
        "word " * 300 + "end",
        "😀" * 200,
        "=?utf-8?q?a=0D=0ABcc:_x=40example.com?=",
        "a =?x?= b",
        "",
        "x",
    ],
)
def test_text_is_read_as_it_was_meant(text: str) -> None:
    assert read(text_field("Subject", text)) == text


@given(TEXT)
def test_any_text_is_read_as_it_was_meant(text: str) -> None:
    assert read(text_field("Subject", text)) == one_line(text)


@given(st.text(max_size=300).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)))
def test_no_text_can_end_its_field(text: str) -> None:
    read(text_field("Subject", text))
    read(mailboxes_field("To", [(text, "a@example.com")]))


@pytest.mark.parametrize(
    "break_", ["\r\n", "\n", "\r", "\r\n ", "\x00", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
)
def test_line_ends_of_all_kinds_become_blanks(break_: str) -> None:
    assert one_line(f"a{break_}Bcc: x@example.com{break_}") == "a Bcc: x@example.com"


@pytest.mark.parametrize("value", ["a\r\nBcc: x@example.com", "a\nb", "ş", "x" * 401, "a\x00"])
def test_values_of_ours_are_checked(value: str) -> None:
    with pytest.raises(InvalidMailError, match="not a value for X-Ulak-Reference"):
        token_field("X-Ulak-Reference", value)


@pytest.mark.parametrize("reference", ["", "a b", "a>\r\nBcc: x", "<a>", "a@b", "ş", "x" * 201])
def test_reference_that_cannot_stand_in_a_message_id(reference: str) -> None:
    with pytest.raises(InvalidMailError, match="reference"):
        message_id(reference, "shop.example")


# ---------------------------------------------------------------- mailboxes

NAMES = [
    "",
    "Ayşe Yıldız",
    'Yıldız, Ayşe "Ayşecik" (öğretmen)',
    "O'Brien",
    "Shop, Inc.",
    'A "quoted" \\ name',
    "a@b.example",
    "<x@evil.example>",
    "=?utf-8?q?Bank?=",
    "محمد علي",
    "דוד כהן",
    "Ünlü Şirket Ticaret ve Sanayi Anonim Şirketi Genel Müdürlüğü " * 3,
    "x" * 200,
    "😀",
]


def addresses(field: bytes) -> list[tuple[str, str]]:
    (value,) = email.message_from_bytes(field + b"\r\n").values()
    found = email.utils.getaddresses([value.replace("\r\n", "")])
    return [(str(make_header(decode_header(name))), address) for name, address in found]


@pytest.mark.parametrize("name", NAMES)
def test_display_name_is_read_as_it_was_meant(name: str) -> None:
    field = mailboxes_field("To", [(name, "ayse@example.com")])
    read(field)
    assert addresses(field) == [(one_line(name), "ayse@example.com")]


def test_fifty_names_of_all_kinds_are_fifty_mailboxes() -> None:
    entries = [(one_line(NAMES[index % len(NAMES)]), f"user{index}@a-long-domain.example.com") for index in range(50)]
    field = mailboxes_field("Cc", entries)
    read(field)
    assert addresses(field) == entries


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_any_names_are_read_as_they_were_meant(names: list[str]) -> None:
    entries = [(one_line(name), f"user{index}@example.com") for index, name in enumerate(names)]
    field = mailboxes_field("To", entries)
    read(field)
    assert addresses(field) == entries


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_modern_readers_see_as_many_mailboxes(names: list[str]) -> None:
    """The standard library's modern parser is another reader; it must not find more addresses than there are."""
    field = mailboxes_field("To", [(name, f"user{index}@example.com") for index, name in enumerate(names)])
    header = email.message_from_bytes(field + b"\r\n", policy=email.policy.default)["To"]
    assert [entry.addr_spec for entry in header.addresses] == [f"user{i}@example.com" for i in range(len(names))]


def test_address_with_a_non_ascii_local_part_E2() -> None:
    entry = ("Ayşe", "ayşe@example.com")
    assert mailboxes_field("To", [entry], utf8=True).decode().endswith("<ayşe@example.com>\r\n")
    shown = mailboxes_field("To", [entry, ("", "b@example.com")])
    assert shown.isascii()
    header = email.message_from_bytes(shown + b"\r\n", policy=email.policy.default)["To"]
    assert [group.display_name for group in header.groups if group.display_name] == ["Ayşe ayşe@example.com"]
    assert [entry.addr_spec for entry in header.addresses] == ["b@example.com"]


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("ayse@example.com", "ayse@example.com"),
        ("ayse@çiçek.example", "ayse@xn--iek-1lab.example"),
        ("ayşe@example.com", "ayşe@example.com"),
        ("ayşe@çiçek.example", "ayşe@xn--iek-1lab.example"),
        ("o'brien+tag@mail.example.com", "o'brien+tag@mail.example.com"),
    ],
)
def test_address_as_it_travels_E2(text: str, wire: str) -> None:
    assert wire_address(text) == wire


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nobody",
        "@example.com",
        "a@",
        "a b@example.com",
        "a@example.com\r\nRCPT TO:<b@example.com>",
        "a@example.com> SIZE=1",
        "<a@example.com",
        "a,b@example.com",
        "a@b@example.com",
        '"a"@example.com',
        "a\x00@example.com",
        "a\x85@example.com",
        "a\u2028b@example.com",
        "a@exam ple.com",
        "a@[127.0.0.1]",
        "ş@bad..çiçek",
    ],
)
def test_what_is_no_address_reaches_no_command_and_no_field(text: str) -> None:
    with pytest.raises(InvalidMailError):
        wire_address(text)


# ---------------------------------------------------------------- parameters

FILES = [
    "fatura.pdf",
    "Sipariş Faturası (2026-01).pdf",
    "فاتورة.pdf",
    "חשבונית.pdf",
    "😀.png",
    'a "b".pdf',
    "a;b=c.pdf",
    "a\\b.pdf",
    "100%.pdf",
    "it's.pdf",
    "=?utf-8?q?x=2Eexe?=.pdf",
    "ş" * 196 + ".pdf",
    "a" * 196 + ".pdf",
]


def filename(value: str) -> str | None:
    field = b"Content-Disposition: attachment" + parameter("filename", value) + b"\r\n"
    lines = field.split(b"\r\n")
    assert all(len(line) <= 78 for line in lines)
    assert all(line.startswith(b" ") for line in lines[1:-1])
    return email.message_from_bytes(field + b"\r\n", policy=email.policy.default).get_filename()


@pytest.mark.parametrize("name", FILES)
def test_file_name_is_read_as_it_was_meant(name: str) -> None:
    assert filename(name) == name


@given(TEXT.map(str.strip).filter(bool))
def test_any_file_name_is_read_as_it_was_meant(name: str) -> None:
    """Blanks of all scripts at the ends are left out: the parser strips them from what it has read."""
    assert filename(name) == one_line(name)


def test_no_file_name_can_end_its_field() -> None:
    assert filename('a.pdf"\r\nContent-Type: text/html\r\n\r\n<b>') == 'a.pdf" Content-Type: text/html <b>'
