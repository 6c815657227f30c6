"""`ulak` loads what was called, and has all of it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ops.cli.main import COMMANDS, build


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_called_by_its_name_when_it_is_the_only_one_loaded(name: str) -> None:
    result = CliRunner().invoke(build(name), [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"ulak {name}" in result.output


def test_help_lists_all_commands() -> None:
    result = CliRunner().invoke(build(*COMMANDS), ["--help"])
    assert {line.split()[0] for line in result.output.partition("Commands:")[2].splitlines() if line} == set(COMMANDS)


def test_a_command_does_not_load_the_others() -> None:
    program = "import sys; from ops.cli.main import build; build('topics'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "ops.cli.topics" in loaded
    assert not {"ops.cli.database", "ops.demo.commands", "ops.dev.commands", "asyncpg", "httpx"} & set(loaded)
