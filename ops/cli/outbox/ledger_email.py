"""E-mails that came by the API and have no row (model B): what is under way, and what the last day came to."""

from collections.abc import Sequence
from typing import Any, Final

from ops.cli.text import COUNTED_AT_MOST
from shared.core.identifier import EMAIL, public_id
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("outbox_cli")


async def look_at_ledger(connection: Connection, *, errors_shown: int) -> dict[str, Any]:
    """In Ulak's own database, as `--json` prints it; in the form of a model's e-mails in a table.

    failed and sentLastDay are of the last day: the ledger has no list of all that ever failed.
    """
    ids = await connection.fetchval(_SQL["ledger_email_ids"], COUNTED_AT_MOST)
    rows = await connection.fetch(_SQL["ledger_emails"], ids, ids[0], ids[-1]) if ids else []
    due, later = _of(rows, "PENDING", due=True), _of(rows, "PENDING")
    sending, failed = _of(rows, "SENDING"), _of(rows, "FAILED")
    return {
        "model": "B",
        "pending": {"due": _count(due), "oldestDueSec": _oldest_sec(due), "later": _count(later)},
        "sending": {"count": _count(sending), "oldestSec": _oldest_sec(sending)},
        "failed": {
            "count": _count(failed),
            "errors": [
                {"error": row["error"], "count": row["count"], "sample": public_id(EMAIL, row["sample"])}
                for row in failed[:errors_shown]
            ],
        },
        "sentLastDay": _count(_of(rows, "SENT")),
    }


def _of(rows: Sequence[Any], status: str, *, due: bool = False) -> list[Any]:
    return [row for row in rows if (row["status"], row["due"]) == (status, due)]


def _count(rows: Sequence[Any]) -> int:
    return sum(row["count"] for row in rows)


def _oldest_sec(rows: Sequence[Any]) -> float | None:
    return max((row["oldest_sec"] for row in rows), default=None)
