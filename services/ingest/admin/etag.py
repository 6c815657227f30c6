"""Optimistic concurrency (RFC 9110 sections 8.8.3 and 13.1): a change names the state that it was made from."""

from typing import Final

from services.ingest.admin import problem
from services.ingest.gate import Call
from shared.web.problem import RefusedError

_ANY: Final = "*"


def etag(revision: int) -> str:
    """A resource's strong entity tag."""
    return f'"{revision}"'


def require_match(call: Call, revision: int | None) -> None:
    """Refuse a change of something that is at this revision; None: it does not exist, and the change creates it.

    Something that exists is changed only with its current `If-Match` (428 without one, 412 with another); one that
    does not is created without one, or with `If-None-Match: *`. `If-Match: *` says "whatever it is now".
    """
    wanted, unwanted = call.header("if-match"), call.header("if-none-match")
    if revision is None:
        if wanted is not None:
            raise RefusedError(problem.STALE("There is nothing here to change. Send no If-Match to create it."))
        return
    current = {"etag": etag(revision)}
    if unwanted == _ANY:
        raise RefusedError(problem.STALE("It is there already. Read it, and change it with If-Match.", headers=current))
    if wanted is None:
        raise RefusedError(
            problem.MATCH_REQUIRED(
                f"Read it first, and send its ETag as If-Match; now it is {etag(revision)}.", headers=current
            )
        )
    if wanted != _ANY and etag(revision) not in [tag.strip() for tag in wanted.split(",")]:
        raise RefusedError(
            problem.STALE(f"Someone changed it meanwhile: now it is {etag(revision)}. Read it again.", headers=current)
        )
