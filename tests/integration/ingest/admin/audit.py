"""The audit log as tests read it."""

from typing import Any

import asyncpg


async def audited(pool: asyncpg.Pool) -> list[tuple[str, str, str]]:
    """(action, kind, key) of every line, in order."""
    rows = await pool.fetch("SELECT action, kind, key FROM ulak.audit_log ORDER BY id")
    return [tuple(row) for row in rows]


async def last_detail(pool: asyncpg.Pool) -> Any:
    return await pool.fetchval("SELECT detail FROM ulak.audit_log ORDER BY id DESC LIMIT 1")


async def whole_log(pool: asyncpg.Pool) -> str:
    """Everything that the log says, to look in it for what it must not say."""
    text: str = await pool.fetchval("SELECT coalesce(string_agg(to_jsonb(a)::text, E'\\n'), '') FROM ulak.audit_log a")
    return text
