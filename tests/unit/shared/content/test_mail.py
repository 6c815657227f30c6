"""Hostile values all the way into a mail, and how its reader's programs take it: fields, elements, links."""

import email
import email.policy
import re
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from html.parser import HTMLParser
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.content.check import check_template
from shared.content.render import Renderer
from shared.core.catalogue import NotificationType, Template
from shared.core.ports import Prepared, SenderProfile
from shared.core.reference import DeliveryKey
from shared.providers.email.mime import build
from shared.wire.channel import EMAIL, Category, MessageClass

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
KEY = DeliveryKey(UUID("01890a5d-ac96-774b-bcce-b302099a8057"), "EMAIL", b"k" * 32)
SENDER = SenderProfile("no-reply@shop.example", "Mağaza, A.Ş.")
HARMLESS = "Ayşe"

STRAIGHT = """<html><head><title>{{ v }}</title><style>p { color: red }</style></head><body>
<p title="{{ v }}" class='{{ v }}'>{{ v }}, {{ v|upper }}</p><a href="https://shop.example/?q={{ v }}">{{ v }}</a>
</body></html>"""
LOOPING = STRAIGHT.replace("</body>", "<ul>{% for i in [v, v] %}<li>{{ i }}</li>{% endfor %}</ul></body>")
WRITTEN = {"subject": "Sipariş {{ v }}", "preheader": "{{ v }}", "html": STRAIGHT, "text": "Merhaba {{ v }}\n{{ v }}"}
TEMPLATES = [
    pytest.param(WRITTEN, id="text-as-written"),
    pytest.param({"subject": "{{ v }} x", "html": STRAIGHT}, id="text-made-when-published"),
    pytest.param({"subject": "{{ v }} x", "html": LOOPING}, id="text-made-when-rendered"),
]
FRAGMENTS = [
    *("<>\"'&/= `;\\:\r\n\t\x00\x1b\x0b\u2028\u2029\x85\u202e\ufeff"),
    *("&lt;", "&colon;", "{{", "}}", "{%", "-->", "<!--", "]]>", "</title>", "</style>", "</a>", "<a href="),
    *("<script>", "<img src=x onerror=f()>", "javascript:", "[x](https://evil.example)", "www.evil.example"),
    *("https://evil.example", "http:", "//evil.example", "Bcc: victim@evil.example", "Content-Type: text/html"),
    *("\r\n\r\n", "--=_alternative--", "=?utf-8?q?"),
]
HOSTILE = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))


def published(parts: dict[str, str]) -> Template:
    entry = NotificationType(
        "T", Category.TRANSACTIONAL, MessageClass.TX, ("EMAIL",), timedelta(hours=1), sample={"v": HARMLESS}
    )
    report = check_template(entry, EMAIL, "tr", parts, {}, profile="NONE")
    assert report.errors == ()
    return Template("T", "EMAIL", "tr", 1, report.prepared or parts, report.parameters)


def mail(renderer: Renderer, template: Template, value: str) -> EmailMessage:
    """What is read of the mail that this value makes of a template."""
    content = renderer.render(template, {"v": value})
    prepared = Prepared(KEY, 1, "ayse@example.com", content, MessageClass.TX, NOW + timedelta(hours=1))
    return email.message_from_bytes(build([prepared], SENDER, now=NOW).content, policy=email.policy.default)


class Page(HTMLParser):
    """What a browser sees of a page, but its words."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[object] = []
        self.links: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, [name for name, _ in attrs]))
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_endtag(self, tag: str) -> None:
        self.seen.append(tag)

    def handle_comment(self, data: str) -> None:
        self.seen.append(data)

    def handle_decl(self, decl: str) -> None:
        self.seen.append(decl)

    def handle_pi(self, data: str) -> None:
        self.seen.append(data)


def body(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    text: str = part.get_content()
    return text


@pytest.mark.parametrize("parts", TEMPLATES)
def test_no_value_adds_a_field_a_part_an_element_or_a_link(parts: dict[str, str]) -> None:
    renderer, template = Renderer(), published(parts)
    expected = mail(renderer, template, HARMLESS)

    @given(value=HOSTILE)
    @example(value="")
    @example(value=")https://evil.example")
    @example(value="https&colon;//evil.example, &LTwww.evil.example")
    @example(value="a https://evil.example\r\nBcc: victim@evil.example")
    def holds(value: str) -> None:
        is_the_same(expected, mail(renderer, template, value))

    holds()


def is_the_same(expected: EmailMessage, found: EmailMessage) -> None:
    """But for its words."""
    assert found.keys() == expected.keys()
    assert [part.get_content_type() for part in found.walk()] == [part.get_content_type() for part in expected.walk()]
    assert len(found["subject"].splitlines()) == 1
    page = Page(body(found, "html"))
    assert page.seen == Page(body(expected, "html")).seen
    assert all(link.startswith("https://shop.example/?q=") for link in page.links)
    for kind in ("plain", "html"):
        words = re.sub(r"<[^>]*>", " ", body(found, kind))  # each element has its own
        for link in re.findall(r"[^\s()<>]*(?:\w://|\bwww\.)[^\s()<>]*", words, re.IGNORECASE):
            assert link.startswith("https://shop.example/?q=")
