"""`ulak topics`: create and check Kafka's topics from the one declaration. Where Kafka is: ULAK_KAFKA_*.

Exit codes: 0 all is as declared; 1 something is missing or differs, or Kafka does not answer; 2 a setting is wrong.
"""

import asyncio
import json
from typing import Annotated

import typer
from rich.console import Console

from ops.cli.errors import CommandError
from shared.kafka.error import TopicAdminError
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import TopicReport
from shared.kafka.topics import apply as apply_topics
from shared.kafka.topics import check as check_topics
from shared.runtime.settings import load
from shared.wire.topic import declared_topics

app = typer.Typer(help="Create and check Kafka's topics.", no_args_is_help=True)

MaxPartitionsOption = Annotated[
    int | None,
    typer.Option(
        "--max-partitions",
        envvar="ULAK_TOPICS_MAX_PARTITIONS",
        min=1,
        help="Cap every topic's partitions, as on a small installation.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


@app.command()
def apply(
    *,
    max_partitions: MaxPartitionsOption = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", min=1, help="Of new topics; the broker's default if not given."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create the topics that are missing. What exists is never altered: differences are reported. Safe to repeat."""
    settings = load(KafkaSettings)
    specs = declared_topics(max_partitions=max_partitions)
    try:
        report = asyncio.run(apply_topics(settings, specs, replication_factor=replication_factor))
    except TopicAdminError as error:
        raise CommandError(str(error)) from error
    _show(report, as_json=as_json)
    if report.missing:
        raise typer.Exit(1)


@app.command()
def check(*, max_partitions: MaxPartitionsOption = None, as_json: JsonOption = False) -> None:
    """Say which topics are missing or not as declared; exit 1 if there are any."""
    settings = load(KafkaSettings)
    try:
        report = asyncio.run(check_topics(settings, declared_topics(max_partitions=max_partitions)))
    except TopicAdminError as error:
        raise CommandError(str(error)) from error
    _show(report, as_json=as_json)
    if not report.as_declared:
        raise typer.Exit(1)


def _show(report: TopicReport, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
        return
    out = Console()
    for name in report.created:
        out.print(f"[green]created[/green] {name}", highlight=False)
    for name in report.missing:
        out.print(f"[red]missing[/red] {name}: create it with `ulak topics apply`", highlight=False)
    for difference in report.differing:
        out.print(
            f"[yellow]differs[/yellow] {difference.topic}: {difference.setting} is {difference.actual}, declared is "
            f"{difference.declared}; alter it with kafka-topics or kafka-configs if that is not meant",
            highlight=False,
        )
    out.print(
        f"{len(report.created)} created, {len(report.unchanged)} as declared, "
        f"{len({difference.topic for difference in report.differing})} differ, {len(report.missing)} missing.",
        highlight=False,
    )
