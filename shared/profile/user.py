"""From the outside's id of a user (a token's `sub`) to our own `user_id`."""

from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries


async def find_user(database: Connection | Pool, external_id: str) -> int | None:
    """The user's `user_id`; None for one we have never heard of. Raises UnavailableError."""
    with translated():
        found: int | None = await database.fetchval(load_queries("profile")["find_user"], external_id)
    return found


async def enter_user(connection: Connection, external_id: str) -> int:
    """The user's `user_id`, within the caller's transaction; first sight creates the user (data.md, Identity)."""
    queries = load_queries("profile")
    found: int | None = await connection.fetchval(queries["find_user"], external_id)
    if found is None:
        await connection.execute(queries["enter_user"], external_id)
        found = await connection.fetchval(queries["find_user"], external_id)
        assert found is not None
    return found
