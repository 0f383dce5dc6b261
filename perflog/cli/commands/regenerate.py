"""`perflog regenerate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from perflog.cli import options
from perflog.errors import UsageError


@click.command()
@click.argument("recipe", required=False)
@click.argument("torchrun", nargs=-1, metavar="[-- TORCHRUN-OPTION...]")
@click.option("--preset", metavar="NAME", default="default", show_default=True, help="Sizes: default, or paper.")
@click.option("--ranks", type=click.IntRange(1), metavar="N", help="Ranks on this machine.  [default: the preset's]")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="[default: cuda where there is one]")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="[default: the preset's]")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Steps of each run.  [default: the preset's]")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of parameters and data.  [default: 0]")
@click.option("--scale", type=click.FloatRange(0, min_open=True), metavar="X", help="Model width, times this.")
@click.option(
    "--dialect", type=click.Choice(["reference", "original"]), help="Line shapes: original for the benchmark's."
)
@click.option("--trace", type=click.Path(), metavar="FILE", help="Write a Chrome trace as well: recipe kernels.")
@click.option("-o", "--store", metavar="STORE", help="Where to store.  [default: PERFLOG_STORE, or .perflog]")
@click.option("--log", type=click.Path(path_type=Path), metavar="FILE", help="The log.  [default: RECIPE-TIME.log]")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="Write a report: .html, or .md.")
@click.option("--timeout", type=click.FloatRange(1), metavar="S", help="No output for so long: hangs.  [default: 300]")
@options.print_format
def regenerate(
    recipe: str | None,
    torchrun: tuple[str, ...],
    store: str | None,
    report: Path | None,
    timeout: float | None,
    trace: str | None,
    format: str,
    **given: Any,
) -> None:
    """Run a RECIPE of the reference trainer on this machine; read its log; hold it against the bundled run of its kind.

    Without a RECIPE the recipes are listed. Options behind -- are torchrun's, for several nodes. Needs PyTorch:
    pip install 'perflog-ml[train]'
    """
    from perflog.output import sheets
    from perflog.tables.store import default_store
    from perflog.trainer import regenerate as recipes
    from perflog.trainer.launch import SILENCE

    if recipe is None:
        sheets.write([recipes.recipes()], format)
        return
    if torchrun and not torchrun[0].startswith("-"):
        raise UsageError(f"one recipe at a time: `{torchrun[0]}` is another", help="torchrun's options stand behind --")
    this = recipes.plan(recipe, options=torchrun, silence=timeout or SILENCE, output=trace, **given)
    _train(this)
    home = store or default_store()
    done = recipes.keep(this, home)
    mine, held = recipes.beside(this, done, home)
    for text in done.warnings:
        sheets.warn(f"{this.log}: {text}")
    sheets.write(list(recipes.summary(this, done, mine, held, home)), format)
    if report is not None:
        recipes.write_report(this, held, report)
        click.echo(report, err=format != "text")


def _train(this: Any) -> None:
    from perflog.cli import progress
    from perflog.output import sheets
    from perflog.trainer import regenerate

    try:
        with progress.steps(sum(job.steps for job in this.jobs), this.recipe.name) as told:
            regenerate.train(this, told and regenerate.Steps(this.jobs, told))
    except KeyboardInterrupt:
        sheets.warn(f"interrupted: all ranks are ended; what they printed is in {this.log}")
        raise
