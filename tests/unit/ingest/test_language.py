"""Which language is asked for (RFC 9110 section 12.5.4)."""

import pytest

from services.ingest.language import chosen
from shared.decision.wording import Language

ENGLISH, TURKISH = Language.ENGLISH, Language.TURKISH


@pytest.mark.parametrize(
    ("lang", "header", "language"),
    [
        pytest.param(None, None, ENGLISH, id="nothing-said"),
        pytest.param(None, "tr", TURKISH, id="turkish"),
        pytest.param(None, "tr-TR", TURKISH, id="of-turkey"),
        pytest.param(None, "TR-tr,en;q=0.5", TURKISH, id="in-any-case"),
        pytest.param(None, "en;q=0.5, tr;q=0.9", TURKISH, id="by-weight"),
        pytest.param(None, "de, tr;q=0.3", TURKISH, id="the-first-that-there-is"),
        pytest.param(None, "de-DE", ENGLISH, id="none-that-there-is"),
        pytest.param(None, "tr;q=0, en", ENGLISH, id="anything-but"),
        pytest.param(None, "tr;q=much, ,;;=", ENGLISH, id="nonsense"),
        pytest.param(None, "*", ENGLISH, id="any"),
        pytest.param(TURKISH, "en", TURKISH, id="the-parameter-goes-before-the-header"),
        pytest.param(ENGLISH, "tr", ENGLISH, id="in-both-directions"),
    ],
)
def test_languages(lang: Language | None, header: str | None, language: Language) -> None:
    assert chosen(lang, header) is language
