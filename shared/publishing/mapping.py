"""How events become notifications, checked: by files and by the administration API alike. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import jmespath
from jmespath.exceptions import JMESPathError

from shared.core.catalogue import EventMapping
from shared.core.unsubscribe import PARAMETER, RESERVED


@dataclass(frozen=True, slots=True)
class MappingProblem:
    """One thing to correct. `field` is its name in files and in the API, with dots."""

    field: str
    message: str


class TemplateNeeds(Protocol):
    """A template, as far as a mapping goes."""

    @property
    def channel(self) -> str: ...
    @property
    def locale(self) -> str: ...
    @property
    def parameters(self) -> frozenset[str]: ...


def mapping_problems(mapping: EventMapping) -> Iterator[MappingProblem]:
    """All that is wrong with a mapping by itself: what is no JMESPath, parameters that are not an event's to give."""
    expressions = {"recipient": mapping.recipient, **{f"params.{name}": path for name, path in mapping.params.items()}}
    if mapping.business_key is not None:
        expressions["businessKey"] = mapping.business_key
    for place, expression in expressions.items():
        try:
            jmespath.compile(expression)
        except JMESPathError:
            yield MappingProblem(place, f"`{expression}` is not a JMESPath expression")
    if PARAMETER in mapping.params:
        yield MappingProblem(f"params.{PARAMETER}", RESERVED)


def missing_parameters(mapping: EventMapping, templates: Sequence[TemplateNeeds]) -> Iterator[MappingProblem]:
    """A mapping must give what its type's templates need, or every event would end in the dead letters."""
    for template in templates:
        missing = template.parameters - mapping.params.keys()
        if missing:
            yield MappingProblem(
                "params",
                f"{', '.join(sorted(missing))} missing, which the {template.channel} template in {template.locale} "
                "needs",
            )
