"""The short way for parts that are text with names in it says what Jinja would say."""

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, StrictUndefined

from shared.content.filters import Setting
from shared.content.part import compile_part
from shared.content.problem import RenderError
from shared.content.value import told

SETTING = Setting("tr", ZoneInfo("Europe/Istanbul"))
VALUES = st.one_of(
    *(st.text(max_size=20), st.integers(), st.floats(allow_nan=False), st.booleans()),
    st.lists(st.sampled_from(["https:", "//", "www", ".x", "<b>", "a", "\n", "\u202e"]), max_size=5).map("".join),
)
PIECES = ("{{ a }}", "{{ b }}", "{{- a }}", "{{ b -}}", "<b>", " ", "\n", "ığüşöçİ", "{# gone #}")
SOURCES = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@pytest.mark.parametrize("name", ["text", "html"])
@given(source=SOURCES, a=VALUES, b=VALUES)
def test_it_is_what_jinja_makes_of_it(name: str, source: str, a: object, b: object) -> None:
    jinja = Environment(autoescape=name == "html", undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    cleaned = {"a": told(a), "b": told(b)}
    for written in (source, source + "{{ '' }}"):  # the short way, and the long one
        expected = jinja.from_string(written).render(cleaned)
        assert compile_part(name, written).render({"a": a, "b": b}, SETTING) == expected


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(RenderError, match="text: 'a' is undefined"):
        compile_part("text", "x{{ a }}").render({}, SETTING)
