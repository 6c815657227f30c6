"""Values in a language. Expected texts are those of CLDR, written by hand."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared.content.filters import Setting
from shared.content.part import compile_part
from shared.content.problem import RenderError

NBSP, NNBSP = "\u00a0", "\u202f"


def rendered(source: str, value: Any, locale: str = "tr", zone: str = "Europe/Istanbul") -> str:
    return compile_part("text", source).render({"v": value}, Setting(locale, ZoneInfo(zone)))


@pytest.mark.parametrize(
    ("source", "value", "locale", "expected"),
    [
        pytest.param('{{ v|money("TRY") }}', "1499.90", "tr", "₺1.499,90", id="lira"),
        pytest.param('{{ v|money("TRY") }}', 1499.9, "tr-TR", "₺1.499,90", id="a-float-as-well"),
        pytest.param('{{ v|money("EUR") }}', "1499.90", "de", f"1.499,90{NBSP}€", id="euro"),
        pytest.param('{{ v|money("JPY") }}', "1500", "en", "¥1,500", id="yen-has-no-decimals"),
        pytest.param("{{ v|number }}", 1234567.5, "tr", "1.234.567,5", id="number"),
        pytest.param("{{ v|number(2) }}", "3", "en", "3.00", id="decimals"),
        pytest.param("{{ v|percent }}", 30, "tr", "%30", id="per-cent-comes-first-in-turkish"),
        pytest.param("{{ v|percent }}", 30, "en", "30%", id="per-cent"),
        pytest.param("{{ v|date }}", "2026-11-11", "tr", "11 Kasım 2026", id="date"),
        pytest.param("{{ v|date('short') }}", "2026-11-11", "en", "11/11/26", id="short-date"),
        pytest.param("{{ v|time }}", "2026-11-11T10:00:00Z", "tr", "13:00", id="time-where-the-reader-lives"),
        pytest.param("{{ v|datetime }}", "2026-11-11T10:00:00Z", "tr", "11 Kasım 2026 13:00", id="day-and-time"),
        pytest.param(
            "{{ v|datetime }}", "2026-11-11T10:00:00Z", "en", f"November 11, 2026, 1:00{NNBSP}PM", id="in-english"
        ),
        pytest.param("{{ v|date }}", "2026-11-11T22:30:00Z", "tr", "12 Kasım 2026", id="the-day-there"),
        pytest.param('{{ v|plural(one="# gün", other="# gün") }}', 3, "tr", "3 gün", id="turkish-plural"),
        pytest.param('{{ v|plural(one="# item", other="# items") }}', 1, "en", "1 item", id="one"),
        pytest.param('{{ v|plural(one="# item", other="# items") }}', 1200, "en", "1,200 items", id="many"),
        pytest.param(
            '{{ v|plural(one="# файл", few="# файла", many="# файлов", other="# файла") }}',
            5,
            "ru",
            "5 файлов",
            id="ru",
        ),
        pytest.param("{{ v|number }}", 1.5, "xx-YY", "1.5", id="a-language-that-cldr-does-not-know"),
    ],
)
def test_in_a_language(source: str, value: Any, locale: str, expected: str) -> None:
    assert rendered(source, value, locale) == expected


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param('{{ v|money("TRY") }}', "482913 secret", id="not-a-number"),
        pytest.param('{{ v|money("lira") }}', "1", id="not-a-currency"),
        pytest.param("{{ v|number }}", "1e999999", id="too-large"),
        pytest.param("{{ v|number(99) }}", 1, id="too-many-decimals"),
        pytest.param("{{ v|number }}", True, id="a-boolean"),
        pytest.param("{{ v|number }}", "NaN", id="nan"),
        pytest.param("{{ v|date }}", "secret", id="not-a-date"),
        pytest.param("{{ v|time }}", "2026-11-11T10:00:00", id="without-offset"),
        pytest.param("{{ v|date('huge') }}", "2026-11-11", id="no-such-style"),
        pytest.param("{{ v|plural(one='x') }}", 1, id="other-is-missing"),
    ],
)
def test_what_does_not_fit_fails_without_its_value(source: str, value: Any) -> None:
    with pytest.raises(RenderError) as caught:
        rendered(source, value)
    assert "secret" not in str(caught.value)
