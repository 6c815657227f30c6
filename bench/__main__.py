"""`python -m bench [--only push,otp]`: run benches on the servers the environment names (`make bench` starts them).

Prints one line each and writes all to `bench/results/<time>.json`. Exits with 1 when a result is wrong; a ratio below
the table's first column is marked, not an error, because machines are noisy.
"""

import importlib
import pkgutil
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer
import uvloop
from rich.console import Console

import bench
from bench.harness import Bench, Result, Servers, WrongResultError, run_bench


def benches() -> dict[str, Bench]:
    """Every module beside this one that has a `BENCH`, by its name."""
    found: dict[str, Bench] = {}
    for module_info in pkgutil.iter_modules(bench.__path__):
        if module_info.name not in {"harness", "__main__"}:
            module = importlib.import_module(f"bench.{module_info.name}")
            if isinstance(getattr(module, "BENCH", None), Bench):
                found[module.BENCH.name] = module.BENCH
    return found


def line(result: Result) -> str:
    limit = "" if result.limit is None else f"  limit {result.limit:,.4g}"
    ratio = "" if result.ratio is None else f"  ratio {result.ratio:.2f}"
    named = (("first", result.first), ("goal", result.goal))
    bounds = [f"{name} {bound:g}" for name, bound in named if bound is not None]
    aims = f" ({', '.join(bounds)})" if bounds else ""
    mark = {True: "  reached", False: "  NOT REACHED", None: ""}[result.reached]
    cost = (
        ""
        if result.cpu_sec_per_100k is None
        else f"  {result.cpu_sec_per_100k:.1f} CPU s/100k  {result.peak_mib:.0f} MiB"
    )
    noisy = f"  (other load: {result.foreign_load:.1f} cores)" if result.foreign_load > 1 else ""
    notes = "".join(f"\n    {note}" for note in result.notes)
    return f"{result.name:14} {result.figure:,.4g} {result.unit}{limit}{ratio}{aims}{mark}{cost}{noisy}{notes}"


def main(only: Annotated[str, typer.Option(help="Names, separated by commas.")] = "") -> None:
    console = Console(highlight=False, soft_wrap=True)
    known = benches()
    wanted = [name for name in only.replace(" ", "").split(",") if name] or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        console.print(f"no bench named {', '.join(unknown)}; there are {', '.join(known)}")
        raise typer.Exit(2)
    results: list[Result] = []
    wrong = False
    for name in wanted:
        try:
            result = uvloop.run(run_bench(known[name], Servers.from_environment()))
        except WrongResultError as error:
            console.print(f"{name:14} WRONG RESULT: {error}")
            wrong = True
        else:
            results.append(result)
            console.print(line(result))
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.write_bytes(orjson.dumps([asdict(result) for result in results], option=orjson.OPT_INDENT_2))
    console.print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
