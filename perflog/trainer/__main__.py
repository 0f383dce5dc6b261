"""`torchrun ... -m perflog.trainer RECIPE`: train a recipe on these ranks and print its log."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from perflog.errors import PerflogError, UsageError
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.recipes import Recipe, check_sizes, load_recipe, recipe_names

REFERENCE = "reference"
"""The trainer's own dialect, and the format it prints."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=f"Recipes: {', '.join(recipe_names())}")
@click.argument("name", metavar="RECIPE")
@click.option("--preset", default="default", help="Sizes: default, or paper for those of the bundled logs.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Else a GPU where there is one.")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="Else the preset's.")
@click.option("--steps", type=click.IntRange(1), help="Steps of each run; else the preset's.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of parameters and data.")
@click.option("--scale", type=click.FloatRange(0, min_open=True), default=1.0, help="Width of the models, times this.")
@click.option("--dialect", type=click.Choice([REFERENCE, "original"]), default=REFERENCE, help="Line shapes to print.")
@click.option("--output", type=click.Path(path_type=Path), help="File for the Chrome trace (recipe kernels).")
def train(
    name: str,
    preset: str,
    device: str | None,
    dtype: str | None,
    steps: int | None,
    seed: int,
    scale: float,
    dialect: str,
    output: Path | None,
) -> None:
    """Train RECIPE and print its log to stdout. Started by torchrun on each rank, or alone as one rank."""
    chosen = load_recipe(name)
    specs = list(chosen.specs(preset, steps=steps, seed=seed, dtype=dtype, scale=scale))
    _fits(chosen, dialect, output)
    for spec in specs:
        check_sizes(spec, int(os.environ.get("WORLD_SIZE", "1")), chosen.program)
    if find_spec("torch") is None:
        raise PerflogError("the trainer needs PyTorch, which is not installed", help='pip install "perflog-ml[train]"')
    ranks = import_module("perflog.trainer.rank_context")
    program = import_module(f"perflog.trainer.{chosen.program}")
    with ranks.join_process_group(ranks.choose_device(device)) as context:
        if dialect == REFERENCE:
            traced = {"output": output} if output else {}
            program.run(specs, context, LogWriter(REFERENCE, context.rank), **traced)
        else:
            program.run(specs, context, LogWriter(chosen.like, context.rank), dialect=chosen.dialect)


def _fits(chosen: Recipe, dialect: str, output: Path | None) -> None:
    """Raises UsageError for an option that the recipe does not have."""
    if dialect != REFERENCE and chosen.dialect is None:
        raise UsageError(f"recipe {chosen.name} has no original dialect", help="leave out --dialect")
    if output and chosen.program != "kernels":
        raise UsageError(f"recipe {chosen.name} makes no trace", help="leave out --output, or take recipe kernels")


def main() -> int:
    """Run the command. Every rank tells its error, also one that all share: torchrun ends them all at the first exit.

    Ctrl-C ends the process at once, as SIGTERM does: a rank inside a collective would not see Python's own handler.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        train(standalone_mode=False)
    except click.ClickException as error:
        return _tell(error.format_message(), error.exit_code)
    except PerflogError as error:
        return _tell(str(error), error.code)
    return 0


def _tell(message: str, code: int) -> int:
    who = f" [rank {os.environ['RANK']}]" if "RANK" in os.environ else ""
    os.write(2, f"perflog:{who} {message}\n".encode())
    return code


if __name__ == "__main__":
    sys.exit(main())
