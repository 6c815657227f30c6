"""What can be wrong with a template or its rendering."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TemplateProblem:
    """One thing an author has to change. `part` is the content field, `line` the line in it (None: the whole part)."""

    part: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.part if self.line is None else f"{self.part}, line {self.line}"
        return f"{place}: {self.message}"


class ContentError(Exception):
    """Base of this package's errors; none of them repeats a parameter's value or rendered text.

    ContentError
    +-- InvalidTemplateError     the author's source; found when it is pushed
    +-- RenderError              this notification cannot be rendered; a retry changes nothing
        +-- MissingParametersError
    """


class InvalidTemplateError(ContentError):
    def __init__(self, problems: Iterable[TemplateProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class RenderError(ContentError):
    """`str()` says which part and why, fit for operators and for `delivery_log.detail`."""


class MissingParametersError(RenderError):
    """The template uses parameters that the request did not bring; `names` are sorted."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        super().__init__(f"parameters missing: {', '.join(self.names)}")
