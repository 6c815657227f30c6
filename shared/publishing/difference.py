"""Two definitions side by side, as lines of a unified diff that a person reads. Pure."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from shared.postgres.template import NewTemplate, StoredTemplate


def template_difference(before: StoredTemplate | None, after: StoredTemplate | NewTemplate) -> Sequence[str]:
    """What an author changed from one version to another, or to what a file says; all of it where there was none."""
    return difference({} if before is None else written(before), written(after))


def written(template: StoredTemplate | NewTemplate) -> Mapping[str, Any]:
    """What an author wrote of a template."""
    return {"parts": dict(template.parts), "options": dict(template.options)}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
    """Lines without the two headers; none where both are the same."""
    found = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=2)
    return [line for line in found if not line.startswith(("---", "+++"))]


def _lines(value: Mapping[str, Any]) -> Sequence[str]:
    if not value:
        return ()
    text: str = yaml.dump(dict(value), Dumper=_Dumper, allow_unicode=True, sort_keys=True, width=1_000_000)
    return text.splitlines()


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, so that a diff shows the line that changed."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
