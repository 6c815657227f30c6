"""Where in an HTML part an author inserts values: what is safe in one place breaks out in another.

Escaping (J2) makes a value harmless as text and within a quoted attribute, and nowhere else: not in a tag's or an
attribute's name, not without quotes, not in style, script or an event's attribute. So those places are refused when
the template is checked, and where a value begins a link, only the schemes of a link may come out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from jinja2 import Environment

from shared.content.problem import TemplateProblem

LINK_ATTRIBUTES: Final = frozenset(
    {"href", "src", "srcset", "action", "formaction", "background", "cite", "poster", "data", "ping", "xlink:href"}
)
_ACTING_ATTRIBUTES: Final = frozenset({"style", "srcdoc", "content", "http-equiv"})
"""Where escaped text still does something; so does every `on...`."""
_RAW_ELEMENTS: Final = frozenset({"script", "style"})
_TITLE_ELEMENTS: Final = frozenset({"title", "textarea"})
_FORBIDDEN_ELEMENTS: Final = frozenset(
    {
        *("script", "iframe", "frame", "frameset", "object", "embed", "applet", "form", "base"),
        *("svg", "math", "template", "xmp", "plaintext"),
    }
)
"""What mail clients remove or block, and what would act or be read by other rules than HTML's: programs, frames, forms,
another base of all links, foreign elements, elements that hold raw text.
"""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9:-]*")


class Place(Enum):
    """What the next character of the part is."""

    TEXT = auto()
    TAG = auto()
    """Within a tag, outside a quoted value."""
    VALUE = auto()
    """Within a quoted attribute value."""
    RAW = auto()
    """Within <style> or <script>."""
    TITLE = auto()
    """Within <title> or <textarea>: text, but no comment or element."""
    COMMENT = auto()


@dataclass(slots=True)
class HtmlScanner:
    """Follows HTML as it is written, piece by piece. Between pieces `place` tells where a value would go."""

    place: Place = Place.TEXT
    element: str = ""
    """The raw element it is in, or the tag that is being written."""
    attribute: str = ""
    """Whose value it is in, lower case."""
    value: str = ""
    """What the author has written of that value."""
    forbidden: list[str] = field(default_factory=list)
    """Elements that were opened and may not be."""
    _quote: str = ""
    _word: str = ""

    def feed(self, text: str) -> None:
        position = 0
        while position < len(text):
            match self.place:
                case Place.TEXT:
                    position = self._text(text, position)
                case Place.COMMENT:
                    position = self._until(text, position, "-->", Place.TEXT)
                case Place.RAW | Place.TITLE:
                    position = self._until(text, position, f"</{self.element}", Place.TAG)
                case Place.VALUE:
                    position = self._in_value(text, position)
                case Place.TAG:
                    position = self._in_tag(text, position)

    @property
    def begins_link(self) -> bool:
        """Whether a value would be a link from its first character on, where all values before it came out empty."""
        return self.place is Place.VALUE and self.attribute in LINK_ATTRIBUTES and not self.value.strip()

    def _text(self, text: str, position: int) -> int:
        start = text.find("<", position)
        if start < 0:
            return len(text)
        if text.startswith("<!--", start):
            self.place = Place.COMMENT
            return start + 4
        name = _NAME.match(text, start + 1)
        if name is not None:
            self.element = name[0].lower()
            if self.element in _FORBIDDEN_ELEMENTS:
                self.forbidden.append(self.element)
            self.place, self.attribute, self._word = Place.TAG, "", ""
            return name.end()
        if text.startswith(("</", "<!", "<?"), start):
            self.element, self.place, self.attribute, self._word = "", Place.TAG, "", ""
            return start + 2
        if start + 1 == len(text):  # whatever a value would put here would be the tag's name
            self.element, self.place, self.attribute, self._word = "", Place.TAG, "", ""
        return start + 1

    def _in_tag(self, text: str, position: int) -> int:
        character = text[position]
        if character == ">":
            self.place = (
                Place.RAW
                if self.element in _RAW_ELEMENTS
                else Place.TITLE
                if self.element in _TITLE_ELEMENTS
                else Place.TEXT
            )
        elif character in "\"'" and self.attribute:
            self.place, self._quote, self.value = Place.VALUE, character, ""
        elif character == "=":
            self.attribute, self._word = self._word.lower(), ""
        elif character.isspace() or character == "/":
            if self._word:
                self.attribute = ""
        else:
            if self.attribute:
                self.attribute = ""  # an unquoted value: the next word is a new attribute or the rest of it
            self._word = (
                character if text[position - 1 : position].isspace() or not self._word else self._word + character
            )
        return position + 1

    def _in_value(self, text: str, position: int) -> int:
        end = text.find(self._quote, position)
        if end < 0:
            self.value += text[position:]
            return len(text)
        self.place, self.attribute, self._word = Place.TAG, "", ""
        return end + 1

    def _until(self, text: str, position: int, end: str, then: Place) -> int:
        found = text.lower().find(end, position)
        if found < 0:
            return len(text)
        self.place = then
        if then is Place.TAG:
            self.element = ""
        return found + len(end)


def html_problems(part: str, source: str, environment: Environment) -> Iterator[TemplateProblem]:
    """Every place where a value or a statement may not stand, and every element that may not. The source parses."""
    scanner = HtmlScanner()
    for line, kind, text in environment.lex(source):
        if kind == "data":
            scanner.feed(text)
            for element in scanner.forbidden:
                yield TemplateProblem(part, f"<{element}> is not for mails: leave it out", line)
            scanner.forbidden.clear()
        elif kind == "block_begin" and scanner.place is not Place.TEXT:
            yield TemplateProblem(part, "a statement may not stand within a tag or a style: put it around", line)
        elif kind == "variable_begin":
            wrong = _wrong(scanner)
            if wrong is not None:
                yield TemplateProblem(part, wrong, line)


def _wrong(scanner: HtmlScanner) -> str | None:
    match scanner.place:
        case Place.RAW:
            return f"a value may not stand within <{scanner.element}>: it could change what it does"
        case Place.COMMENT:
            return "a value may not stand within a comment"
        case Place.TAG:
            return 'a value within a tag must stand in quotes, like href="{{ url }}"'
        case Place.VALUE if scanner.attribute.startswith("on") or scanner.attribute in _ACTING_ATTRIBUTES:
            return f"a value may not stand within {scanner.attribute}: it could act there"
        case _:
            return None
