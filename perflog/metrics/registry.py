"""What a metric is: a pure function from the tables of runs to one table, with its meaning beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from perflog.errors import UsageError, did_you_mean
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log


T = TypeVar("T")


@dataclass(frozen=True)
class MetricColumn:
    """A column of a metric's table: its base unit, which way is better (None: neither), what it says or its formula.

    `brief`: it is shown in text and Markdown; CSV and JSON hold all columns.
    """

    name: str
    unit: str = ""
    better: Literal["lower", "higher"] | None = None
    meaning: str = ""
    brief: bool = True

    @property
    def short(self) -> str:
        """The name where values are shown with their unit."""
        return self.name.removesuffix("_s") if self.unit == "s" else self.name


@dataclass(frozen=True)
class Options:
    """Options of all metrics.

    Args:
        warmup: Number of steps to cut at the start of each run. None: detected from the step times.
        gpu: Name of the GPU whose peak MFU is computed against, such as "H100 SXM". None: no MFU.
        peak_tflops: Dense peak of one GPU in TFLOP/s, instead of the peak that perflog knows for `gpu`.
        flops: Id of the FLOP convention. None: the convention that the log's format declares.
        level: Confidence level of intervals.
    """

    warmup: int | None = None
    gpu: str | None = None
    peak_tflops: float | None = None
    flops: str | None = None
    level: float = 0.95

    @classmethod
    def of(cls, **options: Any) -> Options:
        """Return options from keywords. Raises UsageError that names the nearest option for an unknown keyword."""
        known = [each.name for each in fields(cls)]
        for name in options:
            if name not in known:
                help = did_you_mean(name, known, f"there are: {', '.join(known)}")
                if name == "peak":  # its unit was FLOP/s: a value of former code must not pass as TFLOP/s
                    help = "give the dense peak of one device as `peak_tflops`, in TFLOP/s"
                raise UsageError(f"there is no option `{name}`", help=help)
        return cls(**options)


class Tables(Mapping[str, "pd.DataFrame"]):
    """Tables of some runs, by name, read once. Numbers are float64 with NaN for null, whole numbers nullable Int64.

    `computed` keeps what was made of them: metrics, pictures, findings and reports ask for the same again.
    """

    def __init__(self, given: Log | Mapping[str, pd.DataFrame]) -> None:
        self._given = given
        self._read: dict[str, pd.DataFrame] = {}
        self.computed: dict[Hashable, Any] = {}

    def by_run(self, name: str) -> dict[str, pd.DataFrame]:
        """The rows of each run that has any in a table, by run id."""
        return cached(self, ("by run", name), lambda: dict(iter(self[name].groupby("run", sort=False))))

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._read:
            self._read[name] = self._plain(name)
        return self._read[name]

    def _plain(self, name: str) -> pd.DataFrame:
        import pandas as pd

        if isinstance(self._given, Mapping):
            table = self._given.get(name, pd.DataFrame(columns=[c.name for c in TABLES[name]]))
        else:
            table = self._given.table(name)
        types = {c.name: c.type for c in TABLES[name]}
        floats = {n: "float64" for n in table.columns if types.get(n) == "float64"}
        whole = {n: "Int64" for n in table.columns if types.get(n) in ("int32", "int64")}
        text = {n: "object" for n in table.columns if types.get(n) in ("word", "text")}
        table = table.astype({**whole, **text})
        for name_ in floats:
            table[name_] = table[name_].to_numpy("float64", na_value=float("nan"))
        return table.where(table.notna(), None) if not len(table) else table

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)


def cached(tables: Mapping[str, pd.DataFrame], key: Hashable, make: Callable[[], T]) -> T:
    """What `make` gives; of `Tables` made once for each key."""
    if not isinstance(tables, Tables):
        return make()
    if key not in tables.computed:
        tables.computed[key] = make()
    made: T = tables.computed[key]
    return made


def merge_tables(logs: tuple[Log | Tables | Mapping[str, pd.DataFrame], ...]) -> Tables:
    """The tables of several logs as one. A run that is in several of them counts once."""
    each = [log if isinstance(log, Tables) else Tables(log) for log in logs]
    if len(each) == 1:
        return each[0]
    import pandas as pd

    new: list[set[str]] = []
    for one in each:
        new.append(set(one["runs"]["run"]).difference(*new))

    def joined(name: str) -> pd.DataFrame:
        parts = [one[name][one[name]["run"].isin(runs)] for one, runs in zip(each, new, strict=True)]
        return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)

    return Tables({name: joined(name) for name in TABLES})


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric, called with a log: `perflog.metrics.steps(log, warmup=3)` gives its table as a DataFrame.

    `needs`: tables without whose rows there is nothing to compute. `unit` and `better` are those of `main`, the column
    that stands for the metric.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    columns: tuple[MetricColumn, ...] = field(repr=False)
    main: str = field(repr=False)
    formula: str
    source: str
    compute: Callable[[Tables, Options], pd.DataFrame] = field(repr=False)

    @property
    def unit(self) -> str:
        return self.column(self.main).unit

    @property
    def better(self) -> str | None:
        return self.column(self.main).better

    def column(self, name: str) -> MetricColumn:
        return next(c for c in self.columns if c.name == name)

    def __call__(self, log: Log | Tables | Mapping[str, pd.DataFrame], **options: Any) -> pd.DataFrame:
        """The metric's table, one row per thing measured, for all runs of the log; no rows where its needs are not met.

        Keyword arguments are the fields of `Options`.
        """
        tables = log if isinstance(log, Tables) else Tables(log)
        return self.table(tables, Options.of(**options))

    def table(self, tables: Tables, options: Options) -> pd.DataFrame:
        """The same from tables and options."""
        return cached(tables, (self.name, options), lambda: self._computed(tables, options)).copy()

    def _computed(self, tables: Tables, options: Options) -> pd.DataFrame:
        import pandas as pd

        names = [c.name for c in self.columns]
        if any(not len(tables[name]) for name in self.needs):
            return pd.DataFrame(columns=names)
        found = self.compute(tables, options)
        assert list(found.columns) == names, (self.name, list(found.columns))
        return found.reset_index(drop=True)


def metric(
    title: str, needs: tuple[str, ...], columns: tuple[MetricColumn, ...], main: str, formula: str, source: str
) -> Callable[[Callable[[Tables, Options], pd.DataFrame]], Metric]:
    """Make a function a metric of its name. `perflog.metrics.METRICS` lists those of perflog."""

    def register(compute: Callable[[Tables, Options], pd.DataFrame]) -> Metric:
        made = Metric(compute.__name__, title, needs, columns, main, formula, source, compute)
        made.column(main)
        return made

    return register


def natural_sort_key(text: str) -> tuple[Any, ...]:
    """Sort key: numbers in a text by their value."""
    return tuple(int(x) if x.isdigit() else x for x in re.split(r"(\d+)", text))


RUN_COLUMNS = (
    MetricColumn("run", meaning="run id"),
    MetricColumn("label", meaning="name of the run, as the log or the user gave it"),
)
"""The columns every metric's table begins with."""
