"""`python -m ops.cli`: the same as `ulak`, where the script is not installed."""

from ops.cli.main import run

run()
