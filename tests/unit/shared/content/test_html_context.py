"""Where a value may stand in HTML, and where it would act."""

import pytest

from shared.content.part import parse_part
from shared.content.problem import InvalidTemplateError


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("<p>{{ a }}</p>", id="text"),
        pytest.param('<a href="{{ url }}">{{ a }}</a>', id="quoted-attribute"),
        pytest.param("<td align='{{ a }}'>{{ b }}</td>", id="single-quotes"),
        pytest.param('<img alt="" src="{{ u }}?x={{ y }}">', id="two-in-one-attribute"),
        pytest.param("{% if a %}<b>{{ a }}</b>{% else %}<i>-</i>{% endif %}", id="statements-around-elements"),
        pytest.param("<table>{% for i in items %}<tr><td>{{ i }}</td></tr>{% endfor %}</table>", id="rows"),
        pytest.param("<style>p { color: red }</style><p>{{ a }}</p>", id="after-a-style"),
        pytest.param("<!-- a note --><p>{{ a }}</p>", id="after-a-comment"),
        pytest.param("<p>1 < 2 {{ a }}</p>", id="less-than"),
        pytest.param('<p title="a>b">{{ a }}</p>', id="greater-than-in-an-attribute"),
        pytest.param("<td width=5>{{ a }}</td>", id="an-unquoted-attribute-of-the-authors"),
        pytest.param("<br/>{{ a }}", id="self-closing"),
        pytest.param("<!DOCTYPE html><html><head><title>{{ a }}</title></head></html>", id="title"),
    ],
)
def test_may_stand(source: str) -> None:
    parse_part("html", source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("<a href={{ u }}>", "must stand in quotes", id="unquoted"),
        pytest.param('<a class="b" href={{ u }}>', "must stand in quotes", id="unquoted-after-quoted"),
        pytest.param("<a {{ x }}>", "must stand in quotes", id="attribute-name"),
        pytest.param('<a {{ x }}="1">', "must stand in quotes", id="attribute-name-with-a-value"),
        pytest.param("<{{ t }}>", "must stand in quotes", id="element-name"),
        pytest.param("</{{ t }}>", "must stand in quotes", id="end-tag-name"),
        pytest.param("<p{{ t }}>", "must stand in quotes", id="rest-of-an-element-name"),
        pytest.param("<style>p { color: {{ c }} }</style>", "within <style>", id="style-element"),
        pytest.param('<p style="color: {{ c }}">', "within style", id="style-attribute"),
        pytest.param('<p onclick="f({{ c }})">', "within onclick", id="event"),
        pytest.param('<p OnMouseOver = "{{ c }}">', "within onmouseover", id="event-in-any-case"),
        pytest.param("<!-- {{ a }} -->", "within a comment", id="comment"),
        pytest.param('<p class="a {% if b %}c{% endif %}">', "statement may not stand within a tag", id="statement"),
        pytest.param("<script>1</script>", "<script> is not for mails", id="script"),
        pytest.param('<FORM action="x">', "<form> is not for mails", id="form"),
        pytest.param('<base href="https://x.example">', "<base> is not for mails", id="base"),
    ],
)
def test_may_not_stand(source: str, said: str) -> None:
    with pytest.raises(InvalidTemplateError, match=said):
        parse_part("html", source)
