"""Composition root: `python -m ops.simulator`."""

import typer

from ops.simulator.commands import simulator


def main() -> None:
    typer.run(simulator)


if __name__ == "__main__":
    main()
