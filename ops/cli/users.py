"""`ulak users`: recipients with their addresses, devices and preferences, from files; and a token to try things out.

Exit codes: 0 loaded; 1 something is wrong with the file (said by line and field, nothing was loaded) or the database.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ops.cli.errors import CommandError
from ops.cli.user_file import read_users
from shared.core.sealing import KeyRing
from shared.postgres.errors import PostgresError
from shared.postgres.pool import open_pool
from shared.postgres.recipient import Loaded, RecipientProfile, push_recipients
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingError, KeyRingSettings, load_ring_source
from shared.runtime.settings import load
from shared.wire.channel import DEFAULT_CHANNELS

app = typer.Typer(help="Load recipients.", no_args_is_help=True)

_SHOWN_PROBLEMS = 20


@app.command()
def push(
    path: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="YAML, or NDJSON (.ndjson, .jsonl).")
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file; load nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")] = False,
) -> None:
    """Insert or update users: what the file says replaces what is known, what it does not say stays.

    Addresses are checked, then keyed and sealed before they are stored. Safe to repeat.
    """
    try:
        profiles, problems = read_users(path, DEFAULT_CHANNELS)
        ring = load_ring_source(load(KeyRingSettings)).ring
        loaded = Loaded()
        if not problems and not dry_run:
            loaded = asyncio.run(_push(load(PostgresSettings), ring, profiles))
    except (PostgresError, KeyRingError, OSError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "ok": not problems,
                    "dryRun": dry_run,
                    "users": len(profiles),
                    "created": loaded.created,
                    "updated": loaded.updated,
                    "devices": loaded.devices,
                    "problems": [{"place": problem.place, "message": problem.message} for problem in problems],
                }
            )
        )
    else:
        out = Console(highlight=False, soft_wrap=True)
        for problem in problems[:_SHOWN_PROBLEMS]:
            out.print(f"[red]✗[/red] {escape(str(problem))}")
        if problems:
            out.print(f"{len(problems)} problems; nothing was loaded.")
        elif dry_run:
            out.print(f"{len(profiles)} users are fine; nothing was loaded.")
        else:
            out.print(f"{loaded.created} users created, {loaded.updated} updated, {loaded.devices} devices.")
    if problems:
        raise typer.Exit(1)


@app.command()
def token(
    user_id: Annotated[str, typer.Argument(help="The user's id, as callers write it.")],
    *,
    secret: Annotated[str, typer.Option(envvar="ULAK_ME_JWT_SECRET", help="As services.me has it.", show_envvar=True)],
    issuer: Annotated[str, typer.Option(envvar="ULAK_ME_JWT_ISSUER", help="The token's `iss`.")],
    audience: Annotated[str, typer.Option(envvar="ULAK_ME_JWT_AUDIENCE", help="The token's `aud`.")],
    minutes: Annotated[int, typer.Option(min=1, max=24 * 60, help="How long it is valid.")] = 60,
) -> None:
    """Print a token that speaks for a user on the stack of `ulak dev`, to try the user's API out.

    With a JWKS there is nothing to sign with here: ask whoever signs your users' tokens.
    """
    import jwt

    now = int(time.time())
    claims = {"sub": user_id, "iss": issuer, "aud": audience, "iat": now, "exp": now + 60 * minutes}
    typer.echo(jwt.encode(claims, secret, algorithm="HS256"))


async def _push(settings: PostgresSettings, ring: KeyRing, profiles: list[RecipientProfile]) -> Loaded:
    async with open_pool(settings, name="users push", size=2) as pool:
        return await push_recipients(pool, ring, profiles)
