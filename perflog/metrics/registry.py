"""Building blocks of metrics: the decorator `metric`, the class `Metric`, and the columns of its table.

A metric is a pure function from the tables of runs to one table. The decorator puts title, columns, formula and source
beside the function, and gives it the signature and the documentation that users see.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from perflog.metrics.compared import ComparedColumn, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables, cached, tables_of
from perflog.tables.nulls import as_types, copied, nullable_frame
from perflog.units import plural

if TYPE_CHECKING:
    from typing import Never

    import pandas as pd

    from perflog.opening.given_runs import Given


class MetricColumn(Struct, frozen=True):
    """A column of a metric's table.

    `unit`: base unit of its values. `better`: which way is better, or None. `meaning`: what it holds, or its formula.
    `brief`: tables on the screen and in Markdown show it; CSV and JSON have all columns. `type`: the pandas type of its
    values, "float64" by default for values with a unit; "" if it follows from the values: none of them is null.
    """

    name: str
    unit: str = ""
    better: Literal["lower", "higher"] | None = None
    meaning: str = ""
    brief: bool = True
    type: Literal["", "Int64", "float64", "boolean", "bool", "object"] = ""

    @property
    def dtype(self) -> str:
        """The pandas type of its values; "" if it follows from them."""
        return self.type or ("float64" if self.unit else "")

    @property
    def short(self) -> str:
        """The name without its unit, for tables that show values with their unit."""
        return self.name.removesuffix("_s") if self.unit == "s" else self.name


def column(
    meaning: str, unit: str = "", better: Literal["lower", "higher"] | None = None, brief: bool = True
) -> MetricColumn:
    """Return what a field of a row holds, for its `Annotated` type."""
    return MetricColumn("", unit, better, meaning, brief)


def columns_of(row_type: type[Struct]) -> tuple[MetricColumn, ...]:
    """Return the columns of a table of such rows: the fields that say what they hold."""
    hints = get_type_hints(row_type, include_extras=True)
    held = ((name, getattr(hints[name], "__metadata__", None)) for name in row_type.__struct_fields__)
    return tuple(replace(metadata[0], name=name) for name, metadata in held if metadata is not None)


RUN_COLUMNS = (
    MetricColumn("run", meaning="run id"),
    MetricColumn("label", meaning="name of the run, from the log or from the user"),
)
"""The first columns of each metric's table."""


MetricRows: TypeAlias = "Iterable[Mapping[str, Any]] | Iterable[tuple[Any, ...]] | Iterable[pd.DataFrame]"
"""What a metric's function returns: rows by column name or in the order of the columns, or tables of rows.

Rows by column name and tables of rows need not have the label of their run.
"""

Sampler = Callable[[Tables, Steady], Iterator[Sample]]
"""A function that yields the samples of runs in their steady steps."""


class Metric(Struct, frozen=True, eq=False, dict=True):
    """A metric, called like a function: `perflog.metrics.steps(log, warmup=3)` returns its table.

    `help()` and `inspect.signature()` of a metric show its keywords, its columns and an example.

    Attributes:
        name: Name of the metric, as in `METRICS` and on the command line.
        title: What it measures, in a few words.
        needs: Tables without which there is nothing to compute.
        columns: Columns of its table, with units.
        main: Name of the main column; `unit` and `better` are the unit and direction of this column.
        formula: How the values are computed.
        source: Where formula and thresholds are from.
        compute: The function from tables and options to the rows of the table.
        compares: What comparisons read of it: columns of its table, or functions where they take a value of each step.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    columns: tuple[MetricColumn, ...]
    main: str
    formula: str
    source: str
    compute: Callable[[Tables, Options], MetricRows]
    compares: tuple[ComparedColumn | Sampler, ...] = ()

    def __post_init__(self) -> None:
        show_as_function(self, self.compute, _documentation(self), call_signature(Metric.__call__))

    def __repr__(self) -> str:
        unit = f" in {self.unit}" if self.unit else ""
        return f"<metric {self.name}: {self.title}; main column {self.main}{unit}>"

    @property
    def summary(self) -> str:
        """First paragraph of the function's docstring, on one line."""
        return " ".join((inspect.getdoc(self.compute) or "").partition("\n\n")[0].split())

    @property
    def unit(self) -> str:
        """Unit of the main column."""
        return self.column(self.main).unit

    @property
    def better(self) -> str | None:
        """Which way of the main column is better: lower, higher or None."""
        return self.column(self.main).better

    def column(self, name: str) -> MetricColumn:
        return next(c for c in self.columns if c.name == name)

    def __call__(  # noqa: PLR0913 (all are keywords that a user sees in `help`)
        self,
        log: Given | Tables | Mapping[str, pd.DataFrame],
        *,
        warmup: int | None = None,
        gpu: str | None = None,
        peak_tflops: float | None = None,
        flops: str | None = None,
        level: float = 0.95,
        targets: Mapping[str, float] | None = None,
        gpu_hour: float | None = None,
        **unknown: Never,
    ) -> pd.DataFrame:
        """Return the metric's table for all runs of a log.

        Args:
            log: What `perflog.read` or `perflog.load` returns, or its tables by name; or a path, a glob, a DataFrame, a
                list of these, or a mapping of names to them.
            warmup: Number of steps to cut at the start of each run. None: detected from the step times.
            gpu: Name of the GPU, such as "H100 SXM": MFU is relative to its peak. None: no MFU.
            peak_tflops: Dense peak of one GPU in TFLOP/s, instead of the peak that perflog knows for `gpu`.
            flops: Id of the FLOP convention. None: the convention that the log's format declares.
            level: Confidence level of intervals.
            targets: Values to reach, by the name of the series, of metric `time_to_target`: {"val_loss": 3.28}.
            gpu_hour: Price of one GPU for an hour, in any currency, for metrics `energy` and `scaling`. None: no cost.
            **unknown: Nothing: any other keyword raises UsageError, which names the nearest option.

        Returns:
            One row per thing measured, with the columns of `Metric.columns`, in nullable types; a missing value is
            `pd.NA`. No rows if a table of `needs` is empty.

        Raises:
            UsageError: If an option does not exist or its value has no meaning, such as an unknown GPU.
        """
        options = Options.of(
            warmup=warmup, gpu=gpu, peak_tflops=peak_tflops, flops=flops, level=level, targets=targets,
            gpu_hour=gpu_hour, **unknown,
        )  # fmt: skip
        tables = tables_of(log)
        return nullable_frame(copied(self.table(tables, options)))

    def table(self, tables: Tables, options: Options) -> pd.DataFrame:
        """Return the metric's table from tables and options. Each is computed once: nobody writes to it."""
        found = self._found(tables, options)
        return _no_rows(self.columns) if found is None else found

    def has_rows(self, tables: Tables, options: Options) -> bool:
        """Return whether the metric's table has rows. Nothing imports pandas where it has none."""
        found = self._found(tables, options)
        return found is not None and len(found) > 0

    def table_of(self, run: str, tables: Tables, options: Options) -> pd.DataFrame:
        """Return the rows of a run of the metric's table. Nobody writes to them."""
        table = self.table(tables, options)
        if not len(table) or (is_of_run := table["run"] == run).all():  # most logs have a single run
            return table
        return table[is_of_run]

    def samples(self, tables: Tables, steady: Steady) -> Iterator[Sample]:
        """Yield what comparisons read of the metric."""
        if any(not tables.count(name) for name in self.needs):
            return
        for compared in self.compares:
            if not isinstance(compared, ComparedColumn):
                yield from compared(tables, steady)
            elif self.has_rows(tables, Options()):
                yield from compared.samples(self.table(tables, Options()))

    def _found(self, tables: Tables, options: Options) -> pd.DataFrame | None:
        """The metric's table, None without rows."""

        def computed() -> pd.DataFrame | None:
            rows = list(self.compute(tables, options)) if all(map(tables.count, self.needs)) else []
            return metric_table(self.columns, rows, tables) if rows else None

        return cached(tables, (self.name, options), computed)


def metric_table(columns: Sequence[MetricColumn], rows: MetricRows, tables: Tables) -> pd.DataFrame:
    """Return rows as a table with these columns, in their types. Rows without the label of their run get it."""
    found: list[Any] = list(rows)
    labels = tables.labels() if found else {}
    if found and isinstance(found[0], dict):
        found = [{"label": labels.get(row.get("run")), **row} for row in found]
    elif found and not isinstance(found[0], tuple):
        found = [part if "label" in part else part.assign(label=list(map(labels.get, part["run"]))) for part in found]
    return _typed(columns, found) if found else _no_rows(tuple(columns))


@cache
def _no_rows(columns: tuple[MetricColumn, ...]) -> pd.DataFrame:
    """Return a table without rows. Most metrics of a log have none, and to make a table takes a millisecond."""
    return _typed(columns, [])


def _typed(columns: Sequence[MetricColumn], rows: list[Any]) -> pd.DataFrame:
    import pandas as pd

    names = [column.name for column in columns]
    if rows and isinstance(rows[0], pd.DataFrame):
        table = pd.concat(rows, ignore_index=True).reindex(columns=names)
    else:
        table = pd.DataFrame(rows, columns=names)
    types = {column.name: column.dtype for column in columns if column.dtype}
    strings = [str(name) for name, dtype in table.dtypes.items() if isinstance(dtype, pd.StringDtype)]
    return as_types(
        table, dict.fromkeys(strings, "object") | types
    )  # pandas chooses rows of objects three times faster


def metric(
    title: str,
    needs: tuple[str, ...],
    columns: tuple[MetricColumn, ...],
    main: str,
    formula: str,
    source: str,
    compares: tuple[ComparedColumn | Sampler, ...] = (),
) -> Callable[[Callable[[Tables, Options], MetricRows]], Metric]:
    """Make a function a metric of its name. `perflog.metrics.METRICS` lists the metrics that perflog has.

    The docstring of the function: what one row is, then what the reader has to know, then `Example:` if
    a bundled log has rows. Arguments and columns are added to it.
    """

    def decorate(compute: Callable[[Tables, Options], MetricRows]) -> Metric:
        decorated = Metric(compute.__name__, title, needs, columns, main, formula, source, compute, compares)
        decorated.column(main)  # fails here if there is no such column
        return decorated

    return decorate


class MetricList(dict[str, Metric]):
    """Metrics by name. It prints itself as one line of names."""

    def __repr__(self) -> str:
        return f"<{len(self)} metrics: {', '.join(self)}>"


def show_as_function(
    instance: object, function: Callable[..., Any], documentation: str, signature: inspect.Signature
) -> None:
    """Give a callable object the name and module of a function, so that `help()` shows it as that function.

    functools.wraps does the same, but cannot set attributes of a frozen dataclass.
    """
    vars(instance).update(
        __name__=function.__name__,
        __qualname__=function.__name__,
        __module__=function.__module__,
        __wrapped__=function,  # doctest finds the example through it
        __doc__=documentation,
        __signature__=signature,
    )


def call_signature(call: Callable[..., Any], types: Mapping[str, Any] | None = None) -> inspect.Signature:
    """Return the signature of a call, without `self` and the catch-all for unknown keywords.

    Args:
        call: The method `__call__`.
        types: Types of keywords that are not fields of `Options`.
    """
    signature = inspect.signature(call)
    known_types = {**get_type_hints(Options), **(types or {})}  # as types, not as strings: `warmup: int | None`
    known = [p for name, p in signature.parameters.items() if name not in ("self", "unknown")]
    return signature.replace(parameters=[p.replace(annotation=known_types.get(p.name, p.annotation)) for p in known])


def _documentation(metric: Metric) -> str:
    """Return the docstring of a metric: its function's, with Args, Returns and Raises before the example.

    A metric without rows in a bundled log has its call as the example.
    """
    text, _, example = (inspect.getdoc(metric.compute) or "").partition("\nExample:\n")
    log = "trace.json" if "events" in metric.needs else "run.txt"
    example = example or f'    >>> table = perflog.metrics.{metric.name}(perflog.read("{log}"))'
    types = {name: p.annotation for name, p in inspect.signature(Metric.__call__).parameters.items()}
    meanings = dict(re.findall(r"^ +(\w+): (.+)$", Options.__doc__ or "", re.MULTILINE))
    arguments = {"log": "A log, or tables by name.", **meanings}
    args = [f"    {name} ({types[name]}): {meaning}" for name, meaning in arguments.items()]
    columns = [f"    - `{c.name}`{f' ({c.unit})' if c.unit else ''}: {c.meaning}" for c in metric.columns]
    raises = "    UsageError: If an option does not exist or its value has no meaning, such as an unknown GPU."
    needs = f"; no rows without {plural('table', len(metric.needs))} {', '.join(metric.needs)}" if metric.needs else ""
    sections = [
        text.strip(),
        f"Formula: {metric.formula}.",
        "\n".join(["Args:", *args]),
        "\n".join([f"Returns:\n    DataFrame with these columns{needs}:\n", *columns]),
        f"Raises:\n{raises}",
    ]
    return "\n\n".join([*sections, f"Example:\n{example}"]) + "\n"
