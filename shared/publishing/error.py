"""Why a template is not brought to use."""

from collections.abc import Sequence

from shared.content.problem import TemplateProblem
from shared.postgres.template import TemplateKey


class PublicationError(Exception):
    """Base of what the author can do something about; `str()` says what.

    PublicationError
    +-- NoSuchVersionError
    +-- NotADraftError           a published version never changes: draft the next one
    +-- NoEarlierVersionError    there is nothing to roll back to
    +-- UnpublishableError       its problems say why
    """


class NoSuchVersionError(PublicationError):
    def __init__(self, key: TemplateKey, version: int) -> None:
        super().__init__(f"there is no version {version} of template {key}: list its versions")


class NotADraftError(PublicationError):
    def __init__(self, key: TemplateKey, version: int) -> None:
        super().__init__(f"version {version} of template {key} is published and never changes: draft the next one")


class NoEarlierVersionError(PublicationError):
    def __init__(self, key: TemplateKey) -> None:
        super().__init__(f"template {key} has no published version before the active one")


class UnpublishableError(PublicationError):
    def __init__(self, key: TemplateKey, problems: Sequence[TemplateProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"template {key} cannot be used as it is: {'; '.join(map(str, problems))}")
