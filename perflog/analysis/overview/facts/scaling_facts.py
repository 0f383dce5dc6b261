"""Scaling facts, in sentences: what more GPUs bring to the runs of a folder, and another schedule to a pipeline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from perflog.analysis.overview.parts import percent
from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables
from perflog.metrics.many_runs.scaling import model_text
from perflog.metrics.many_runs.scaling_losses import Loss, losses
from perflog.metrics.many_runs.scaling_studies import Study, studies, table_studies
from perflog.metrics.pipelines.schedule_simulation import ONE_F_ONE_B
from perflog.metrics.pipelines.schedules import TIMED, ScheduleRow, schedule_rows
from perflog.metrics.step_time.run_rates import sized_runs
from perflog.units import count, show

_LITTLE = 1.1  # times as fast with more GPUs: less brings nothing worth them
_LOSS = 0.01  # of the GPU time of a unit: less is not shown
_TOLD = 0.1  # of what is lost: a part of less belongs to the rest
_MOST_LOSSES = 4  # in a sentence
_MOST_STUDIES = 4  # of tables, in sentences
_TRUSTED = 0.1  # relative error of the GPU time of the largest size, as the smaller ones predict it


def scaling_facts(tables: Tables, options: Options) -> Iterator[str]:
    """Yield how the runs of each mode scale: a study alone with its sizes, several with the best and the worst."""
    found = studies(tables, options)
    for mode in dict.fromkeys(study.mode for study in found):
        mode_studies = [study for study in found if study.mode == mode]
        yield _several(mode_studies) if len(mode_studies) > 1 else _single(mode_studies[0])
        worst = min(mode_studies, key=lambda study: study.efficiency(study.sizes[-1]))
        yield from _lost(worst, losses(tables, worst, options), is_alone=len(mode_studies) == 1)


def scaling_of_tables(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (all facts take the same)
    """Yield how the sizes scale that a run prints as rows of a table, such as results of a benchmark."""
    found = [study for study in table_studies(tables) if run in study.runs[study.sizes[0]]]
    for study in found[:_MOST_STUDIES]:
        of = f"{study.name}: " if study.name and len(found) > 1 else ""
        yield f"{of}{_single(study)}"
    if len(found) > _MOST_STUDIES:
        yield f"{len(found) - _MOST_STUDIES} more scaling studies."


def by_size(groups: Sequence[RunGroup], tables: Tables, options: Options) -> list[RunGroup]:
    """Return the rows of runs that include scaling studies, with their number of GPUs and batch as settings."""
    found, sizes = studies(tables, options), sized_runs(tables)
    settings_of = {run: study.settings for study in found for runs in study.runs.values() for run in runs}
    names = list(dict.fromkeys(name for study in found for name in study.settings))
    rows = []
    for group in groups:
        run = group.runs[0]
        settings = {"gpus": str(sizes[run].gpus), "batch": show(sizes[run].batch, "", 6)} if run in sizes else {}
        settings |= settings_of.get(run, {})
        rows.append(replace(group, settings={name: settings.get(name, "-") for name in ("gpus", "batch", *names)}))
    return rows


def _title(study: Study) -> str:
    return f"{study.mode.capitalize()} scaling" if study.mode else "Scaling (no batch is printed)"


def _single(study: Study) -> str:
    first, last = study.sizes[0], study.sizes[-1]
    at = ", ".join(f"{size:,} GPUs {percent(study.efficiency(size))}" for size in study.sizes[1:])
    speedup = f"{_times(study.speedup(last))} times as fast on {last:,}"
    start = count(first, "GPU")
    return f"{_title(study)} from {start}: {speedup}; efficiency {at}{_stops(study)}{_prediction(study)}."


def _times(speedup: float) -> str:
    return f"{speedup:.2f}" if speedup < 100 else f"{speedup:,.0f}"


def _several(mode_studies: Sequence[Study]) -> str:
    low, high = (each(mode_studies, key=lambda study: study.efficiency(study.sizes[-1])) for each in (min, max))
    sizes = {study.sizes[-1] for study in mode_studies}
    at = f"on {max(sizes):,} GPUs" if len(sizes) == 1 else "on the most GPUs"
    ends = [f"{percent(each.efficiency(each.sizes[-1]))} ({each.name})" for each in (low, high)]
    stops = _stops(low, " the lowest")
    return f"{_title(low)}, {len(mode_studies)} studies: efficiency {at} {' to '.join(ends)}{stops}."


def _lost(study: Study, found: Sequence[Loss], is_alone: bool) -> Iterator[str]:
    """What the largest size loses, if it loses something: the largest parts, then the rest."""
    last = study.sizes[-1]
    total = 1 - study.efficiency(last)
    if not found or total < _LOSS:
        return
    by_name: dict[str, float] = {}
    for each in found:
        if each.size == last:
            name = _name(each)
            by_name[name] = by_name.get(name, 0.0) + each.lost
    ranked = sorted(((lost, name) for name, lost in by_name.items()), reverse=True)
    told = [(lost, name) for lost, name in ranked[:_MOST_LOSSES] if lost >= max(_LOSS, _TOLD * total)]
    if told:
        rest = total - math.fsum(lost for lost, _ in told)
        parts = [f"{percent(lost)} {name}" for lost, name in told] + [f"{percent(rest)} the rest"] * (
            abs(rest) >= _LOSS
        )
        of = "" if is_alone or not study.name else f" ({study.name})"
        yield f"Of the {percent(total)} lost on {last:,} GPUs{of}: {', '.join(parts)}."


def _name(loss: Loss) -> str:
    """The phase, where the bar does not show what the time is for."""
    if loss.bar == "unattributed":
        return "untimed"
    return loss.part.replace("_", " ") if loss.bar in ("compute", "mixed") else loss.bar


def _stops(study: Study, which: str = "") -> str:
    """From which size on more GPUs bring next to nothing. Of two sizes, the speedup says it. `which` of several."""
    for size, larger in pairwise(study.sizes if len(study.sizes) > 2 else ()):
        if study.speeds[larger] < _LITTLE * study.speeds[size]:
            times = study.speeds[larger] / study.speeds[size]
            return f";{which} from {size:,} to {larger:,} GPUs {times:.2f} times as fast"
    return ""


def _prediction(study: Study) -> str:
    """What twice the GPUs would bring, if the smaller sizes predict the largest one."""
    size, error = 2 * study.sizes[-1], study.error
    cost = study.predicted(size, study.sizes)
    if error is None or abs(error) > _TRUSTED or cost is None:
        return ""
    return (
        f"; predicted for {size:,}: {percent(study.cost(study.sizes[0]) / cost)} (GPU time of a unit = "
        f"{model_text(study.growth(study.sizes))}; "
        f"fitted to the smaller sizes it misses {study.sizes[-1]:,} by {abs(100 * error):.1f} %)"
    )


# --- schedules of pipelines ------------------------------------------------------------------------------------------

_BETTER = 0.01  # of the step: a smaller gain is not worth another schedule


def schedules(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield the idle share under the schedule of a run, under better ones, and with more micro-batches."""
    rows = [row for row in schedule_rows(tables, options) if row.run == run]
    if not rows:
        return
    own = [row for row in rows if row.micro_batches == rows[0].micro_batches]
    now = next((row for row in own if row.used), None)
    base = now or next(row for row in own if row.schedule == ONE_F_ONE_B)
    unsaid = "" if now is not None else ", if that is its schedule"
    stages = "equal stages"
    if base.of == TIMED:
        stages = f"its stages as timed{', the backward as twice the forward' if base.backward_by_rule else ''}"
    text = (
        f"Pipeline of {base.stages} stages and {base.micro_batches:,} micro-batches, simulated with {stages}: "
        f"{_share(base)} idle under {base.schedule}{unsaid}"
    )
    others = []
    cheap = [row for row in own if row.activations <= base.activations and row.copies <= base.copies]
    best = min(cheap, key=_idle)
    if base.idle - best.idle >= _BETTER:
        others.append(f"{_share(best)} under {best.schedule} with the same memory")
    large = min(own, key=_idle)
    if best.idle - large.idle >= _BETTER:
        more = "two copies of the parameters" if large.copies > base.copies else "more activations"
        others.append(f"{_share(large)} under {large.schedule} with {more}")
    more_batches = (row for row in rows if row.micro_batches > base.micro_batches)
    twice = next((row for row in more_batches if row.schedule == base.schedule), None)
    if twice is not None and base.idle - twice.idle >= _BETTER:
        others.append(f"{_share(twice)} with {twice.micro_batches:,} micro-batches of half the size")
    yield f"{text}; {', '.join(others)}." if others else f"{text}."


def _idle(row: ScheduleRow) -> float:
    return row.idle


def _share(row: ScheduleRow) -> str:
    return show(row.idle, "1", 3)
