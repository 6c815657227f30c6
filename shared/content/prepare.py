"""What an author wrote, made ready to be rendered a million times: once, when it is published.

E-mail: CSS is brought into the elements (mail clients drop style sheets), the preheader stands hidden at the top of the
HTML, and where the author wrote no text, it is made of the HTML: here, if the HTML has no statements; else of every
rendered HTML, for no tool can tell where in a text a loop over table rows would begin. Jinja's expressions go through
all of it untouched: each is held by a placeholder that HTML tools let pass.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

import css_inline
from inscriptis import get_text
from inscriptis.model.config import ParserConfig
from lxml import html as lxml_html
from lxml.etree import ParserError
from markupsafe import escape

from shared.content.html_context import HtmlScanner, Place
from shared.content.part import lexed

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private use characters: no author means them, and no HTML tool looks at them."""
_PLACEHOLDER: Final = re.compile(f"(?:<!--)?{_OPEN}([0-9]+){_CLOSE}(?:-->)?")
_BODY: Final = re.compile(r"<body\b[^>]*>", re.IGNORECASE)
_STYLE: Final = re.compile(r"<style\b", re.IGNORECASE)
_NOT_OF_A_LINK: Final = re.compile(r"[\s()<>\"'`{}|\\^]")
"""What readers' apps take for a link's end: a value in it could begin another one behind that."""
_BLANK_LINES: Final = re.compile(r"\n\s*\n\s*(?:\n\s*)*")
_EXPRESSION: Final = re.compile(r"(\{\{[-+]?)\s*(.*?)\s*([-+]?\}\})", re.DOTALL)
_DECLARATION: Final = re.compile(r"\s*<\?xml[^>]*>", re.IGNORECASE)
_HIDDEN: Final = "display:none;max-height:0;overflow:hidden;mso-hide:all"
_INLINER: Final = css_inline.CSSInliner(
    keep_style_tags=True,  # media queries work from there alone
    load_remote_stylesheets=False,
)


def prepared_parts(channel: str, parts: Mapping[str, str]) -> dict[str, str] | None:
    """The parts as they are rendered; None where they are rendered as they were written. The sources parse.

    The same source gives the same result. ValueError for CSS that cannot be read.
    """
    if channel != "EMAIL" or "html" not in parts:
        return None
    prepared, html = dict(parts), parts["html"]
    if "text" not in prepared and _is_straight(html):
        prepared["text"] = _through(html, text_of_html, in_text="{}", as_link=_called_link)
    preheader = prepared.pop("preheader", None)
    if preheader is not None:
        html = _with_preheader(html, preheader)
    if _STYLE.search(html):
        try:
            html = _through(html, _INLINER.inline, in_text="<!--{}-->")
        except css_inline.InlineError as error:
            raise ValueError(f"the style sheet cannot be read: {error}") from error
    prepared["html"] = html
    return None if prepared == dict(parts) else prepared


def _is_straight(html: str) -> bool:
    """Whether what it says can be told before it is filled in: no statements, and nothing that is escaped as HTML."""
    return not any(kind == "block_begin" or text in {"escape", "e"} for kind, text in lexed("html", html))


def _called_link(code: str) -> str:
    """`{{ (x)|url }}` for `{{ x }}`: what was a link in HTML is one in its text, whatever its name."""
    return _EXPRESSION.sub(r"\1 (\2)|url \3", code)


def _with_preheader(html: str, preheader: str) -> str:
    """The first words that a mail client shows beside the subject, hidden in the mail itself."""
    literal = "".join(str(escape(text)) if kind == "data" else text for kind, text in lexed("text", preheader))
    hidden = f'<div style="{_HIDDEN}">{literal}</div>'
    body = _BODY.search(html)
    return hidden + html if body is None else html[: body.end()] + hidden + html[body.end() :]


def text_of_html(html: str) -> str:
    """What a mail says to those who read no HTML; links with their address behind their words. Takes a millisecond.

    '' for HTML that says nothing.
    """
    try:
        tree = lxml_html.document_fromstring(_DECLARATION.sub("", html, count=1))
    except ParserError:  # nothing but blanks and comments
        return ""
    for gone in tree.xpath(f"//head | //style | //img[not(@alt)] | //*[@style='{_HIDDEN}']"):
        gone.drop_tree()
    for anchor in tree.xpath("//a[@href]"):
        address = _NOT_OF_A_LINK.sub(lambda found: quote(found[0]), anchor.get("href").strip())
        words = anchor.text_content().strip()
        if address and address != words and not address.startswith("#"):
            anchor.tail = f" ({address}){anchor.tail or ''}" if words else f"{address}{anchor.tail or ''}"
    # inscriptis reads `&` in text as the beginning of an entity once more, and would make links of `https&colon;//`.
    page = lxml_html.tostring(tree, encoding="unicode").replace("&amp;", "&amp;amp;")
    text: str = get_text(page, ParserConfig(display_images=True))
    return _tidy(text)


def _tidy(text: str) -> str:
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()


def _through(
    html: str, tool: Callable[[str], str], *, in_text: str, as_link: Callable[[str], str] = lambda code: code
) -> str:
    """Hand HTML to a tool with every expression and statement held by a placeholder, and put them back, those that
    begin a link by way of as_link.

    in_text: the placeholder's form between elements. A comment stays where it is also within a table, out of which
    parsers move text; in an attribute or a title there are no comments, so there it is bare.
    """
    held: list[str] = []
    scanner, written = HtmlScanner(), []
    for kind, text in _runs(lexed("html", html)):
        if kind == "data":
            scanner.feed(text)
            written.append(text)
            continue
        token = f"{_OPEN}{len(held)}{_CLOSE}"
        held.append(as_link(text) if scanner.begins_link else text)
        written.append(in_text.format(token) if scanner.place is Place.TEXT else token)
    return _PLACEHOLDER.sub(lambda found: held[int(found[1])], tool("".join(written)))


def _runs(tokens: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Data, and whole expressions and statements from their opening to their closing mark."""
    runs: list[tuple[str, str]] = []
    inside = ""
    for kind, text in tokens:
        if inside or kind.endswith("_begin"):
            inside += text
            if kind.endswith("_end"):
                runs.append(("code", inside))
                inside = ""
        else:
            runs.append((kind, text))
    return runs
