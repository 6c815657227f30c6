"""Rendering: what authors may write, what requests must bring, and what neither can do to the process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.content.problem import InvalidTemplateError, MissingParametersError, RenderError
from shared.content.render import Renderer, check_parts
from shared.core.catalogue import Template
from shared.wire.channel import EMAIL, PUSH, SMS, ChannelSpec


def template(channel: ChannelSpec, parts: dict[str, str], version: int = 1) -> Template:
    return Template("ORDER_SHIPPED", channel.name, "tr", version, parts, check_parts(channel, parts))


def email(text: str, *, subject: str = "Konu", html: str | None = None) -> Template:
    parts = {"subject": subject, "text": text} | ({} if html is None else {"html": html})
    return template(EMAIL, parts)


def text_of(source: str, **params: object) -> str:
    return Renderer().render(template(SMS, {"text": source}), params)["text"]


def test_turkish_text_comes_out_as_written() -> None:
    source = "{{ ad }}, {{ orderNo }} numaralı siparişiniz yola çıktı. Şıkır şıkır İĞÜŞÖÇ"
    assert text_of(source, ad="Ayşe", orderNo=98213) == (
        "Ayşe, 98213 numaralı siparişiniz yola çıktı. Şıkır şıkır İĞÜŞÖÇ"
    )


def test_a_value_that_looks_like_a_template_stays_literal_J1() -> None:
    assert text_of("Merhaba {{ ad }}", ad="{{7*7}}{% raw %}") == "Merhaba {{7*7}}{% raw %}"


def test_escaping_follows_the_part_J2() -> None:
    content = Renderer().render(email("{{ ad }}", subject="{{ ad }}", html="<b>{{ ad }}</b>"), {"ad": "<script>&'\""})
    assert content == {
        "subject": "<script>&'\"",
        "text": "<script>&'\"",
        "html": "<b>&lt;script&gt;&amp;&#39;&#34;</b>",
    }


def test_missing_parameters_are_all_named_before_rendering_J3() -> None:
    with pytest.raises(MissingParametersError) as caught:
        Renderer().render(email("{{ carrier }}", subject="{{ orderNo }} {{ trackingUrl }}"), {"orderNo": "1"})
    assert caught.value.names == ("carrier", "trackingUrl")


def test_a_missing_attribute_fails_and_is_named_J3() -> None:
    with pytest.raises(RenderError, match="has no attribute 'no'"):
        text_of("{{ order.no }}", order={})


@pytest.mark.parametrize(
    ("source", "required"),
    [
        pytest.param("{{ orderNo }} {{ carrier|upper }}", {"orderNo", "carrier"}, id="names"),
        pytest.param("{{ order.no }} {{ order['date'] }}", {"order"}, id="top-level-of-attributes"),
        pytest.param("{% for item in items %}{{ item.name }} {{ loop.index }}{% endfor %}", {"items"}, id="loop"),
        pytest.param("{% set total = price * 2 %}{{ total }}", {"price"}, id="assigned"),
        pytest.param("a{{ note|default('') }}", set(), id="default"),
        pytest.param("a{{ note|default('') }}{{ note }}", {"note"}, id="default-once-but-not-always"),
        pytest.param("a{% if note is defined %}{{ note }}{% endif %}", set(), id="tested"),
        pytest.param("a{% if vip %}{{ gift }}{% endif %}", {"vip", "gift"}, id="both-arms-count"),
        pytest.param("{% for k, v in a|items %}{{ [k, v]|join(': ') }}{% endfor %}", {"a"}, id="pairs"),
        pytest.param("{% if state in ('PAID', 'SENT') %}x{% endif %}", {"state"}, id="constants"),
        pytest.param("{% set known = ['a', 'b'] %}{{ known|join }}{{ c }}", {"c"}, id="constants-with-a-name"),
    ],
)
def test_parameters(source: str, required: set[str]) -> None:
    assert check_parts(SMS, {"text": source}) == required


@pytest.mark.parametrize(
    ("channel", "parts", "message"),
    [
        pytest.param(EMAIL, {"subject": "a"}, "text: EMAIL needs this part", id="required"),
        pytest.param(SMS, {"text": "  "}, "text: SMS needs this part", id="blank"),
        pytest.param(PUSH, {"title": "a", "body": "b", "icon": "c"}, "icon: PUSH has no such part", id="unknown"),
        pytest.param(SMS, {"text": "a\n{{ b"}, "text, line 2: ", id="syntax-with-line"),
        pytest.param(SMS, {"text": "{{ a|attr('format') }}"}, "No filter named 'attr'", id="attr-J1"),
        pytest.param(EMAIL, {"subject": "a", "text": "b", "html": "{{ a|safe }}"}, "No filter named 'safe'", id="safe"),
        pytest.param(SMS, {"text": "{{ ''.__class__ }}"}, "begin with an underscore", id="dunder"),
        pytest.param(SMS, {"text": "{{ _budget }}"}, "begin with an underscore", id="internal-name"),
        pytest.param(SMS, {"text": "{% for i in range(10**9) %}x{% endfor %}"}, "cannot be called", id="range-J4"),
        pytest.param(SMS, {"text": "{{ '{:999999999}'.format(1) }}"}, "cannot be called", id="format-method-J4"),
        pytest.param(SMS, {"text": "{{ a ~ a }}"}, "`~` is not available", id="concat-J4"),
        pytest.param(SMS, {"text": "{{ 9**9**9 }}"}, r"`\*\*` is not available", id="power-J4"),
        pytest.param(SMS, {"text": "{% set a %}x{% endset %}"}, "block assignment", id="block-set-J4"),
        pytest.param(SMS, {"text": "{% macro m() %}x{% endmacro %}"}, "macros", id="macro"),
        pytest.param(SMS, {"text": "{% include 'x' %}"}, "includes", id="include"),
        pytest.param(SMS, {"text": "{% set a = [b, b] %}{{ a }}"}, "cannot be assigned", id="kept-list-J4"),
        pytest.param(SMS, {"text": "{{ [[b], [b]] }}"}, "constants only", id="list-of-lists-J4"),
        pytest.param(SMS, {"text": "{{ {b: 1} }}"}, "must be constants", id="object-of-names-J4"),
        pytest.param(SMS, {"text": "{{ [" + "b," * 101 + "] }}"}, "more than 100 items", id="long-list-J4"),
        pytest.param(SMS, {"text": "{{ a|center(999999999) }}"}, "No filter named 'center'", id="center-J4"),
        pytest.param(SMS, {"text": "{{" + "(" * 5000 + "1" + ")" * 5000 + "}}"}, "nested too deeply", id="deep"),
        pytest.param(SMS, {"text": "{% if a %}x{% endif %}" * 2_000}, "more than 4000", id="nodes-J4"),
        pytest.param(SMS, {"text": "x" * 300_000}, "longer than 262144", id="source-size"),
    ],
)
def test_a_source_is_refused_with_its_place(channel: ChannelSpec, parts: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidTemplateError, match=message):
        check_parts(channel, parts)


def test_a_part_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidTemplateError, match="title: not a text: put it in quotes"):
        check_parts(PUSH, {"title": 5, "body": "b"})  # type: ignore[dict-item]  # as YAML gives it


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidTemplateError) as caught:
        check_parts(EMAIL, {"subject": "{{ a", "text": "{{ b|safe }}", "footer": "c"})
    assert [problem.part for problem in caught.value.problems] == ["footer", "subject", "text"]


@pytest.mark.parametrize(
    ("source", "params"),
    [
        pytest.param("{{ 'x' * 1000000000 }}", {}, id="text-times-number"),
        pytest.param("{{ n * 'x' }}", {"n": 10**9}, id="number-times-text"),
        pytest.param("{{ [1] * n }}", {"n": 10**9}, id="list-times-number"),
        pytest.param("{{ '%1000000000d' % 1 }}", {}, id="format-operator"),
        pytest.param("{% set a = s + s %}{% set b = a + a %}{{ b }}", {"s": "x" * 100_000}, id="doubling"),
        pytest.param(
            "{% for a in s %}{% for b in s %}{% for c in s %}{% endfor %}{% endfor %}{% endfor %}.",
            {"s": list(range(1000))},
            id="nested-loops",
        ),
        pytest.param("{% for a in s %}{{ t }}{% endfor %}", {"s": list(range(9000)), "t": "x" * 100}, id="output"),
        pytest.param("{{ s|replace('x', s) }}", {"s": "x" * 100_000}, id="replace"),
        pytest.param("{{ s|join(t) }}", {"s": list(range(10_000)), "t": "x" * 10_000}, id="join"),
        pytest.param("{{ n * n }}", {"n": 10**17}, id="huge-number"),
        pytest.param("{{ s }}" * 300, {"s": "x" * 100_000}, id="output-of-names-alone"),
        pytest.param("{{ l + l }}", {"l": ["x"]}, id="lists-added"),
        pytest.param("x" + "{% set t = s|title %}" * 200, {"s": "ab " * 80_000}, id="filters-over-much"),
        pytest.param(
            "x{% for a in l %}" + "{% if n|money('TRY') %}{% endif %}" * 50 + "{% endfor %}",
            {"l": list(range(9_000)), "n": 1},
            id="filters-in-a-loop",
        ),
        pytest.param(
            "x{% for a in l %}" + "{% if n %}{% endif %}" * 500 + "{% endfor %}",
            {"l": list(range(9_000)), "n": 1},
            id="much-in-a-loop",
        ),
        pytest.param(
            "x{% for a in l %}" + "{% if 'b' in s %}{% endif %}" * 10 + "{% endfor %}",
            {"l": list(range(9_000)), "s": "a" * 200_000},
            id="searches-in-a-loop",
        ),
    ],
)
def test_output_and_work_are_bounded_J4(source: str, params: dict[str, object]) -> None:
    with pytest.raises(RenderError):
        text_of(source, **params)


def test_an_order_of_a_thousand_lines_is_within_all_bounds_J4() -> None:
    row = "<tr><td>{{ i.name|title }}</td><td>{{ i.n|number }}</td><td>{{ i.price|money('TRY') }}</td></tr>"
    source = "<table>{% for i in items if i.n > 0 %}" + row + "{% endfor %}</table>"
    items = [{"name": "kahve makinesi", "n": 1, "price": "1499.90"}] * 1000
    content = Renderer().render(email("x", html=source), {"items": items})
    assert content["html"].count("<td>Kahve Makinesi</td><td>1</td><td>₺1.499,90</td>") == 1000


def test_a_wrong_value_is_refused_without_being_repeated() -> None:
    with pytest.raises(RenderError, match="text: a value does not fit its use") as caught:
        text_of("{{ code + 1 }}", code="482913")
    assert "482913" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_line_break_in_a_parameter_cannot_start_a_header() -> None:
    content = Renderer().render(email("x", subject="Sipariş {{ no }}"), {"no": "1\r\nBcc: a@example.com"})
    assert content["subject"] == "Sipariş 1 Bcc: a@example.com"


@pytest.mark.parametrize(
    ("spec", "parts", "params", "message"),
    [
        pytest.param(SMS, {"text": "{% if a %}x{% endif %}"}, {"a": False}, "text: comes out empty", id="empty"),
        pytest.param(SMS, {"text": "{{ a }}"}, {"a": "x" * 1601}, "longer than 1600", id="sms-too-long"),
        pytest.param(PUSH, {"title": "a", "body": "{{ a }}"}, {"a": "ş" * 1750}, "3500 bytes", id="push-bytes"),
        pytest.param(PUSH, {"title": "a", "body": "{{ a }}"}, {"a": '"' * 1750}, "3500 bytes", id="push-escapes"),
        pytest.param(
            PUSH,
            {"title": "a", "body": "b"} | {f"data.{'n' * 60}{number}": "x" for number in range(60)},
            {},
            "3500 bytes",
            id="push-names-of-data",
        ),
        pytest.param(
            PUSH,
            {"title": "a", "body": "b", "url": "{{ u }}"},
            {"u": "JavaScript:alert(1)"},
            "must begin with https",
            id="scheme",
        ),
    ],
)
def test_what_a_channel_does_not_take(
    spec: ChannelSpec, parts: dict[str, str], params: dict[str, object], message: str
) -> None:
    with pytest.raises(RenderError, match=message):
        Renderer().render(template(spec, parts), params)


def test_an_empty_optional_field_is_left_out() -> None:
    push = template(PUSH, {"title": "a", "body": "b", "url": "{{ url|default('') }}"})
    assert Renderer().render(push, {}) == {"title": "a", "body": "b"}


def test_a_required_field_that_comes_out_empty_is_an_error() -> None:
    with pytest.raises(RenderError, match="subject: comes out empty"):
        Renderer().render(email("x", subject="{% if a %}x{% endif %}"), {"a": False})


def test_a_new_version_is_not_served_from_the_cache() -> None:
    renderer = Renderer()
    assert renderer.render(template(SMS, {"text": "eski"}, 1), {}) == {"text": "eski"}
    assert renderer.render(template(SMS, {"text": "yeni"}, 2), {}) == {"text": "yeni"}


@pytest.mark.parametrize("html", ["{% if a %}<p>x</p>{% endif %}", "<!-- x -->{% if a %}{% endif %}"])
def test_html_that_comes_out_empty_is_an_error_and_no_crash(html: str) -> None:
    mail = template(EMAIL, {"subject": "s", "html": html})
    with pytest.raises(RenderError, match="text: comes out empty"):
        Renderer().render(mail, {"a": False})


@given(value=st.text(max_size=200))
def test_no_text_can_open_a_tag_in_html(value: str) -> None:
    if "\x00" in value:
        return
    content = Renderer().render(email("x", html="<p>{{ value }}</p>"), {"value": value})
    assert content["html"].count("<") == 2
