"""Every number of `perflog analyze LOG waterfall` of the five logs, recomputed from their lines.

Each bar has its own formula in `perflog analyze`; here it is written out once more. See `support.screen_numbers`.
"""

from __future__ import annotations

from statistics import mean

from support.raw_logs import (
    RawRun,
    epoch_lines,
    executed_rows,
    mean_phase,
    mean_step,
    modelled_pipeline,
    moe_runs,
    slowest_minus_mean,
    sweep_runs,
)
from support.screen_numbers import Screen, waterfall_screen
from support.seeds import path


def explain_bars(screen: Screen, run: str, bars: dict[str, float], count: int, warm_up: float = 0.0) -> None:
    """The bars of one run in their order, what they leave of the mean steady step, and the warm-up.

    Shares are of the mean of all steps, and of the mean of the steady ones, which has no warm-up.
    """
    steady = sum(bars.values())
    whole = steady + warm_up
    for bar, time in bars.items():
        words = f"{run}step {bar} <> <> <> <> <name> <>\n"
        screen.explain(words, time, time / whole, time / steady, whole, count)
    if warm_up:
        screen.explain(f"{run}step warm-up <> <> - <> <name> <>\n", warm_up, warm_up / whole, whole, count)


def bars_of_the_benchmark(run: RawRun) -> dict[str, float]:
    """Phases by what they do. Padding is a share of those that do the work: gather, scatter and weight gradient.

    Of the rows that a rank executes, the rate counts `samples` tokens, each for `topK` experts.
    """
    steps = run.steady
    counted = int(run.settings["samples"]) * int(run.settings["topK"])
    padded = 1 - counted / mean(executed_rows(steps))
    kernels = mean_phase(steps, "AG", 1) + mean_phase(steps, "GA", 1)
    weight_grad, other = mean_phase(steps, "prep_back", 2), mean_phase(steps, "prep_back", 3)
    prepare = [("prep", 0), ("prep_back", 0)]
    inner = [*prepare, ("AG", 1), ("GA", 1), ("prep_back", 2), ("prep_back", 3)]
    bars = {
        "compute": weight_grad * (1 - padded) + other,
        "padding": (kernels + weight_grad) * padded,
        "mixed": kernels * (1 - padded),
        "preparation": sum(mean_phase(steps, *place) for place in prepare),
        "unequal ranks": sum(slowest_minus_mean(steps, *place) for place in inner),
        "waits": mean_phase(steps, "wait", 1),
    }
    return bars | {"unattributed": mean_step(steps) - sum(bars.values())}


def test_every_number_of_the_waterfall_of_the_benchmark() -> None:
    """000: four runs, whose marks are their places in the log."""
    screen = waterfall_screen(path("moe_layer"))
    for place, run in enumerate(moe_runs("moe_layer"), 1):
        warm_up = mean(run.times) - mean_step(run.steady)
        explain_bars(screen, f"#{place} ", bars_of_the_benchmark(run), len(run.steady), warm_up)
    screen.all_explained()


def bars_of_two_phases(run: RawRun) -> dict[str, float]:
    """Forward and backward, of which the log does not say what they hold, and the rest of the step."""
    mixed = mean(step.forward + step.backward for step in run.steady)
    return {"mixed": mixed, "unattributed": mean_step(run.steady) - mixed}


def test_every_number_of_the_waterfall_of_the_early_benchmark() -> None:
    """001: one run."""
    screen, (run,) = waterfall_screen(path("moe_layer_early")), moe_runs("moe_layer_early")
    warm_up = mean(run.times) - mean_step(run.steady)
    explain_bars(screen, "", bars_of_two_phases(run), len(run.steady), warm_up)
    screen.all_explained()


def test_every_number_of_the_waterfall_of_the_sweep() -> None:
    """002: nine runs, whose names hold a number."""
    screen = waterfall_screen(path("training_sweep"))
    for run in sweep_runs():
        name = run.settings["name"]
        warm_up = mean(run.times) - mean_step(run.steady)
        explain_bars(screen, f"{name} ", bars_of_two_phases(run), len(run.steady), warm_up)
        screen.named(f"\n{name} ")
    screen.all_explained()


def test_the_profile_has_no_waterfall() -> None:
    """003: a table of nvprof has no clock, and no bar that could be wrong."""
    screen = waterfall_screen(path("nvprof"))
    assert "these runs have no data to compute it from" in screen.text
    screen.all_explained()


def test_every_number_of_the_waterfall_of_the_pipeline() -> None:
    """004: the schedule as modelled from the layers, in the mean of the steps after the line that covers two."""
    screen, modelled = waterfall_screen(path("pipeline_layers")), modelled_pipeline()
    steps = [line.time for line in epoch_lines()[1:]]
    bars = {"compute": modelled.busy, "unequal stages": modelled.unequal, "pipeline ramp": modelled.ramp}
    explain_bars(screen, "", bars | {"unattributed": mean(steps) - modelled.makespan}, len(steps))
    screen.all_explained()
