"""What `ulak db check` says about a database."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from shared.postgres.check import ServerFacts, judge
from shared.postgres.errors import SchemaOutdatedError
from shared.postgres.partition import Partition, partitions
from shared.postgres.schema import check_revision, head_revision, known_revisions

TODAY = date(2026, 1, 15)
SETTINGS = {
    "server_version_num": "180003",
    "max_connections": "100",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
}
GOOD = ServerFacts(SETTINGS, False, "UTF8", 0.0, head_revision(), frozenset(partitions(TODAY, date(2026, 1, 22))))


def test_all_is_well() -> None:
    findings = judge(GOOD, TODAY)
    assert all(finding.ok for finding in findings), findings
    assert [finding.subject for finding in findings] == [
        "version", "role", "encoding", "connections", "durability", "transactions", "schema", "partitions"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "subject", "said"),
    [
        ({"settings": {**SETTINGS, "server_version_num": "140012"}}, "version", "PostgreSQL 15 or newer"),
        ({"in_recovery": True}, "role", "primary"),
        ({"encoding": "SQL_ASCII"}, "encoding", "UTF8"),
        ({"settings": {**SETTINGS, "max_connections": "20"}}, "connections", "max_connections"),
        ({"settings": {**SETTINGS, "fsync": "off"}}, "durability", "fsync = on"),
        ({"settings": {**SETTINGS, "synchronous_commit": "off"}}, "durability", "synchronous_commit = on"),
        ({"oldest_transaction_sec": 3_600.0}, "transactions", "pg_stat_activity"),
        ({"revision": None}, "schema", "ulak db migrate"),
        ({"partitions": frozenset()}, "partitions", "ulak db partitions"),
        ({"partitions": frozenset(partitions(TODAY, date(2026, 1, 16)))}, "partitions", "ulak db partitions"),
        ({"partitions": GOOD.partitions - {Partition("contents", TODAY)}}, "partitions", "ulak db partitions"),
        ({"partitions": GOOD.partitions - {Partition("contents", date(2026, 1, 17))}}, "partitions", "partitions"),
    ],
)
def test_each_fault_comes_alone_with_its_remedy(changes: dict[str, Any], subject: str, said: str) -> None:
    wrong = [finding for finding in judge(replace(GOOD, **changes), TODAY) if not finding.ok]
    assert [finding.subject for finding in wrong] == [subject]
    assert said in (wrong[0].remedy or "")


@pytest.mark.parametrize("version", ["150000", "159999", "180003", "190000"])
def test_every_supported_version_is_good(version: str) -> None:
    facts = replace(GOOD, settings={**SETTINGS, "server_version_num": version})
    assert judge(facts, TODAY)[0].ok


def test_a_newer_schema_is_good_and_a_missing_one_is_not() -> None:
    """N and N+1 run side by side on one schema, so a revision of tomorrow's release must not stop today's."""
    check_revision("9999")
    check_revision(head_revision())
    with pytest.raises(SchemaOutdatedError, match="ulak db migrate"):
        check_revision(None)


def test_revisions_are_those_that_alembic_walks() -> None:
    from alembic.script import ScriptDirectory

    import shared.postgres.schema

    script = ScriptDirectory(str(shared.postgres.schema._VERSIONS.parent))
    assert [revision.revision for revision in script.walk_revisions()] == list(reversed(known_revisions()))
    assert script.get_heads() == [head_revision()]
