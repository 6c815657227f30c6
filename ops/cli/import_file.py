"""`ulak import`: a file of lines into a running system.

Exit codes: 0 every line was taken; 1 some were not (told with their numbers), or it stopped (told how to go on).
"""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal, cast

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from ops.cli.errors import CommandError
from ops.cli.ingest_client import IngestClient

_PATH: Final = "/internal/v1/imports"
_SHOWN: Final = 20
_PIECE: Final = 64 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"


def import_file(
    kind: Annotated[
        Literal["recipients", "devices", "preferences", "consents", "suppressions"],
        typer.Argument(help="What the lines are."),
    ],
    path: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="NDJSON, plain or gzipped.")],
    *,
    run: Annotated[str | None, typer.Option("--run", help="Go on with this import (imp_...).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")] = False,
) -> None:
    """Import a file, one JSON object a line. Bad lines are told and take no other along; what stopped goes on."""
    with IngestClient.from_environment() as client:
        found = client.post(f"{_PATH}/{kind}") if run is None else client.get(f"{_PATH}/{run}")
        _require(kind, found.body)
        import_id: str = found.body["importId"]
        lines: int = found.body["lines"]
        again = f"To go on: ulak import {kind} {path} --run {import_id}"
        try:
            answer = client.post_lines(f"{_PATH}/{import_id}?fromLine={lines + 1}", _rest(path, lines, quiet=as_json))
        except CommandError as error:
            raise CommandError(f"{error}\n{again}") from error
        except KeyboardInterrupt:
            raise CommandError(f"stopped: what was taken stays\n{again}") from None
        bad = list(islice(client.get_lines(f"{_PATH}/{import_id}/errors"), _SHOWN))
    if as_json:
        typer.echo(orjson.dumps({**answer.body, "errors": bad}, option=orjson.OPT_INDENT_2))
    else:
        _tell(answer.body, bad)
    if answer.body["rejected"]:
        raise typer.Exit(1)


def _require(kind: str, run: dict[str, Any]) -> None:
    if run["kind"] != kind:
        raise CommandError(f"{run['importId']} is an import of {run['kind']}, not of {kind}: correct the command.")
    if run["state"] != "RUNNING":
        raise CommandError(
            f"{run['importId']} is {run['state']} with {run['lines']} lines: leave --run out to import the file anew."
        )


def _rest(path: Path, skipped: int, *, quiet: bool) -> Iterator[bytes]:
    """The file from behind so many lines, unpacked, with a bar of how much of it is read; it is taken as it is read."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with (
        path.open("rb") as file,
        _unpacked(file) as lines,
        Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as progress,
    ):
        task = progress.add_task(path.name, total=path.stat().st_size)
        for _ in range(skipped):
            if not lines.readline():
                raise CommandError(f"{path} has fewer lines than the {skipped} that are imported: another file?")
        while piece := lines.read(_PIECE):
            yield piece
            progress.update(task, completed=file.tell())


@contextmanager
def _unpacked(file: IO[bytes]) -> Iterator[IO[bytes]]:
    packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(0)
    if not packed:
        yield file
        return
    try:
        with gzip.open(file) as lines:
            yield cast("IO[bytes]", lines)
    except (EOFError, gzip.BadGzipFile) as error:
        raise CommandError("The file is not whole gzip: make it anew.") from error


def _tell(run: dict[str, Any], bad: list[dict[str, Any]]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for line in bad:
        where = f", {line['path']}" if line["path"] else ""
        console.print(Text.assemble(("✗ ", "red"), f"line {line['line']}{where}: {line['detail']}"))
    if run["rejected"] > len(bad):
        console.print(f"  and {run['rejected'] - len(bad)} more: GET {_PATH}/{run['importId']}/errors")
    said = f" {run['state']}: {run['lines']} lines, {run['accepted']} accepted, {run['rejected']} rejected"
    console.print(Text.assemble((run["importId"], "bold"), said))
