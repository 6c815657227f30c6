"""What a country demands of a marketing message, as data: who sends it, and how it is refused."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from shared.content.prepare import text_of_html
from shared.content.problem import TemplateProblem
from shared.core.unsubscribe import EXAMPLE, PARAMETER


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that a reader must find in a message of a channel. pattern: what it looks like once the sample is
    filled in. source: the rule.
    """

    channel: str
    pattern: re.Pattern[str]
    message: str
    source: str


_LINK: Final = re.escape(EXAMPLE)
_WAY_OUT_OF_MAIL: Final = f"give a way to refuse: {{{{ {PARAMETER} }}}} must stand in the message"

PROFILES: Final[Mapping[str, tuple[Demand, ...]]] = {
    "TR": (
        Demand(
            "EMAIL",
            re.compile(r"mersis|\b\d{16}\b", re.IGNORECASE),
            "name the sender: the MERSİS number (or trade name and registry number) must stand in the message",
            "Regulation on Commercial Communication and Commercial Electronic Messages (Turkey, 2015), article 8",
        ),
        Demand("EMAIL", re.compile(_LINK), _WAY_OUT_OF_MAIL, "the same, article 9; RFC 8058 for one click"),
        Demand(
            "SMS",
            re.compile(r"\bB\d{3}\b|mersis|\b\d{16}\b", re.IGNORECASE),
            "name the sender: the operator's code (B001, ...) or the MERSİS number must stand in the message",
            "the same, article 8",
        ),
        Demand(
            "SMS",
            re.compile(rf"\b(ret|iptal|stop)\b.*\d{{4}}|{_LINK}", re.IGNORECASE | re.DOTALL),
            "give a way to refuse, like `Ret: RET yaz 3344'e gönder`",
            "the same, article 9: refusing by the channel of the message, and free",
        ),
    ),
    "EU": (
        Demand("EMAIL", re.compile(_LINK), _WAY_OUT_OF_MAIL, "Directive 2002/58/EC, article 13(2) and (4)"),
        Demand(
            "SMS",
            re.compile(rf"\b(stop|opt.?out)\b|{_LINK}", re.IGNORECASE),
            "give a way to refuse, like `STOP to 12345`",
            "Directive 2002/58/EC, article 13(2)",
        ),
    ),
    "NONE": (),
}
"""By country of the sender (`ULAK_DEFAULT_MARKETING_PROFILE`); NONE demands nothing, where the law is in no profile."""

_BODIES: Final = ("text", "html")


def profile_problems(profile: str, channel: str, content: Mapping[str, str]) -> Iterator[TemplateProblem]:
    """What a marketing message of this channel lacks, in any of its bodies: who reads HTML sees nothing of the text.

    content: the template with the type's sample and the example of the link filled in.
    """
    bodies = {name: _folded(_as_read(name, content[name])) for name in _BODIES if name in content}
    for demand in PROFILES[profile]:
        lacking = [name for name, text in bodies.items() if not demand.pattern.search(text)]
        if demand.channel == channel and lacking:
            where = ", ".join(lacking)
            yield TemplateProblem("marketing", f"{demand.message}, in {where} ({profile}: {demand.source})")


def _as_read(name: str, text: str) -> str:
    """Comments, styles and the head of HTML are read by nobody."""
    return text_of_html(text) if name == "html" else text


def _folded(text: str) -> str:
    """Dotted capital I as I: `MERSİS` is written both ways, and `İ`.lower() is two code points (E3)."""
    return text.replace("İ", "I").replace("ı", "i")
