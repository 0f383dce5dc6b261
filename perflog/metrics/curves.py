"""Curves: the series of numbers that runs print by name, such as losses, accuracies and evaluation results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.metrics.cases import case_tables
from perflog.metrics.options import Options
from perflog.metrics.possible import are_moments
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.series_ends import summary_samples, value_samples
from perflog.statistics.groups import Keys
from perflog.tables.columns import NULL, Rows

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("key", meaning="name of the series; `loss` without a name: the loss of the step lines"),
    MetricColumn(
        "of",
        meaning="curve; counter: whole numbers without a unit that rise, fall only to the smallest, and are not all "
        "powers of two; constant: printed several times, always the same; single: printed once; case: of no step, in a "
        "table of cases",
    ),
    MetricColumn("place", meaning="rank, stage or data-parallel rank that the values belong to; null: the run"),
    MetricColumn("unit", meaning="unit of its values; null: a plain number"),
    MetricColumn("n", meaning="number of printed values; NaN and infinity count nowhere"),
    MetricColumn("first", meaning="first value"),
    MetricColumn("last", meaning="last finite value"),
    MetricColumn("last_step", meaning="its step; null if the line prints none"),
    MetricColumn("min", meaning="smallest value"),
    MetricColumn("min_step", meaning="its step, the first of several"),
    MetricColumn("max", meaning="largest value"),
    MetricColumn("max_step", meaning="its step, the first of several"),
    MetricColumn("equal_step", meaning="last step at which each run with this series prints a value; null for one run"),
    MetricColumn("at_equal_step", meaning="value at this step"),
    MetricColumn("first_line", meaning="line of the first value", brief=False),
    MetricColumn("last_line", meaning="line of the last value", brief=False),
)

_SERIES = ["key", "place", "unit"]
_PLACES = ("rank", "stage", "dp_rank")
_TOGETHER = 1 << 19  # values: of a log of millions of steps, all series at once take more memory than all else


@metric(
    title="curves",
    needs=("runs",),
    columns=_COLUMNS,
    main="last",
    formula="first, last, smallest and largest value of a series, and its value at the last step that all runs print",
    source="values as printed; runs of different length are compared at an equal step",
    compares=(value_samples, summary_samples),
)
def curves(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """First, last, smallest and largest value of each series that a run prints by name, and of the loss of its steps.

    Curves come first, then counters and what never changes. Moments since 1970 are no series. Which way is better is
    not guessed: for some benchmarks an `accuracy` is a loss.

    Example:
        >>> table = perflog.metrics.curves(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> table.loc[table["key"] == "loss", ["n", "first", "last", "last_step"]]
            n  first  last  last_step
        ...
    """
    import pandas as pd

    if not (parts := [part for keys in _key_batches(tables) if len(part := _curves(printed_values(tables, keys)))]):
        return pd.DataFrame(columns=[c.name for c in _COLUMNS])
    table = pd.concat(parts, ignore_index=True).sort_values("first_line", kind="stable")
    of_cases = {(run, name) for run, found in case_tables(tables).items() for each in found for name in each.names}
    is_case = [pair in of_cases for pair in table[["run", "key"]].itertuples(index=False, name=None)]
    table.loc[np.array(is_case) & table["last_step"].isna(), "of"] = "case"
    runs = tables["runs"]
    table["label"] = table["run"].map(dict(zip(runs["run"], runs["label"], strict=True)))
    order = {run: place for place, run in enumerate(runs["run"])}
    table = table.iloc[np.lexsort((table["of"] != "curve", table["run"].map(order)))]
    steps = [name for name in table if name.endswith("_step") and name != "at_equal_step"]
    return table.astype(dict.fromkeys(steps, "Int64"))[[c.name for c in _COLUMNS]]


def _curves(values: pd.DataFrame) -> pd.DataFrame:
    """The rows of some series, without labels."""
    series = values.groupby(["run", *_SERIES], sort=False, observed=True)
    table = series.agg(
        n=("value", "size"), first=("value", "first"), last=("value", "last"), last_step=("step", _last),
        min=("value", "min"), max=("value", "max"), first_line=("line", "first"), last_line=("line", "last"),
    )  # fmt: skip
    for extreme, place in (("min", series["value"].idxmin()), ("max", series["value"].idxmax())):
        table[f"{extreme}_step"] = values["step"].reindex(place.to_numpy()).to_numpy()
    counts = _count_up(values).reindex(table.index).to_numpy(bool)
    table = table.reset_index().astype(dict.fromkeys(["run", *_SERIES], object))
    table = table.merge(_at_equal_step(values), "left", ["run", *_SERIES])
    table = table.replace({"place": {"": None}, "unit": {"": None}})
    kinds = {"single": table["n"] == 1, "constant": table["min"] == table["max"], "counter": counts}
    table["of"] = np.select(list(kinds.values()), list(kinds), "curve")
    return table


def _key_batches(tables: Tables) -> Iterator[list[str]]:
    """Yield the names of all series, as many at a time as have few enough values to be held together."""
    batch: list[str] = []
    values = 0
    for key, count in printed_counts(tables).items():
        if batch and values + count > _TOGETHER:
            yield batch
            batch, values = [], 0
        batch.append(key)
        values += count
    if batch:
        yield batch


def printed_counts(tables: Tables) -> dict[str, int]:
    """Return the name of each series, and how many rows have it: a few of them may hold no value."""
    counts = tables.rows("values").counts("key")
    losses = int(tables.rows("steps").known("loss").sum())
    return {**counts, "loss": counts.get("loss", 0) + losses} if losses else counts


def printed_values(tables: Tables, keys: Collection[str]) -> pd.DataFrame:
    """Return the values of these series in line order: run, key, place, unit, step, line and value.

    Strings are categories, since many rows share few of them. An empty `place` is the run itself, an empty unit a plain
    number; a step that the line does not print is NaN. Values on the line of a measured collective describe its
    message: they are no series.
    """
    import pandas as pd

    found = (table for listed in case_tables(tables).values() for table in listed)
    excluded = {name for table in found if table.is_by_column for name in table.names}  # quantities, on no one axis
    printed, steps = tables.rows("values"), tables.rows("steps")
    printed = printed.where(printed.one_of("key", {*keys} - excluded))
    parts = [_printed_by_name(printed), _losses(steps if "loss" in keys else steps.where(np.zeros(0, np.int64)))]
    texts = ("run", "place", "key", "unit")
    values = pd.DataFrame(
        {
            **{name: _category([part.texts[name] for part in parts]) for name in texts},
            **{name: np.concatenate([part.numbers[name] for part in parts]) for name in parts[0].numbers},
        },
        copy=False,
    )
    del parts
    if len(measured := tables.rows("collectives")) and len(values):
        lines = pd.MultiIndex.from_arrays([measured["run"], measured["line"]])
        values = values[~pd.MultiIndex.from_frame(values[["run", "line"]]).isin(lines)]
    return values if values["line"].is_monotonic_increasing else values.sort_values("line", kind="stable")


_Texts = tuple[Keys, list[str]]
"""A column of strings as codes, and the strings."""


class _Values(Struct, frozen=True):
    """Values of series as columns: strings, and numbers."""

    texts: Mapping[str, _Texts]
    numbers: Mapping[str, npt.NDArray[Any]]


def _printed_by_name(rows: Rows) -> _Values:
    """The numbers of table `values` that are no moments."""
    rows = rows.where(np.isfinite(rows["value"]) & ~are_moments(rows["value"]))
    codes, units = rows.codes("unit")
    return _values(rows, "value", _PLACES, rows.codes("key"), (np.where(codes < 0, len(units), codes), [*units, ""]))


def _losses(rows: Rows) -> _Values:
    rows = rows.where(np.isfinite(rows["loss"]))
    same = np.zeros(len(rows), np.int64)
    return _values(rows, "loss", ("rank",), (same, ["loss"]), (same, [""]))


def _values(rows: Rows, column: str, places: Sequence[str], keys: _Texts, units: _Texts) -> _Values:
    """A column of rows as values of these keys and units; a null step is NaN."""
    step = np.where(rows["step"] == NULL, np.nan, rows["step"].astype(np.float64))
    texts = {"run": rows.codes("run"), "place": _places(rows, places), "key": keys, "unit": units}
    return _Values(texts, {"step": step, "line": rows["line"], "value": rows[column]})


def _category(columns: Sequence[_Texts]) -> pd.Categorical:
    """Return one categorical of several columns of strings, one after the other."""
    import pandas as pd

    places: dict[str, int] = {}
    parts = []
    for codes, words in columns:
        numbers_of_words = np.array([places.setdefault(word, len(places)) for word in words], np.int32)
        parts.append(numbers_of_words[codes])
    return pd.Categorical.from_codes(np.concatenate(parts), list(places))


def _places(rows: Rows, names: Sequence[str]) -> _Texts:
    """Return what the values belong to; an empty string for the run."""
    codes, words = np.zeros(len(rows), np.int64), [""]
    for name in names:
        known = rows.known(name)
        if not known.any():
            continue
        numbers, inverse = np.unique(rows[name][known], return_inverse=True)
        parts = ["", *(f"{name} {number}" for number in numbers.tolist())]
        codes *= len(parts)
        codes[known] += inverse + 1
        used, codes = np.unique(codes, return_inverse=True)
        both = ((words[code // len(parts)], parts[code % len(parts)]) for code in used.tolist())
        words = [", ".join(filter(None, texts)) for texts in both]
    return codes, words


def _count_up(values: pd.DataFrame) -> pd.Series[bool]:
    """Whether each series counts, by run and series: a loss scale, a power of two, does not."""
    names = ["run", *_SERIES]
    series = values.groupby(names, sort=False, observed=True)["value"]
    value = values["value"].to_numpy()
    change = series.diff().to_numpy()
    falls = (change < 0) & (value > series.transform("min").to_numpy())
    measured = falls | (value % 1 != 0) | (values["unit"] != "").to_numpy()
    marked = values[names].assign(measured=measured, power_of_two=np.frexp(value)[0] == 0.5, rises=change > 0)
    groups = marked.groupby(names, sort=False, observed=True)
    flags = groups.agg({"measured": "any", "power_of_two": "all", "rises": "any"})
    return flags["rises"] & ~(flags["measured"] | flags["power_of_two"])


def _last(steps: pd.Series[float]) -> float:
    return float(steps.iloc[-1])


def _at_equal_step(values: pd.DataFrame) -> pd.DataFrame:
    """Run, series, `equal_step` and `at_equal_step` of the series that several runs print."""
    import pandas as pd

    names = ["run", *_SERIES]
    columns = [*names, "equal_step", "at_equal_step"]
    if values["run"].nunique() == 1:  # nothing is sorted for it
        return pd.DataFrame({name: pd.Series(dtype=object if name in names else float) for name in columns})
    printed = values[values["step"].notna()].drop_duplicates([*names, "step"], keep="last")
    runs = values.groupby(_SERIES, observed=True)["run"].nunique().rename("runs")
    at_step = printed.groupby([*_SERIES, "step"], observed=True)["run"].size().rename("with_step").reset_index()
    at_step = at_step.merge(runs.reset_index(), on=_SERIES)
    shared = at_step[(at_step["runs"] > 1) & (at_step["with_step"] == at_step["runs"])]
    last = shared.groupby(_SERIES, observed=True)["step"].max().rename("equal_step").reset_index()
    rows = printed.merge(last, on=_SERIES)
    rows = rows[rows["step"] == rows["equal_step"]].rename(columns={"value": "at_equal_step"})
    return rows[columns].astype(dict.fromkeys(names, object))
