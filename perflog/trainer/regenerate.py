"""Recipes of the reference trainer, run on this machine: train, read the log, hold it against the bundled runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from perflog.errors import UsageError
from perflog.trainer.launch import SILENCE, TORCHRUN, RankOptions, launch, stderr_file
from perflog.trainer.recipes import ModelSizes, Recipe, RunSpec, check_sizes, load_recipe, recipe_names

if TYPE_CHECKING:
    from perflog.log import Log
    from perflog.output.sheets import Sheet
    from perflog.tables.sink import IngestResult

PROGRAM = ("-m", "perflog.trainer")
"""What torchrun starts on each rank."""

FULL = "paper"
"""The preset with the sizes of the bundled runs."""

_SIZES = {field.name for field in fields(ModelSizes)}  # settings that make a model of another size, or its batch

_SETTINGS = 8  # settings that differ of which the summary tells


@dataclass(frozen=True)
class RegenerationPlan:
    """What will be run: the runs of a recipe, on which ranks, and the file for their log."""

    recipe: Recipe
    specs: tuple[RunSpec, ...]
    arguments: tuple[str, ...]
    ranks: RankOptions
    log: Path
    full: bool  # whether the sizes are those of the bundled runs


@dataclass(frozen=True)
class ReferenceComparison:
    """A run and the bundled run that is nearest to it: the measure they share, both centres in base units, and how many
    times better the new one is. `settings` that both logs tell of differ; `original`: the bundled run is one of an
    original log.
    """

    run: str
    reference: str
    metric: str
    unit: str
    value: float
    reference_value: float
    ratio: float
    settings: tuple[str, ...]
    original: bool


# --- what there is ------------------------------------------------------------------------------------------------


def recipe_sheet() -> Sheet:
    """The recipes: how many runs each makes, on how many ranks, and the format of the logs that it is like."""
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
    **asked: Any,
) -> RegenerationPlan:
    """Check what is asked for. `asked`: device, dtype, steps, seed, scale, dialect, output, as the trainer takes them;
    None is its own choice. `options` are torchrun's. Raises UsageError if sizes do not fit, or the log is there.
    """
    chosen = load_recipe(name)
    given = {key: value for key, value in asked.items() if value is not None}
    sizes = {"steps": None, "seed": 0, "dtype": None, "scale": 1.0}
    specs = tuple(chosen.specs(preset, **sizes | {k: v for k, v in given.items() if k in sizes}))
    count = ranks or chosen.ranks(preset)
    if given.get("dialect") == "original" and chosen.dialect is None:
        raise UsageError(f"recipe {name} has no original dialect", help="leave out --dialect")
    if given.get("output") and chosen.program != "kernels":
        raise UsageError(f"recipe {name} makes no trace", help="leave it out, or take recipe kernels")
    if not options:  # else only torchrun knows how many ranks there are
        for spec in specs:
            check_sizes(spec, count, chosen.program)
    now = datetime.now().astimezone()
    log = log or Path(f"{name}-{now:%Y%m%d-%H%M%S}.log")
    if log.is_file() and log.stat().st_size:
        raise UsageError("there is a log of that name", str(log), "name another one, or remove it")
    words = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    full = preset == FULL and given.get("scale", 1.0) == 1.0
    return RegenerationPlan(
        chosen, specs, (name, "--preset", preset, *words), RankOptions(count, tuple(options), silence), log, full
    )


# --- running it ---------------------------------------------------------------------------------------------------


def train(
    plan: RegenerationPlan,
    told: Callable[[str], None] | None = None,
    program: Sequence[str] = PROGRAM,
    launcher: Sequence[str] = TORCHRUN,
) -> None:
    """Run it. `told` gets each line of the log. Raises what `launch` raises; what was printed is in the log."""
    launch([*program, *plan.arguments], plan.ranks, plan.log, told, launcher)


class StepCounter:
    """Counts the steps of a plan from the lines of its log, in whatever format it is: `told` gets how many are done."""

    def __init__(self, specs: Sequence[RunSpec], told: Callable[[int], None]) -> None:
        from perflog.formats.registry import known

        lines = [line for format in known().values() for line in format.lines if line.read]
        self._begins = [line.template for line in lines if line.opens == "run"]
        self._steps = [line.template for line in lines if line.table == "steps" and "step" in line.template.names]
        self._before = [0, *accumulate(spec.steps for spec in specs)]  # steps before each run
        self._run = self._done = 0
        self._told = told

    @property
    def total(self) -> int:
        return self._before[-1]

    def __call__(self, line: str) -> None:
        """Take the next line."""
        if any(template.match(line) is not None for template in self._begins):
            self._run += 1
        for template in self._steps:
            if (said := template.match(line)) is not None:
                before = self._before[min(max(self._run, 1), len(self._before) - 1) - 1]
                done = min(before + int(said["step"]) + 1, self.total)
                if done > self._done:  # every rank may print the step
                    self._done = done
                    self._told(done)


# --- what it gave -------------------------------------------------------------------------------------------------


def ingest(plan: RegenerationPlan, store: str) -> IngestResult:
    """Read the log into a store. Raises what is wrong with it."""
    from perflog.ingestion.bulk import IngestTask, ingest_log
    from perflog.parsing.input.log_names import LogName
    from perflog.tables.sink import IngestResult

    done = ingest_log(LogName.of_file(str(plan.log)), IngestTask(store))
    if not isinstance(done, IngestResult):
        raise done
    return done


def compare_with_references(
    plan: RegenerationPlan, done: IngestResult, store: str
) -> tuple[Log, list[ReferenceComparison]]:
    """The runs of a log in the store, and each of them beside the bundled run of its kind that shares most settings
    with it: one that the trainer made of the same recipe on the same kind of device, else, and for full sizes, one of
    the original logs. Runs without one are left out of the list.
    """
    from perflog.log import load, reference

    ids = {row["run"] for row in done.runs}
    every, bundled = load(store), reference()
    mine = every.select(*(run for run in every.run_keys if run.id in ids))
    known = _settings(bundled)
    found: list[ReferenceComparison] = []
    for run, said in _settings(mine).items():
        own = [other for other in known if not plan.full and _same_recipe(known[other], said)]
        same = own or [other for other in known if known[other]["format"] == plan.recipe.like]
        if same:
            near = max(same, key=lambda other: _alike(known[other], said))
            found += _compare_run(bundled.select(near), mine.select(run), not own)
    return mine, found


def _compare_run(bundled: Log, mine: Log, original: bool) -> Iterator[ReferenceComparison]:
    from perflog.analysis.compare import compare
    from perflog.log import REFERENCE

    try:
        found = compare(bundled, mine)
    except UsageError:  # no figure in common
        return
    (run,), (other,) = mine.run_keys, bundled.run_keys
    base, side = found.sides
    differ = tuple(row["setting"] for row in found.setting_records if "-" not in (row[base], row[side]))
    for row in found.headlines:
        values = row["metric"], row["unit"], row["side_value"], row["base_value"], row["ratio"]
        yield ReferenceComparison(run.id, f"{REFERENCE}{other.log}#{other.index}", *values, differ, original)


def _settings(log: Log) -> dict[str, dict[str, Any]]:
    """What is said of each run, by id."""
    rows = log.arrow("runs").select(["run", "format", "model", "world_size", "device", "dtype", "config"]).to_pylist()
    return {row.pop("run"): {**json.loads(row.pop("config") or "{}"), **row} for row in rows}


def _same_recipe(bundled: Mapping[str, Any], said: Mapping[str, Any]) -> bool:
    return said.get("recipe") is not None and all(bundled.get(key) == said.get(key) for key in ("recipe", "device"))


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return sum(value is not None and other.get(key) == value for key, value in one.items())


def summary_sheets(
    plan: RegenerationPlan, done: IngestResult, mine: Log, held: Sequence[ReferenceComparison], store: str
) -> Iterator[Sheet]:
    """What was read, the runs beside the bundled ones, and what to do next."""
    from perflog.output.presenters.runs import ingest_sheet

    yield ingest_sheet(done)
    yield _runs(plan, mine, held)
    yield _next(plan, mine, held, store)


def _runs(plan: RegenerationPlan, mine: Log, held: Sequence[ReferenceComparison]) -> Sheet:
    from perflog.metrics import steps
    from perflog.output.sheets import Quantity, sheet

    table = steps(mine)
    steady = table[(table["of"] == "step_time") & (table["part"] == "steady")]
    medians = dict(zip(steady["run"], steady["median_s"], strict=True))
    near = {one.run: one for one in held}
    rows: list[tuple[Any, ...]] = []
    for run in mine.run_keys:
        if (one := near.get(run.id)) is not None:
            values = Quantity(one.value, one.unit), one.reference, Quantity(one.reference_value, one.unit), one.ratio
            rows.append((run.id, run.label, one.metric, *values))
        elif run.id in medians:
            rows.append((run.id, run.label, "step_time", Quantity(medians[run.id], "s"), None, None, None))
    columns = "run label measure median# reference its_median# ratio#"
    return sheet("runs", columns, rows, "medians after the warm-up, beside the nearest bundled run", _note(plan, held))


def _note(plan: RegenerationPlan, held: Sequence[ReferenceComparison]) -> str:
    if not held:
        return "no bundled run has a figure in common with it"
    notes = ["ratio above 1: better than the bundled run"]
    differ = list(dict.fromkeys(name for one in held for name in one.settings))
    if not plan.full and (any(one.original for one in held) or _SIZES & {*differ}):
        notes[0] += (
            ", but its model is of another size: the ratio says little; --preset paper takes those of the originals"
        )
    if differ:
        more = f" and {len(differ) - _SETTINGS} more" if len(differ) > _SETTINGS else ""
        notes.append(f"settings that differ: {', '.join(differ[:_SETTINGS])}{more}")
    return "\n".join(notes)


def _next(plan: RegenerationPlan, mine: Log, held: Sequence[ReferenceComparison], store: str) -> Sheet:
    from perflog.output.sheets import pairs
    from perflog.tables.store import default_store

    there = "" if store == default_store() else f" -o {quote(store)}"
    first = mine.run_keys[0].id
    rows = [("log", str(plan.log))]
    if stderr_file(plan.log).is_file():
        rows.append(("standard error", str(stderr_file(plan.log))))
    rows += [
        ("store", store),
        ("look", f"perflog analyze{there} {first}"),
        ("check", f"perflog lint {quote(str(plan.log))}"),
    ]
    if plan.recipe.plain:
        rows.append(("layer", f"perflog analyze{there} {first} matmul_efficiency"))
    rows += [("compare", f"perflog compare{there} {quote(one.reference)} {one.run}") for one in held[:1]]
    return pairs("next", rows, "and now")


def write_report(plan: RegenerationPlan, held: Sequence[ReferenceComparison], file: Path) -> None:
    """Write a report of the log and the bundled runs beside it: HTML, or Markdown by the file's name."""
    from perflog.output.report import report

    references = dict.fromkeys(one.reference for one in held)
    format: Literal["html", "md"] = "md" if file.suffix == ".md" else "html"
    # The command has printed the warnings about this log already.
    report(*references, str(plan.log), output=file, format=format, on_warning=lambda _: None)
