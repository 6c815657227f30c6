"""The story of an e-mail from its row, in whichever source has it: the way of `ulak why` where no API can tell it."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from ops.cli.outbox.lookup import opened_recipients
from ops.cli.outbox.source import Answers, ask_each, databases, look
from shared.core.identifier import EMAIL, NOTIFICATION, public_id
from shared.core.sealing import KeyRing
from shared.decision.email_row import read_row, tell_row, where_it_stands
from shared.decision.wording import Language
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("outbox_cli")


async def row_stories(id_: UUID, ring: KeyRing | None, language: Language) -> Answers[list[dict[str, Any]]]:
    """By source, as `GET /internal/v1/emails/{id}/explain` answers, with the source's name. Raises CommandError."""

    async def found(source: str, connection: Connection) -> list[dict[str, Any]]:
        rows = await look(connection, _SQL["show_email"], id_, None)
        return [_body(source, row, ring, language) for row in rows]

    return await ask_each(databases(None), found)


def _body(source: str, row: Mapping[str, Any], ring: KeyRing | None, language: Language) -> dict[str, Any]:
    email, link = read_row(row, opened_recipients(row, ring) or ()), row["notification_id"]
    return {
        "emailId": public_id(EMAIL, email.id),
        **({} if link is None else {"notificationId": public_id(NOTIFICATION, link)}),
        "source": source,
        "state": email.status,
        "summary": where_it_stands(email, language.phrases),
        "steps": [step.body() for step in tell_row(email, language.phrases)],
    }
