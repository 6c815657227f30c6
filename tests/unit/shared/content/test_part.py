"""The short way for parts that are text with names in it says what Jinja would say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, StrictUndefined

from shared.content.part import compile_part
from shared.content.problem import RenderError

VALUES = st.one_of(
    *(st.text(max_size=20), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()),
    st.lists(st.text(max_size=3), max_size=3),
)
PIECES = ("{{ a }}", "{{ b }}", "{{- a }}", "{{ b -}}", "<b>", " ", "\n", "ığüşöçİ", "{# gone #}")
SOURCES = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@pytest.mark.parametrize("name", ["text", "html"])
@given(source=SOURCES, a=VALUES, b=VALUES)
def test_it_is_what_jinja_makes_of_it(name: str, source: str, a: object, b: object) -> None:
    jinja = Environment(autoescape=name == "html", undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    assert compile_part(name, source).render({"a": a, "b": b}) == jinja.from_string(source).render(a=a, b=b)


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(RenderError, match="text: 'a' is undefined"):
        compile_part("text", "x{{ a }}").render({})
