"""Preparation, once at publishing: styles in the elements, a preheader, a text; and every expression as it was."""

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.content.filters import Setting
from shared.content.part import compile_part
from shared.content.prepare import prepared_parts, text_of_html

SETTING = Setting("tr", ZoneInfo("Europe/Istanbul"))
STYLED = "<html><head><style>p { color: red }</style></head><body>{}</body></html>"


def prepared(**parts: str) -> dict[str, str]:
    found = prepared_parts("EMAIL", {"subject": "s", **parts})
    assert found is not None
    return found


def filled(html: str, **params: object) -> str:
    return compile_part("html", html).render(params, SETTING)


def test_styles_go_into_the_elements_and_media_queries_stay() -> None:
    style = "<style>p { color: red } @media (max-width: 600px) { p { color: blue } }</style>"
    html = prepared(html=f"<html><head>{style}</head><body><p>x</p></body></html>", text="x")["html"]
    assert '<p style="color: red;">x</p>' in html
    assert "@media" in html


def test_expressions_and_statements_go_through_untouched() -> None:
    inner = (
        '<p title="{{ a }}">{{ a|upper }}</p>'
        "<table>{% for i in items %}<tr><td>{{ i }}</td></tr>{% endfor %}</table>"
        '{% if n < 2 and a > "x" %}<p>&amp;</p>{% endif %}'
    )
    html = prepared(html=STYLED.replace("{}", inner), text="x")["html"]
    out = filled(html, a="<b>y", items=["1", "2", "3"], n=1)
    assert '<p title="&lt;b&gt;y" style="color: red;">&lt;B&gt;Y</p>' in out
    assert [out.count(f"<td>{item}</td>") for item in "123"] == [1, 1, 1]
    assert filled(html, a="a", items=[], n=5).count("&amp;") == 0


def test_a_style_sheet_of_elsewhere_is_not_fetched() -> None:
    linked = '<link rel="stylesheet" href="http://127.0.0.1:1/x.css">'
    html = prepared(html=STYLED.replace("</head>", f"{linked}</head>").replace("{}", "<p>x</p>"), text="x")["html"]
    assert '<p style="color: red;">' in html


def test_the_preheader_stands_hidden_and_escaped_at_the_top() -> None:
    parts = prepared(html="<html><body class='a'><p>{{ b }}</p></body></html>", preheader="1 < 2 {{ v }}", text="x")
    assert "preheader" not in parts
    out = filled(parts["html"], b="b", v="<i>")
    assert out.startswith("<html><body class='a'><div style=\"display:none")
    assert "1 &lt; 2 &lt;i&gt;</div><p>b</p>" in out


@pytest.mark.parametrize(
    ("html", "text"),
    [
        pytest.param("<p>Merhaba {{ name }},</p><p>a &amp; b</p>", "Merhaba {{ name }},\n\na & b", id="paragraphs"),
        pytest.param('<a href="{{ url }}">takip</a>', "takip ({{ (url)|url }})", id="link"),
        pytest.param('<a href="{{ a or b }}">x</a>', "x ({{ (a or b)|url }})", id="link-of-an-expression"),
        pytest.param('<a href="https://a.example/{{ a }}">x</a>', "x (https://a.example/{{ a }})", id="own-link"),
        pytest.param("<p>&amp;lt;b&amp;gt; &lt;b&gt; &copy;</p>", "&lt;b&gt; <b> ©", id="entities-once"),
        pytest.param('<img src="x" alt="a &amp;amp; b">', "[a &amp; b]", id="entities-of-an-image"),
        pytest.param("<!-- nothing -->", "", id="nothing"),
        pytest.param('<?xml version="1.0" encoding="utf-8"?><html><body>x</body></html>', "x", id="xhtml"),
        pytest.param('<a href="https://a.example">https://a.example</a>', "https://a.example", id="link-as-its-words"),
        pytest.param("<head><style>p {}</style></head><p>x</p>", "x", id="no-styles"),
        pytest.param("<ul><li>{{ a }}</li><li>b</li></ul>", "* {{ a }}\n  * b", id="list"),
        pytest.param("<table><tr><td>{{ a }}</td><td>2</td></tr></table>", "{{ a }}  2", id="table"),
    ],
)
def test_text_is_made_of_html_where_there_is_none(html: str, text: str) -> None:
    assert prepared(html=html)["text"] == text


def test_html_with_statements_gives_its_text_when_it_is_rendered() -> None:
    html = "<table>{% for i in items %}<tr><td>{{ i }}</td></tr>{% endfor %}</table>"
    assert prepared_parts("EMAIL", {"subject": "s", "html": html}) is None
    assert text_of_html(filled(html, items=["1", "2"])) == "1\n2"


def test_html_with_values_that_are_escaped_twice_gives_its_text_when_it_is_rendered() -> None:
    assert prepared_parts("EMAIL", {"subject": "s", "html": "<p>{{ a|e }}</p>"}) is None
    assert text_of_html(filled("<p>{{ a|e }}</p>", a="1 < 2")) == "1 < 2"


@pytest.mark.parametrize(
    ("channel", "parts"),
    [
        ("EMAIL", {"subject": "s", "text": "t"}),
        ("EMAIL", {"subject": "s", "text": "t", "html": "<p>{{ a }}</p>"}),
        ("PUSH", {"title": "t", "body": "b"}),
    ],
)
def test_what_needs_nothing_stays_as_it_was_written(channel: str, parts: dict[str, str]) -> None:
    assert prepared_parts(channel, parts) is None


@given(
    st.lists(
        st.sampled_from(
            ["<p>", "</p>", "{{ a }}", "{{ b|upper }}", "x", " ", "&amp;", "<br>", "{% if a %}y{% endif %}"]
        ),
        max_size=12,
    ).map("".join)
)
def test_whatever_stands_in_the_body_says_the_same_afterwards(body: str) -> None:
    html = STYLED.replace("{}", body)
    parts = {"subject": "s", "text": "x", "html": html}
    after = (prepared_parts("EMAIL", parts) or parts)["html"]
    params = {"a": "<1>", "b": "ş"}
    # Tags that do not match are mended on the way, which may move a line break and nothing else.
    before_and_after = [text_of_html(filled(source, **params)).split() for source in (html, after)]
    assert "".join(before_and_after[0]) == "".join(before_and_after[1])
