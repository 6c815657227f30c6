"""What is wrong in a body or a query, as a problem."""

from collections.abc import Sequence

from pydantic import ValidationError

from shared.runtime.fault import Fault, faults
from shared.web.problem import INVALID_REQUEST, FieldError, Problem


def invalid_fields(error: ValidationError, *, under: str = "") -> Problem:
    """A body that does not fit: each field's path, beneath `under`, what is wrong there and the remedy."""
    found = faults(error.errors(include_url=False, include_input=False))
    return invalid([Fault(".".join(filter(None, (under, path))), detail) for path, detail in found])


def invalid(found: Sequence[Fault]) -> Problem:
    """At least one fault, as a problem that begins with the first."""
    errors = tuple(FieldError(path, detail) for path, detail in found)
    first = errors[0]
    rest = "" if len(errors) == 1 else f" There are {len(errors)} such fields, see errors."
    return INVALID_REQUEST(f"{first.path or 'The body'}: {first.detail}.{rest}", errors=errors)
