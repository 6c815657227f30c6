"""`ulak keys`: the key ring that sealed data opens with. The file is ULAK_KEY_RING_FILE, or `--file`.

A key's life: `new` adds it (it opens, and seals nothing yet), every instance reads it, `promote` lets it seal. So no
instance meets a value that it cannot open (docs/security.md). Key bytes are never shown.
"""

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ops.cli.errors import CommandError
from shared.core.sealing import KeyRing
from shared.runtime.keyring import KeyRingError, read_ring, write_ring

app = typer.Typer(help="Make and look after the key ring.", no_args_is_help=True)

FileOption = Annotated[
    Path, typer.Option("--file", envvar="ULAK_KEY_RING_FILE", help="The key ring's file.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


@app.command()
def new(*, file: FileOption, as_json: JsonOption = False) -> None:
    """Make a ring with its first key, or add a key to the ring that is there: it opens, `promote` lets it seal."""
    with _locked(file):
        if file.exists():
            ring = _read(file)
            added = next_id(ring)
            ring = replace(ring, keys={**ring.keys, added: secrets.token_bytes(32)})
        else:
            added = "k1"
            ring = KeyRing(active=added, keys={added: secrets.token_bytes(32)}, lookup_key=secrets.token_bytes(32))
        _write(file, ring)
    if as_json:
        typer.echo(json.dumps({"id": added, "state": _state(ring, added), "file": str(file)}))
    elif ring.active == added:
        _say(f"Key ring made: {file}, active key {added}. Keep a copy apart: without it sealed data is lost for good.")
    else:
        _say(f"Key {added} added. When every instance has this file: ulak keys promote {added}")


@app.command()
def promote(
    key_id: Annotated[str, typer.Argument(help="The key that seals from now on.")],
    *,
    file: FileOption,
    as_json: JsonOption = False,
) -> None:
    """Let a key seal. The one before it stays and goes on opening what it sealed."""
    with _locked(file):
        ring = _read(file)
        if key_id not in ring.keys:
            raise CommandError(f"no key {key_id!r} in {file}: it has {', '.join(sorted(ring.keys))}")
        before = ring.active
        if key_id != before:
            ring = replace(ring, active=key_id)
            _write(file, ring)
    if as_json:
        typer.echo(json.dumps({"active": key_id, "before": before}))
    elif key_id == before:
        _say(f"Key {key_id} is the active one already.")
    else:
        _say(f"Key {key_id} is active; {before} goes on opening. Restart the services, or update their Secret.")


@app.command(name="list")
def list_keys(*, file: FileOption, as_json: JsonOption = False) -> None:
    """Show the ids of the keys and what each is for; never a key."""
    ring = _read(file)
    states = {key_id: _state(ring, key_id) for key_id in (*ring.keys, *sorted(ring.lost))}
    if as_json:
        typer.echo(json.dumps({"keys": [{"id": key_id, "state": state} for key_id, state in states.items()]}))
        return
    for key_id, state in states.items():
        _say(f"{key_id}  {state}")


def next_id(ring: KeyRing) -> str:
    """`k` and one more than the highest number in use, lost keys included: an id is never given twice."""
    numbers = [int(found[1]) for key_id in (*ring.keys, *ring.lost) if (found := re.fullmatch(r"k(\d+)", key_id))]
    return f"k{max(numbers, default=0) + 1}"


def _state(ring: KeyRing, key_id: str) -> str:
    if key_id in ring.lost:
        return "lost"
    return "active" if key_id == ring.active else "opens only"


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One command at a time on a ring: two that added a key at once would lose one. Makes the folder if need be."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(file.parent, os.O_RDONLY)
    except OSError as error:
        raise CommandError(f"the folder {file.parent} cannot be used ({error.strerror}): name another file") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _read(file: Path) -> KeyRing:
    try:
        return read_ring(file)
    except KeyRingError as error:
        raise CommandError(str(error)) from error


def _write(file: Path, ring: KeyRing) -> None:
    try:
        write_ring(file, ring)
    except KeyRingError as error:
        raise CommandError(str(error)) from error


def _say(line: str) -> None:
    Console().print(line, highlight=False, soft_wrap=True)
