"""What of `ulak outbox` needs no database."""

import json

import pytest
from typer.testing import CliRunner

from ops.cli.outbox.commands import app
from shared.postgres import producer


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [([], producer.ddl()), (["--email-model", "A"], producer.ddl(email_model="A"))],
)
def test_the_schema_is_printed_as_it_is_and_without_a_setting(arguments: list[str], printed: str) -> None:
    result = CliRunner().invoke(app, ["ddl", *arguments], env={"ULAK_POSTGRES_DSN": None})
    assert (result.exit_code, result.stdout) == (0, printed)


def test_or_as_json_with_its_version() -> None:
    result = CliRunner().invoke(app, ["ddl", "--json"])
    assert json.loads(result.stdout) == {"version": producer.VERSION, "sql": producer.ddl()}


def test_there_are_two_models() -> None:
    assert CliRunner().invoke(app, ["ddl", "--email-model", "C"]).exit_code == 2
