"""`ulak keys`: the key ring that sealed data opens with. The file is ULAK_KEY_RING_FILE, or `--file`.

A key's life: it is added (it opens, and seals nothing yet), every instance reads it, it is promoted and seals, a later
one takes its place, what has no retention is sealed anew, and once nothing is sealed under it any more it is retired
(docs/security.md). `rotate` leads through the first half. Key bytes are never shown, except where a ring from the
environment has no other way out.
"""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress

from ops.cli.errors import CommandError
from ops.cli.ring import awaiting, promoted, retired, states, with_key
from shared.core.sealing import KeyRing
from shared.runtime.keyring import (
    RING_REFRESH_SEC,
    FileRingSource,
    KeyRingError,
    KeyRingSettings,
    RingSource,
    load_ring_source,
    ring_json,
    write_ring,
)
from shared.runtime.settings import load

if TYPE_CHECKING:
    from ops.cli.key_reseal import Resealed
    from ops.cli.key_usage import KeyUsage

app = typer.Typer(help="Make and look after the key ring.", no_args_is_help=True)

ROTATION_WAIT_SEC: Final = 2 * RING_REFRESH_SEC
RESEAL_RATE: Final = 1000
"""Per second: some percent of what a small database manages, which is left to the traffic."""

FileOption = Annotated[
    Path, typer.Option("--file", envvar="ULAK_KEY_RING_FILE", help="The key ring's file.", show_default=False)
]
AnyRingOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        envvar="ULAK_KEY_RING_FILE",
        help="The key ring's file; without one the ring is read from ULAK_KEY_RING.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


@app.command()
def new(*, file: FileOption, as_json: JsonOption = False) -> None:
    """Make a ring with its first key, or add a key to the ring that is there: it opens, `promote` lets it seal."""
    with _locked(file):
        if file.exists():
            ring, added = with_key(_current(file), secrets.token_bytes(32))
        else:
            added = "k1"
            ring = KeyRing(active=added, keys={added: secrets.token_bytes(32)}, lookup_key=secrets.token_bytes(32))
        _write(file, ring)
    if as_json:
        typer.echo(json.dumps({"id": added, "state": states(ring)[added], "file": str(file)}))
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
        before = _current(file)
        with _allowed():
            ring = promoted(before, key_id)
        if ring != before:
            _write(file, ring)
    if as_json:
        typer.echo(json.dumps({"active": key_id, "before": before.active}))
    elif key_id == before.active:
        _say(f"Key {key_id} is the active one already.")
    else:
        _say(_promoted_text(key_id, before.active))


@app.command()
def rotate(
    *,
    file: AnyRingOption = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds from adding the key until it seals: instances read it then.")
    ] = ROTATION_WAIT_SEC,
    as_json: JsonOption = False,
) -> None:
    """Add a key, wait until every instance has it, promote it. Stopped half-way, it goes on when it is run again.

    A ring from ULAK_KEY_RING cannot be changed here: its next version is printed, to be installed in two steps.
    """
    if file is None:
        _rotate_environment(as_json=as_json)
        return
    with _locked(file):
        ring = _current(file)
        before = ring.active
        with _allowed():
            found = awaiting(ring)
        if found is None:
            ring, key_id = with_key(ring, secrets.token_bytes(32))
            _write(file, ring)
        else:
            key_id = found
    try:
        if not as_json:
            added = f"Key {key_id} was added before and not promoted yet" if found else f"Key {key_id} added"
            _say(f"{added}: it opens, and seals nothing. Every instance must have it before it may seal.")
            _say(
                f"Running services look at {file} every {RING_REFRESH_SEC:g} s; bring it now to where they have a copy."
            )
        _wait(wait, key_id)
    except KeyboardInterrupt:
        raise CommandError(
            f"stopped: {key_id} is added and seals nothing. Run `ulak keys rotate` again to go on with it"
        ) from None
    with _locked(file):
        ring = _current(file)
        if ring.active not in {before, key_id}:
            raise CommandError(f"{file} was changed meanwhile, {ring.active} is active now: nothing was promoted")
        with _allowed():
            _write(file, promoted(ring, key_id))
    if as_json:
        typer.echo(json.dumps({"active": key_id, "before": before, "resumed": found is not None, "file": str(file)}))
    else:
        _say(_promoted_text(key_id, before))


@app.command(name="list")
def list_keys(
    *,
    file: AnyRingOption = None,
    usage: Annotated[
        bool,
        typer.Option("--usage", help="Count what is sealed under each key: reads the databases, which may take long."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the ids of the keys and what each is for; never a key."""
    ring = _current(file)
    if usage:
        from ops.cli.key_usage import read_usage  # the database client: not for the other commands

        _show_usage(ring, read_usage(), as_json=as_json)
    elif as_json:
        typer.echo(json.dumps({"keys": [{"id": key_id, "state": state} for key_id, state in states(ring).items()]}))
    else:
        for key_id, state in states(ring).items():
            _say(f"{key_id}  {state}")


@app.command()
def reseal(
    *,
    file: AnyRingOption = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="ID", help="Only what this key sealed; else all that is not under the active."),
    ] = None,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Most values to seal anew in a second.")] = RESEAL_RATE,
    as_json: JsonOption = False,
) -> None:
    """Seal addresses, device tokens and DKIM keys anew under the active key: no retention ever takes them away.

    Safe while services run, and to repeat: it only touches what is left. Ends with 1 if there are values that do not
    open.
    """
    from ops.cli.key_reseal import reseal_values  # the database client: not for the other commands

    done = reseal_values(_source(file), only=key, rate=rate)
    if as_json:
        typer.echo(json.dumps(asdict(done)))
    else:
        _show_resealed(done)
    if any(done.shut.values()):
        raise typer.Exit(1)


@app.command()
def retire(
    key_id: Annotated[str, typer.Argument(help="The key whose values are given up.")],
    *,
    file: AnyRingOption = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Without looking what it still opens; also for a key that the ring has lost."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take a key out of the ring and record it as lost: what it sealed is rejected for good, with its reason."""
    with _allowed():
        retired(_current(file), key_id, unknown_too=force)  # what cannot be is said before the long look
    if not force:
        from ops.cli.key_usage import read_usage

        used = read_usage()
        if used.total(key_id):
            places = ", ".join(f"{place} {count}" for place, count in used.by_key[key_id].items())
            raise CommandError(
                f"{key_id} still opens what would be lost without it ({places}): `ulak keys reseal` seals anew what "
                "stays, docs/security.md tells when the rest is gone; --force gives it up"
            )
    if file is None:
        with _allowed():
            ring = retired(_current(None), key_id, unknown_too=force)
        _print_ring(ring, {"retired": key_id}, f"Install this as ULAK_KEY_RING: {key_id} is retired.", as_json=as_json)
        return
    with _locked(file):
        with _allowed():
            ring = retired(_current(file), key_id, unknown_too=force)
        _write(file, ring)
    if as_json:
        typer.echo(json.dumps({"retired": key_id, "active": ring.active, "file": str(file)}))
    else:
        _say(f"Key {key_id} is retired: what it sealed is rejected for good. Copies of the ring may still hold it.")


def _rotate_environment(*, as_json: bool) -> None:
    ring = _current(None)
    with _allowed():
        found = awaiting(ring)
    if found is None:
        ring, added = with_key(ring, secrets.token_bytes(32))
        text = (
            f"Step 1 of 2: install this as ULAK_KEY_RING everywhere and restart. {added} opens, and seals nothing yet. "
            "When every instance runs with it, run this command with it again."
        )
        _print_ring(ring, {"step": 1, "added": added, "active": ring.active}, text, as_json=as_json)
    else:
        ring = promoted(ring, found)
        text = f"Step 2 of 2: once every instance has {found}, install this as ULAK_KEY_RING everywhere: {found} seals."
        _print_ring(ring, {"step": 2, "added": found, "active": found}, text, as_json=as_json)


def _print_ring(ring: KeyRing, facts: dict[str, object], text: str, *, as_json: bool) -> None:
    """The ring alone on standard output, in one line, so that it can be piped to where secrets are kept."""
    line = json.dumps(json.loads(ring_json(ring)), separators=(",", ":"))
    if as_json:
        typer.echo(json.dumps({**facts, "ring": line}))
        return
    Console(stderr=True).print(f"{text} It holds keys: keep it secret.", highlight=False, soft_wrap=True)
    typer.echo(line)


def _wait(seconds: float, key_id: str) -> None:
    console = Console(stderr=True)
    ends = time.monotonic() + seconds
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"Waiting until {key_id} is everywhere", total=seconds)
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            progress.update(task, completed=seconds - left)


def _show_usage(ring: KeyRing, used: "KeyUsage", *, as_json: bool) -> None:
    known: dict[str, str] = {key_id: state.value for key_id, state in states(ring).items()}
    shown = {**known, **{key_id: "not in the ring" for key_id in sorted(used.by_key) if key_id not in known}}
    if as_json:
        keys = [
            {"id": key_id, "state": state, "sealed": used.total(key_id), "where": used.by_key.get(key_id, {})}
            for key_id, state in shown.items()
        ]
        typer.echo(json.dumps({"keys": keys, "unreadable": used.unreadable}))
        return
    for key_id, state in shown.items():
        _say(f"{key_id}  {state}  seals {used.total(key_id)}")
        for place, count in used.by_key.get(key_id, {}).items():
            _say(f"    {place}  {count}")
    for place, count in used.unreadable.items():
        _say(f"{place}  {count} of no format that this release knows")


def _show_resealed(done: "Resealed") -> None:
    for place, count in done.resealed.items():
        _say(f"{place}  {count} sealed anew under {done.active}")
        if done.changed[place]:
            _say(f"    {done.changed[place]} were written by somebody else meanwhile: theirs stand")
        if done.shut[place]:
            _say(f"    {done.shut[place]} do not open: their key is lost or not in the ring, or they were altered")
    _say(f"Left, for their rows go with their retention (an archive's when it is emptied): {', '.join(done.left)}")
    if any(done.shut.values()):
        _say(
            "`ulak keys list --usage` shows which keys what does not open needs: add them to the ring, or push those "
            "users, or senders, again."
        )


def _promoted_text(key_id: str, before: str) -> str:
    return (
        f"Key {key_id} is active; {before} goes on opening. Running services seal with it within "
        f"{RING_REFRESH_SEC:g} s of having this file: bring it to every copy again."
    )


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


@contextmanager
def _allowed() -> Iterator[None]:
    """What a step of `ops.cli.ring` does not allow, as this command's error."""
    try:
        yield
    except ValueError as error:  # RingStepError, or the ring's own check of an id
        raise CommandError(str(error)) from error


def _current(file: Path | None) -> KeyRing:
    return _source(file).ring


def _source(file: Path | None) -> RingSource:
    try:
        return load_ring_source(load(KeyRingSettings)) if file is None else FileRingSource(file)
    except KeyRingError as error:
        raise CommandError(str(error)) from error


def _write(file: Path, ring: KeyRing) -> None:
    try:
        write_ring(file, ring)
    except KeyRingError as error:
        raise CommandError(str(error)) from error


def _say(line: str) -> None:
    Console().print(line, highlight=False, soft_wrap=True)
