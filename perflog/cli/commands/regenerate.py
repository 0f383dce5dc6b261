"""`perflog regenerate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perflog.cli import completion, options
from perflog.errors import UsageError
from perflog.output import terminal

if TYPE_CHECKING:
    from perflog.trainer.regenerate import RegenerationPlan


@click.command(
    short_help="Run the reference trainer here, and compare its run.",
    epilog=options.examples(
        "perflog regenerate moe-layer --steps 20", "perflog regenerate sweep --ranks 2 --device cpu"
    ),
)
@click.argument("recipe", shell_complete=completion.recipes, required=False)
@click.argument("torchrun", nargs=-1, metavar="[-- TORCHRUN-OPTION...]")
@click.option(
    "--preset", metavar="NAME", default="default", show_default=True, help="Sizes of the model: default or paper."
)
@click.option(
    "--ranks", type=click.IntRange(1), metavar="N", help="Number of ranks on this machine.  [default: the preset's]"
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Device.  [default: cuda if there is one]")
@click.option(
    "--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="Precision.  [default: the preset's]"
)
@click.option(
    "--parameters",
    type=click.Choice(["float32", "bfloat16"]),
    help="Dtype that parameters are kept in; bfloat16: with float32 copies in the optimizer.  [default: float32]",
)
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Steps of each run.  [default: the preset's]")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of parameters and data.  [default: 0]")
@click.option(
    "--scale", type=options.FiniteRange(0, 1e6, min_open=True), metavar="X", help="Factor of the model width."
)
@click.option(
    "--set",
    "changes",
    metavar="NAME=VALUE",
    multiple=True,
    help="A value of the recipe: overlap=2.",
)
@click.option(
    "--dialect",
    type=click.Choice(["reference", "original"]),
    help="Line shapes: the reference's or the original benchmark's.",
)
@click.option("--trace", type=click.Path(), metavar="FILE", help="Write a Chrome trace too. Recipe kernels only.")
@options.store
@click.option(
    "--log", type=click.Path(path_type=Path), metavar="FILE", help="Log file to write.  [default: RECIPE-TIME.log]"
)
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="Write a report: .html or .md.")
@click.option(
    "--timeout",
    type=options.FiniteRange(1),
    metavar="S",
    help="Seconds without output after which the run counts as hung.  [default: 300]",
)
@options.print_format
def regenerate(
    recipe: str | None,
    torchrun: tuple[str, ...],
    store: str | None,
    report: Path | None,
    timeout: float | None,
    trace: str | None,
    format: str,
    **settings: Any,
) -> None:
    """Run a RECIPE of the reference trainer on this machine, read its log, and compare it with the bundled run.

    Without RECIPE, list the recipes. Options after -- go to torchrun, for several nodes. Needs PyTorch:
    pip install torch
    """
    from perflog.output import sheets
    from perflog.tables.store import default_store
    from perflog.trainer import regenerate as recipes
    from perflog.trainer.launch import SILENCE

    if recipe is None:
        sheets.write([recipes.recipe_sheet()], format)
        return
    if torchrun and not torchrun[0].startswith("-"):
        raise UsageError(f"one recipe at a time: `{torchrun[0]}` is another", help="options of torchrun go after --")
    plan = recipes.make_plan(recipe, options=torchrun, silence=timeout or SILENCE, output=trace, **settings)
    _train(plan)
    home = store or default_store()
    result = recipes.ingest(plan, home)
    new_runs, comparisons = recipes.compare_with_references(plan, result, home)
    for text in result.warnings:
        sheets.warn(f"{plan.log}: {text}")
    sheets.write(list(recipes.summary_sheets(plan, result, new_runs, comparisons, home)), format)
    if report is not None:
        recipes.write_report(plan, comparisons, report)
        terminal.put(str(report), err=format != "text")


def _train(plan: RegenerationPlan) -> None:
    from perflog.cli.progress import step_progress
    from perflog.output import sheets
    from perflog.trainer import regenerate

    try:
        with step_progress(sum(spec.steps for spec in plan.specs), plan.recipe.name) as advance:
            regenerate.train(plan, advance and regenerate.StepCounter(plan.specs, advance))
    except KeyboardInterrupt:
        sheets.warn(f"interrupted: all ranks have ended; their output is in {plan.log}")
        raise
