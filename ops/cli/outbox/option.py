"""What several commands take, and how it is typed."""

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="NAME",
        help="Only this one of ULAK_RELAY_SOURCES, or `own` for Ulak's own database; else all of them.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it; else only what would be done is told.")]
