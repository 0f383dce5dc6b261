"""Runs a recipe of the reference trainer on this machine, reads its log and compares it with the bundled runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from perflog.errors import UsageError
from perflog.trainer.launch import SILENCE, TORCHRUN, RankOptions, launch, stderr_file
from perflog.trainer.recipes import (
    ModelSizes,
    Recipe,
    RunSpec,
    check_sizes,
    load_recipe,
    parse_changes,
    recipe_names,
)
from perflog.units import first_few

if TYPE_CHECKING:
    from perflog.log import Log
    from perflog.output.sheets import Sheet
    from perflog.tables.sink import IngestResult

PROGRAM = ("-m", "perflog.trainer")
"""The program that torchrun starts on each rank."""

FULL = "paper"
"""The preset with the sizes of the bundled runs."""

_SIZES = {field.name for field in fields(ModelSizes)}  # settings of the size of a model or its batch

_MAX_SETTINGS = 8  # number of different settings that the summary names


class RegenerationPlan(Struct, frozen=True):
    """What to run: the runs of a recipe, the ranks, and the log file."""

    recipe: Recipe
    specs: tuple[RunSpec, ...]
    arguments: tuple[str, ...]  # of the trainer
    ranks: RankOptions
    log: Path
    full: bool  # whether the sizes are the sizes of the bundled runs


class ReferenceComparison(Struct, frozen=True):
    """A new run and the nearest bundled run, compared by one measure."""

    run: str
    reference: str  # name of the bundled run
    metric: str
    unit: str
    value: float  # centre of the new run, in base units
    reference_value: float
    change: float  # this run / the bundled one - 1
    settings: tuple[str, ...]  # settings that both logs have, with different values
    original: bool  # the bundled run is from an original log


# --- planning ------------------------------------------------------------------------------------------------


def recipe_sheet() -> Sheet:
    """Return the table of recipes: their runs, ranks, steps, and the format of the original logs."""
    from perflog.output.sheets import sheet

    rows = []
    for one in map(load_recipe, recipe_names()):
        specs = list(one.specs(steps=None, seed=0, dtype=None, scale=1.0))
        time = one.presets["default"].get("seconds")
        rows.append((one.name, one.title, one.ranks(), len(specs), specs[0].steps, time, one.like))
    columns = "recipe title ranks# runs# steps# seconds# like"
    note = (
        "ranks, steps and seconds of the default preset, on two CPU cores; `perflog regenerate RECIPE` runs one;\n"
        "--preset paper takes the sizes of the bundled runs, for GPUs"
    )
    return sheet("recipes", columns, rows, note=note)


def make_plan(
    name: str,
    preset: str = "default",
    ranks: int | None = None,
    log: Path | None = None,
    options: Sequence[str] = (),
    silence: float | None = SILENCE,
    changes: Sequence[str] = (),
    **asked: Any,
) -> RegenerationPlan:
    """Check the options and return the plan of a regeneration.

    Args:
        name: Name of the recipe.
        preset: Sizes of the model: default or paper.
        ranks: Number of ranks on this machine; None: as in the preset.
        log: Log file to write; None names it after recipe and time.
        options: Options of torchrun.
        silence: Seconds without output that mean a hang; None sets no limit.
        changes: Values of the recipe that are set anew, each NAME=VALUE.
        asked: Options of the trainer: device, dtype, parameters, steps, seed, scale, dialect, output. None leaves the
            choice to it.

    Raises:
        UsageError: if the sizes do not fit together, or the log exists already.
    """
    chosen = load_recipe(name)
    given = {key: value for key, value in asked.items() if value is not None}
    sizes = {"steps": None, "seed": 0, "dtype": None, "scale": 1.0, "parameters": None}
    values = {k: v for k, v in given.items() if k in sizes}
    specs = tuple(chosen.specs(preset, **sizes | values, changes=parse_changes(changes)))
    count = ranks or chosen.ranks(preset)
    if given.get("dialect") == "original" and chosen.dialect is None:
        raise UsageError(f"recipe {name} has no original dialect", help="leave out --dialect")
    if given.get("output") and chosen.program != "kernels":
        raise UsageError(f"recipe {name} writes no trace", help="leave it out, or take recipe kernels")
    if not options:  # with options only torchrun knows the number of ranks
        for spec in specs:
            check_sizes(spec, count, chosen.program)
    now = datetime.now().astimezone()
    log = log or Path(f"{name}-{now:%Y%m%d-%H%M%S}.log")
    if log.is_file() and log.stat().st_size:
        raise UsageError("this log exists already", str(log), "name another one, or remove it")
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    words += [word for change in changes for word in ("--set", change)]
    full = preset == FULL and given.get("scale", 1.0) == 1.0 and not changes
    return RegenerationPlan(
        chosen, specs, (name, "--preset", preset, *words), RankOptions(count, tuple(options), silence), log, full
    )


# --- running ---------------------------------------------------------------------------------------------------


def train(
    plan: RegenerationPlan,
    on_line: Callable[[str], None] | None = None,
    program: Sequence[str] = PROGRAM,
    launcher: Sequence[str] = TORCHRUN,
) -> None:
    """Run the plan. `on_line` gets each line of the log. Raises the errors of `launch`; the log keeps all output."""
    launch([*program, *plan.arguments], plan.ranks, plan.log, on_line, launcher)


class StepCounter:
    """Counts the finished steps of a plan from the lines of its log, in any format. `on_progress` gets the count."""

    def __init__(self, specs: Sequence[RunSpec], on_progress: Callable[[int], None]) -> None:
        from perflog.formats.registry import known

        lines = [line for format in known().values() for line in format.lines if line.read]
        self._begins = [line.template for line in lines if line.opens == "run"]
        self._steps = [line.template for line in lines if line.table == "steps" and "step" in line.template.names]
        self._before = [0, *accumulate(spec.steps for spec in specs)]  # steps before each run
        self._run = self._done = 0
        self._on_progress = on_progress

    @property
    def total(self) -> int:
        return self._before[-1]

    def __call__(self, line: str) -> None:
        """Read the next line of the log."""
        if any(template.match(line) is not None for template in self._begins):
            self._run += 1
        for template in self._steps:
            if (values := template.match(line)) is not None:
                before = self._before[min(max(self._run, 1), len(self._before) - 1) - 1]
                done = min(before + int(values["step"]) + 1, self.total)
                if done > self._done:  # every rank may print the step
                    self._done = done
                    self._on_progress(done)


# --- results -------------------------------------------------------------------------------------------------


def ingest(plan: RegenerationPlan, store: str) -> IngestResult:
    """Read the log into a store. Raises the error of a log that cannot be read."""
    from perflog.ingestion.bulk import IngestTask, ingest_log
    from perflog.parsing.input.log_names import LogName
    from perflog.tables.sink import IngestResult

    result = ingest_log(LogName.from_file(str(plan.log)), IngestTask(store))
    if not isinstance(result, IngestResult):
        raise result
    return result


def compare_with_references(
    plan: RegenerationPlan, done: IngestResult, store: str
) -> tuple[Log, list[ReferenceComparison]]:
    """Compare each run of the new log with the bundled run of its kind that shares most settings with it.

    That is a trainer run of the same recipe on the same kind of device; if there is none, or for full sizes, a run of
    an original log. Returns the new runs and the comparisons; runs without a bundled run have none.
    """
    from perflog.opening import load, reference

    ids = {row["run"] for row in done.runs}
    stored, bundled = load(store), reference()
    mine = stored.select(*(run for run in stored.run_keys if run.id in ids))
    known = _settings(bundled)
    comparisons: list[ReferenceComparison] = []
    for run, settings in _settings(mine).items():
        by_trainer = [other for other in known if not plan.full and _same_recipe(known[other], settings)]
        candidates = by_trainer or [other for other in known if known[other]["format"] == plan.recipe.like]
        if candidates:
            nearest = max(candidates, key=lambda other: _equal_settings(known[other], settings))
            comparisons += _compare_run(bundled.select(nearest), mine.select(run), not by_trainer)
    return mine, comparisons


def _compare_run(bundled: Log, mine: Log, original: bool) -> Iterator[ReferenceComparison]:
    """Yield a comparison for each headline measure; nothing if the runs share no measure."""
    from perflog.analysis.compare import compare
    from perflog.parsing.input.log_names import REFERENCE

    try:
        comparison = compare(bundled, mine)
    except UsageError:  # no metric in common
        return
    (run,), (other,) = mine.run_keys, bundled.run_keys
    base, side = comparison.sides
    differ = tuple(row.setting for row in comparison.setting_records if "-" not in (row.values[base], row.values[side]))
    for row in comparison.headlines[:1]:  # the median; with one run a side the other figures add nothing
        values = row.metric, row.unit, row.side_value, row.base_value, row.change
        yield ReferenceComparison(run.id, f"{REFERENCE}{other.log}#{other.index}", *values, differ, original)


def _settings(log: Log) -> dict[str, dict[str, Any]]:
    """Return the settings of each run, by id."""
    rows = log.arrow("runs").select(["run", "format", "model", "world_size", "device", "dtype", "config"]).to_pylist()
    return {row.pop("run"): {**json.loads(row.pop("config") or "{}"), **row} for row in rows}


def _same_recipe(bundled: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    return settings.get("recipe") is not None and all(
        bundled.get(key) == settings.get(key) for key in ("recipe", "device")
    )


def _equal_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Count the settings with equal values."""
    return sum(value is not None and other.get(key) == value for key, value in one.items())


def summary_sheets(
    plan: RegenerationPlan, done: IngestResult, mine: Log, comparisons: Sequence[ReferenceComparison], store: str
) -> Iterator[Sheet]:
    """Return what was read, the runs next to the bundled ones, and the commands to try next."""
    from perflog.output.presenters.runs import ingest_sheet

    yield ingest_sheet(done)
    yield _runs_sheet(plan, mine, comparisons)
    yield _next_sheet(plan, mine, comparisons, store)


def _runs_sheet(plan: RegenerationPlan, mine: Log, comparisons: Sequence[ReferenceComparison]) -> Sheet:
    from perflog.metrics import steps
    from perflog.output.sheets import Quantity, sheet

    table = steps(mine)
    steady = table[(table["of"] == "step_time") & (table["part"] == "steady")]
    medians = dict(zip(steady["run"], steady["median_s"], strict=True))
    comparison_of = {one.run: one for one in comparisons}
    rows: list[tuple[Any, ...]] = []
    for run in mine.run_keys:
        if (one := comparison_of.get(run.id)) is not None:
            values = Quantity(one.value, one.unit), one.reference, Quantity(one.reference_value, one.unit)
            rows.append((run.id, run.label, one.metric, *values, Quantity(one.change, "1")))
        elif run.id in medians:
            rows.append((run.id, run.label, "step_time", Quantity(medians[run.id], "s"), None, None, None))
    columns = "run label measure median# reference its_median# change#"
    return sheet(
        "runs",
        columns,
        rows,
        "medians after the warm-up, beside the nearest bundled run",
        _comparison_note(plan, comparisons),
    )


def _comparison_note(plan: RegenerationPlan, comparisons: Sequence[ReferenceComparison]) -> str:
    if not comparisons:
        return "no bundled run has a metric in common with it"
    notes = ["change: this run / the bundled run - 1"]
    differ = list(dict.fromkeys(name for one in comparisons for name in one.settings))
    if not plan.full and (any(one.original for one in comparisons) or _SIZES & {*differ}):
        notes[0] += (
            ", but its model is of another size: the change says little; --preset paper takes the original sizes"
        )
    if differ:
        notes.append(f"settings that differ: {first_few(differ, _MAX_SETTINGS)}")
    return "\n".join(notes)


def _next_sheet(plan: RegenerationPlan, mine: Log, comparisons: Sequence[ReferenceComparison], store: str) -> Sheet:
    from perflog.output.sheets import pairs
    from perflog.tables.store import default_store

    store_option = "" if store == default_store() else f" --store {quote(store)}"
    first = mine.run_keys[0].id
    rows = [("log", str(plan.log))]
    if stderr_file(plan.log).is_file():
        rows.append(("standard error", str(stderr_file(plan.log))))
    rows += [
        ("store", store),
        ("look", f"perflog analyze{store_option} {first}"),
        ("check", f"perflog lint {quote(str(plan.log))}"),
    ]
    if plan.recipe.plain:
        rows.append(("layer", f"perflog analyze{store_option} {first} matmul_efficiency"))
    rows += [("compare", f"perflog compare{store_option} {quote(one.reference)} {one.run}") for one in comparisons[:1]]
    return pairs("next", rows, "and now")


def write_report(plan: RegenerationPlan, comparisons: Sequence[ReferenceComparison], file: Path) -> None:
    """Write a report of the log and the bundled runs: Markdown if the file ends in .md, else HTML."""
    from perflog.output.report import report

    references = dict.fromkeys(one.reference for one in comparisons)
    format: Literal["html", "md"] = "md" if file.suffix == ".md" else "html"
    # The command has printed the warnings about this log already.
    report(*references, str(plan.log), output=file, format=format, on_warning=lambda _: None)
