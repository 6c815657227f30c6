"""How each value of a part is inserted: by where it stands, and by what the author calls it."""

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Final

from jinja2 import nodes

from shared.content.html_context import HtmlScanner, Place
from shared.wire.channel import DATA

HTML_PARTS: Final = frozenset({"html"})
"""Parts that are HTML and so escape their values; all others are plain text (J2: by part, never by file name)."""

LINK_PARTS: Final = frozenset({"url", "image"})
"""Parts that are a link as a whole."""

URL_FILTER: Final = "url"
"""`{{ tracking|url }}`: the author says that this is a link."""

_LINK_NAME: Final = re.compile(r".*(url|link)", re.IGNORECASE)
"""`trackingUrl`, `link`, `order.invoice_url`: a parameter that is called a link is meant to be one."""
_TRANSPARENT: Final = frozenset({"default", "d", "trim"})


class Insertion(Enum):
    """What is done to a value (shared/content/value.py), before a part that is HTML escapes it."""

    WORDS = auto()
    """Read by a person: links are broken."""
    LINK_WORDS = auto()
    """Read by a person, and called a link."""
    VERBATIM = auto()
    """Within an attribute, a link that the author began, or an app's data."""
    LINK = auto()
    """Where a link begins."""


Placed = Sequence[tuple[nodes.Expr, Insertion | None]]
"""What an output writes, in order; None for what the author wrote."""


def placed(name: str, tree: nodes.Template) -> Iterator[tuple[nodes.Output, Placed]]:
    """Every output of a checked part. Values that begin one link together are one expression: each alone may be empty,
    and the next would begin it.
    """
    scanner = HtmlScanner()
    is_html, begins = name in HTML_PARTS, name in LINK_PARTS
    for output in tree.find_all(nodes.Output):
        entries: list[tuple[nodes.Expr, Insertion | None]] = []
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                entries.append((node, None))
                begins = begins and not node.data.strip()
                if is_html:
                    scanner.feed(node.data)
            elif begins or scanner.begins_link:
                _add_link(entries, node)
            elif isinstance(node, nodes.Const):
                entries.append((node, None))
            elif name in LINK_PARTS or name.startswith(DATA) or scanner.place is Place.VALUE:
                entries.append((node, Insertion.VERBATIM))
            else:
                entries.append((node, Insertion.LINK_WORDS if _is_link(node) else Insertion.WORDS))
        yield output, entries


def _add_link(entries: list[tuple[nodes.Expr, Insertion | None]], node: nodes.Expr) -> None:
    blanks: list[nodes.Expr] = []
    while entries and isinstance(data := entries[-1][0], nodes.TemplateData) and not data.data.strip():
        blanks.insert(0, nodes.Const(data.data))
        entries.pop()
    if entries and entries[-1][1] is Insertion.LINK:
        before, _ = entries.pop()
        node = nodes.Concat([before, *blanks, node], lineno=node.lineno)
    else:
        entries += [(nodes.TemplateData(blank.value), None) for blank in blanks if isinstance(blank, nodes.Const)]
    entries.append((node, Insertion.LINK))


def _is_link(node: nodes.Expr) -> bool:
    match node:
        case nodes.Name(name=name) | nodes.Getattr(attr=name) | nodes.Getitem(arg=nodes.Const(value=str(name))):
            return _LINK_NAME.fullmatch(name) is not None
        case nodes.Filter(name=name, node=inner) if inner is not None:
            return name == URL_FILTER or (name in _TRANSPARENT and _is_link(inner))
        case nodes.CondExpr(expr1=yes, expr2=no):
            return all(arm is None or isinstance(arm, nodes.Const) or _is_link(arm) for arm in (yes, no))
        case _:
            return False
