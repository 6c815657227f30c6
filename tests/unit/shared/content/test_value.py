"""What untrusted values may do to a text: be read, and nothing else."""

from contextlib import suppress
from html.parser import HTMLParser
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.content.filters import Setting
from shared.content.part import compile_part
from shared.content.problem import RenderError

SETTING = Setting("tr", ZoneInfo("Europe/Istanbul"))
FRAGMENTS = [*"<>\"'&/= \n\x00`", "script", "onload", "javascript:", "</a>", "-->"]
HOSTILE = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join))


def rendered(name: str, source: str, value: object) -> str:
    return compile_part(name, source).render({"v": value, "empty": ""}, SETTING)


class Elements(HTMLParser):
    """What a browser would see: elements with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))


@pytest.mark.parametrize("source", ['<p title="{{ v }}">{{ v }}</p>', "<p>{{ v|lower }}</p>"])
@given(value=HOSTILE)
def test_no_value_adds_an_element_or_an_attribute(source: str, value: str) -> None:
    parser = Elements()
    parser.feed(rendered("html", source, value))
    expected = ("title",) if "title" in source else ()
    assert parser.seen == [("p", expected)]


@given(value=HOSTILE)
def test_a_link_begins_with_a_scheme_of_a_link_or_is_refused(value: str) -> None:
    with suppress(RenderError):
        text = rendered("html", '<a href="{{ v }}">x</a>', value)
        assert text.startswith(
            ('<a href=""', '<a href="http://', '<a href="https://', '<a href="mailto:', '<a href="tel:')
        )


TRACKING = "https://kargo.example/98213"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("Ayşe", "Ayşe", id="a-name"),
        pytest.param(TRACKING, "https: //kargo.example/98213", id="a-link-as-a-name"),
        pytest.param("Ayşe https://evil.example", "Ayşe https: //evil.example", id="a-link-in-a-name"),
        pytest.param("SHOPAPP://open", "SHOPAPP: //open", id="any-scheme"),
        pytest.param("see www.evil.example", "see www .evil.example", id="www"),
        pytest.param("ht\x00tps://evil.example", "https: //evil.example", id="a-link-behind-what-is-left-out"),
        pytest.param("12:30, a:b", "12:30, a:b", id="colons"),
        pytest.param("a\x00b\x1bc", "abc", id="controls"),
        pytest.param("abc\u202egpj.exe", "abcgpj.exe", id="bidi-override"),
        pytest.param("می\u200cخواهم", "می\u200cخواهم", id="persian-joiner"),
        pytest.param("👩\u200d💻", "👩\u200d💻", id="emoji-joiner"),
        pytest.param("iki\nsatır", "iki\nsatır", id="line-break-of-a-text"),
        pytest.param(7, "7", id="number"),
    ],
)
@pytest.mark.parametrize("part", ["text", "html"])
def test_values_among_words(part: str, value: object, expected: str) -> None:
    assert rendered(part, "<p>{{ v }}</p>", value) == f"<p>{expected}</p>"
    assert rendered(part, "{% if true %}<p>{{ v }}</p>{% endif %}", value) == f"<p>{expected}</p>"


@pytest.mark.parametrize(
    ("part", "source", "expected"),
    [
        pytest.param("text", "{{ trackingUrl }}", TRACKING, id="its-name-says-so"),
        pytest.param("text", "{{ order.link }}", TRACKING, id="so-does-an-attribute"),
        pytest.param("text", "{{ order['invoice_url'] }}", TRACKING, id="or-an-item"),
        pytest.param("text", "{{ trackingUrl|default('-') }}", TRACKING, id="with-a-default"),
        pytest.param("text", "{{ trackingUrl if v else '-' }}", TRACKING, id="or-something-else"),
        pytest.param("text", "{{ v|url }}", TRACKING, id="the-author-says-so"),
        pytest.param("html", "<p>{{ v|url }}</p>", f"<p>{TRACKING}</p>", id="in-html"),
        pytest.param("html", '<p title="{{ v }}">', f'<p title="{TRACKING}">', id="an-attribute-is-no-text"),
        pytest.param("url", "shopapp://open?u={{ v }}", f"shopapp://open?u={TRACKING}", id="within-a-link"),
        pytest.param("data.to", "{{ v }}", TRACKING, id="an-apps-data"),
        pytest.param("text", "{{ v|upper }}", "HTTPS: //KARGO.EXAMPLE/98213", id="any-other-filter"),
        pytest.param(
            "text", "{{ trackingUrl }}{{ v }}", f"{TRACKING}https: //kargo.example/98213", id="each-by-itself"
        ),
    ],
)
def test_a_link_is_what_is_called_one(part: str, source: str, expected: str) -> None:
    params = {"v": TRACKING, "trackingUrl": TRACKING, "order": {"link": TRACKING, "invoice_url": TRACKING}}
    assert compile_part(part, source).render(params, SETTING) == expected


def test_what_is_called_a_link_and_is_more_is_broken() -> None:
    part = compile_part("text", "{{ trackingUrl }}")
    assert part.render({"trackingUrl": f"see {TRACKING}"}, SETTING) == "see https: //kargo.example/98213"


@pytest.mark.parametrize("cut", range(len("https://evil.example")))
def test_two_values_side_by_side_make_no_link_of_words(cut: int) -> None:
    params = {"a": "https://evil.example"[:cut], "b": "https://evil.example"[cut:]}
    assert "://" not in compile_part("text", "{{ a }}{{ b }}").render(params, SETTING)


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
@pytest.mark.parametrize("source", ["{{ v }}", "{{ v }}{{ '' }}", "{{ [v]|join }}"])
@pytest.mark.parametrize("part", ["text", "html", "data.x"])
def test_what_has_no_text_is_not_told(part: str, source: str, value: object) -> None:
    with pytest.raises(RenderError, match="use default, a loop or join"):
        rendered(part, source, value)


@pytest.mark.parametrize("value", ["javascript:alert(1)", " JAVASCRIPT:x", "data:text/html,x", "//evil.example", "/x"])
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("html", '<a href="{{ v }}">x</a>'),
        ("html", '<a href=" {{ v|trim }}">x</a>'),
        ("html", '{% if v %}<img src="{{ v }}">{% endif %}'),
        ("html", '<img alt="x" srcset="{{ v }}">'),
        ("html", '<a href="{{ empty }}{{ v }}">x</a>'),
        ("html", '<a href="{{ empty }} {{ empty }}\n{{ v }}">x</a>'),
        ("url", "{{ empty }} {{ v }}"),
        ("url", "{{ v }}"),
        ("url", "{% if v %}{{ v }}{% endif %}"),
    ],
)
def test_schemes_that_act_are_refused_wherever_a_link_begins(name: str, source: str, value: str) -> None:
    with pytest.raises(RenderError, match="must begin with https") as caught:
        rendered(name, source, value)
    assert value.strip() not in str(caught.value)


def test_a_link_that_the_author_begins_takes_any_value() -> None:
    assert rendered("url", "shopapp://orders/{{ v }}", "98213") == "shopapp://orders/98213"
    assert rendered("html", '<a href="https://shop.example/{{ v }}">x</a>', "a b").startswith('<a href="https://shop')


def test_values_may_make_a_link_together() -> None:
    part = compile_part("html", '<a href="{{ base }}{{ path }}">x</a>')
    rendered_link = part.render({"base": "https://shop.example", "path": "/a?b=1&c"}, SETTING)
    assert rendered_link == '<a href="https://shop.example/a?b=1&amp;c">x</a>'
