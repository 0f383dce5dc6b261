"""`torchrun ... -m perflog.trainer RECIPE`: train a recipe on these ranks and print its log."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from perflog.errors import PerflogError, UsageError
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.recipes import MoeOptions, Recipe, check_sizes, load_recipe, parse_changes, recipe_names

REFERENCE = "reference"
"""The trainer's own dialect and the name of its format."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=f"Recipes: {', '.join(recipe_names())}")
@click.argument("name", metavar="RECIPE")
@click.option("--preset", default="default", help="Sizes: default, or paper for the sizes of the bundled logs.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Device.  [default: cuda if there is one]")
@click.option(
    "--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="Precision.  [default: the preset's]"
)
@click.option(
    "--parameters",
    type=click.Choice(["float32", "bfloat16"]),
    help="Dtype that parameters are kept in; bfloat16: with float32 copies in the optimizer.  [default: float32]",
)
@click.option("--steps", type=click.IntRange(1), help="Steps of each run.  [default: the preset's]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of parameters and data.")
@click.option("--scale", type=click.FloatRange(0, min_open=True), default=1.0, help="Factor of the model width.")
@click.option("--set", "changes", metavar="NAME=VALUE", multiple=True, help="A value of the recipe, such as overlap=2.")
@click.option("--dialect", type=click.Choice([REFERENCE, "original"]), default=REFERENCE, help="Line shapes to print.")
@click.option("--output", type=click.Path(path_type=Path), help="File for the Chrome trace. Recipe kernels only.")
def train(
    name: str,
    preset: str,
    device: str | None,
    dtype: str | None,
    parameters: str | None,
    steps: int | None,
    seed: int,
    scale: float,
    changes: tuple[str, ...],
    dialect: str,
    output: Path | None,
) -> None:
    """Train RECIPE and print its log to stdout. torchrun starts it on each rank; started alone, it is the only rank."""
    recipe = load_recipe(name)
    settings: dict[str, Any] = {"steps": steps, "seed": seed, "dtype": dtype, "scale": scale, "parameters": parameters}
    specs = list(recipe.specs(preset, **settings, changes=parse_changes(changes)))
    _check_options(recipe, specs[0].moe, dialect, output)
    for spec in specs:
        check_sizes(spec, int(os.environ.get("WORLD_SIZE", "1")), recipe.program)
    if find_spec("torch") is None:
        raise PerflogError("the trainer needs PyTorch, which is not installed", help="pip install torch")
    ranks = import_module("perflog.trainer.rank_context")
    program = import_module(f"perflog.trainer.{recipe.program}")
    with ranks.join_process_group(ranks.choose_device(device)) as context:
        if dialect == REFERENCE:
            traced = {"output": output} if output else {}
            program.run(specs, context, LogWriter(REFERENCE, context.rank), **traced)
        else:
            program.run(specs, context, LogWriter(recipe.like, context.rank), dialect=recipe.dialect)


def _check_options(recipe: Recipe, moe: MoeOptions, dialect: str, output: Path | None) -> None:
    """Raise UsageError for an option that the recipe does not support."""
    if dialect != REFERENCE and recipe.dialect is None:
        raise UsageError(f"recipe {recipe.name} has no original dialect", help="leave out --dialect")
    if dialect != REFERENCE and (moe.expert_matrices, moe.shared_experts) != (2, 0):
        raise UsageError("the original's rate counts chosen experts of two matrices", help="leave out --dialect")
    if output and recipe.program != "kernels":
        raise UsageError(f"recipe {recipe.name} writes no trace", help="leave out --output, or take recipe kernels")


def main() -> int:
    """Run the command and return its exit code.

    Every rank prints its error, even one that all ranks share: torchrun ends all ranks at the first exit. Ctrl-C ends
    the process at once, as SIGTERM does: Python would not run its own handler while the rank is inside a collective.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        train(standalone_mode=False)
    except click.ClickException as error:
        return _print_error(error.format_message(), error.exit_code)
    except PerflogError as error:
        return _print_error(str(error), error.code)
    return 0


def _print_error(message: str, code: int) -> int:
    rank = f" [rank {os.environ['RANK']}]" if "RANK" in os.environ else ""
    os.write(2, f"perflog:{rank} {message}\n".encode())
    return code


if __name__ == "__main__":
    sys.exit(main())
