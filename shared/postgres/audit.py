"""`ulak db audit`: proves that no row stands without the rows it belongs to, and that no work was forgotten.

The hot tables have no foreign keys between them (data.md): rows are written in one transaction, and this is the proof.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from uuid import UUID

from shared.postgres.errors import translated
from shared.postgres.partition import Partition, attached, days
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

LATE_AFTER: Final = timedelta(hours=1)
"""The sweep's second look is at one hour (semantics.md section 1); what is still late then has been missed twice."""

_QUERY_SEC: Final = 600.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must not be. `late`: work that is overdue, against rows that contradict each other."""

    meaning: str
    remedy: str
    late: bool = False


RULES: Final[Mapping[str, Rule]] = {
    "delivery_without_notification": Rule(
        "deliveries whose notification is missing", "restore the notifications' rows from a backup, or delete these"
    ),
    "content_without_notification": Rule(
        "stored content whose notification is missing", "delete the rows: nobody can ask for them"
    ),
    "log_without_notification": Rule(
        "log entries whose notification is missing", "delete the rows: nobody can ask for them"
    ),
    "dedup_without_notification": Rule(
        "remembered events whose notification is missing",
        "delete the rows and publish the events again: their senders were told that they were accepted",
    ),
    "decided_without_trace": Rule(
        "decided notifications with neither a delivery nor a verdict",
        "set them back to ACCEPTED: the sweep has them decided again",
    ),
    "delivery_without_content": Rule(
        "deliveries that should go out and have nothing to say", "set their notifications back to ACCEPTED"
    ),
    "deferred_without_due_row": Rule(
        "deferred notifications that nothing will wake", "set them back to ACCEPTED: the chain defers them again"
    ),
    "decision_overdue": Rule(
        "notifications accepted long ago and not decided", "see that relay and router run and keep up", late=True
    ),
    "hint_owed": Rule(
        "deliveries that should have been attempted long ago", "see that relay and the lane's workers run", late=True
    ),
    "lease_overdue": Rule(
        "claims whose lease ended long ago", "see that the relay runs: its reaper ends them", late=True
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows of one day that break one rule; `sample` holds up to five notification ids."""

    rule: str
    day: date
    count: int
    sample: tuple[UUID, ...]

    @property
    def meaning(self) -> str:
        return RULES[self.rule].meaning

    @property
    def remedy(self) -> str:
        return RULES[self.rule].remedy


@dataclass(frozen=True, slots=True)
class Audit:
    """Which days were looked at, and what was found; no findings is the proof."""

    days: tuple[date, ...]
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        return not self.findings


async def audit(
    connection: Connection, now: datetime, *, newest_days: int | None = None, late_after: timedelta = LATE_AFTER
) -> Audit:
    """Look at every day that has partitions, or at the newest ones up to today.

    One statement per rule and day, each with its own short snapshot, so that an audit of 90 days does not keep vacuum
    from working (case O6). Safe while services run: what belongs together was committed together.
    """
    queries = load_queries("audit")
    with translated():
        today = now.astimezone(UTC).date()
        present = [day for day in days(await attached(connection)) if day <= today]
        if newest_days is not None:
            present = present[-newest_days:] if newest_days else []
        findings: list[Finding] = []
        for day in present:
            bounds = Partition("notifications", day)
            for name, rule in RULES.items():
                moment = (now - late_after,) if rule.late else ()
                row = await connection.fetchrow(queries[name], bounds.lower, bounds.upper, *moment, timeout=_QUERY_SEC)
                if row is not None and row["count"]:
                    findings.append(Finding(name, day, row["count"], tuple(row["sample"])))
    return Audit(tuple(present), tuple(findings))
