"""In which language a caller wants to be told: `?lang=`, else Accept-Language (RFC 9110 section 12.5.4). Pure."""

from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import Header, Query

from shared.decision.wording import Language

Lang = Annotated[Language | None, Query(description="Language of the sentences; goes before Accept-Language.")]
AcceptLanguage = Annotated[str | None, Header()]

_LANGUAGES: Final = {str(language): language for language in Language}


def chosen(lang: Language | None, accept_language: str | None) -> Language:
    """The language asked for; English where none is, or none that there are words in."""
    if lang is not None:
        return lang
    ranges = sorted(_ranges(accept_language or ""), key=lambda weighed: -weighed[1])
    wanted = (_LANGUAGES.get(tag.partition("-")[0].lower()) for tag, weight in ranges if weight > 0)
    return next((language for language in wanted if language is not None), Language.ENGLISH)


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    """Language tags with their weights; what cannot be read is left out, as a header is only a wish."""
    for part in header.split(","):
        tag, _, weight = part.partition(";")
        _, _, value = weight.partition("=")
        try:
            yield tag.strip(), float(value) if weight else 1.0
        except ValueError:
            continue
