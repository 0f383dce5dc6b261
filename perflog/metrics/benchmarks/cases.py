"""Cases of a benchmark: values that a log prints over parameters, such as message sizes, shapes or chunk sizes.

A record that prints parameters and measured values together, and belongs to no step, is one measurement. Records with
the same names are a table of cases. Its parameters are the leading names that together identify each case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import chain, pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.bars import OF_BARS
from perflog.formats.families.name_units import split_unit
from perflog.formats.families.title_lines import TABLE_TITLE
from perflog.formats.vocabulary import EVALUATIONS, MOMENTS, STATISTIC
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.benchmarks.case_titles import under_titles, with_parameters
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.directions import better, words_of
from perflog.metrics.options import Options
from perflog.metrics.possible import are_moments
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.groups import Groups, groups_of
from perflog.tables.columns import Rows
from perflog.units import UNITS, base_of, first_few, show, unit_of

MOST_FAILED = 3
"""Failed cases that are named."""

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("table", meaning="number of the table of cases in the log"),
    MetricColumn("over", meaning="parameters that identify the cases"),
    MetricColumn("key", meaning="name of the quantity"),
    MetricColumn("unit", meaning="unit of its values; null: a plain number"),
    MetricColumn("cases", meaning="number of cases that have the quantity"),
    MetricColumn("failed", meaning="number of cases that print NaN, infinity or an error instead of its value"),
    MetricColumn("failed_at", meaning="the first of these cases", brief=False),
    MetricColumn(
        "better",
        meaning="lower or higher, by its name or unit; null: unknown, or the cases are different work",
    ),
    MetricColumn("min", meaning="smallest value; of a case that is measured again the median of its values"),
    MetricColumn("min_at", meaning="its case, the first of several"),
    MetricColumn("max", meaning="largest value"),
    MetricColumn("max_at", meaning="its case, the first of several"),
    MetricColumn("ratio", meaning="max / min, if both are positive"),
    MetricColumn("first_line", meaning="line of the first case", brief=False),
    MetricColumn("last_line", meaning="line of the last case", brief=False),
)

_PAIR_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("table", meaning="number of the table of cases in the log"),
    MetricColumn("key", meaning="name of the quantity; null: each variant is a quantity with a name of its own"),
    MetricColumn("parameter", meaning="parameter that names the variants; null: the quantities do"),
    MetricColumn("base", meaning="variant that the other is compared with: the first one printed"),
    MetricColumn("variant", meaning="the other variant"),
    MetricColumn("cases", meaning="number of cases that both have, equal in all other parameters"),
    MetricColumn("better", meaning="lower or higher, by the name or unit of the quantity; null: unknown"),
    MetricColumn("ratio", meaning="value of the variant / value of the base: geometric mean over the cases"),
    MetricColumn("min", meaning="smallest ratio"),
    MetricColumn("min_at", meaning="its case"),
    MetricColumn("max", meaning="largest ratio"),
    MetricColumn("max_at", meaning="its case"),
)

_CONFIGURES = lazy_pattern(
    r"(?:.*[_.])?(?:size|len|length|dim|dims|heads|layers|hidden|experts|topk|chunk|chunks|sms|batch|bs|seq\w*|tp|dp|pp|"
    r"ep|cp|isl|osl|tokens|concurrency|conc|nodes|gpus|ranks|threads|blocks?|warps|stages|iters?|width|depth|world_size|"
    r"channels|degree|shape|level|of_rank|from|to|src|dst|gpu|cpu|peer)|(?:num|n|max|min|micro|global|local)_\w+|\w+_(?:in|out)put_(?:len|tokens)|[a-z]|[a-z]dim",
    re.IGNORECASE,
)
"""Names of whole numbers that configure a measurement."""

_CHOSEN = lazy_pattern(
    r"(?:params?|config|hparams|hyperparameters)[./_].+|(?:\w*_)?(?:lr|learning_rate|weight_decay|wd|dropout|momentum"
    r"|beta_?[0-9]?|epsilon|temperature|warmup\w*|clip\w*|label_smoothing)",
    re.IGNORECASE,
)
"""Names of numbers that a search chooses, whole or not."""

_TRIAL = lazy_pattern(r"trial(?:[_ ](?:name|id|number))?", re.IGNORECASE)
_TRIAL_NAMES = ("params_", "number")
"""In Optuna's frame of trials: prefix of the names of chosen parameters, and name of the number of a trial."""

_DEGREE = lazy_pattern(
    r"(?:.*_)?(?:ratio|fraction|factor|sparsity|density|alpha|gamma|lambda\w*|sigma|tau|threshold|strength|noise|scale"
    r"|utilization)",
    re.IGNORECASE,
)
"""Names of numbers that configure a measurement, if they directly follow other parameters."""

_MOMENTS = frozenset("timestamp date datetime".split())
"""Names of when a record was written."""

_UNIT = frozenset(("unit", "units"))
_UNIT_COLUMN = lazy_pattern(r"(?:\w+_)?units?", re.IGNORECASE)  # `metric_unit`

OBJECTIVES = frozenset(("value", "objective"))
"""Names of what a search optimises."""

_NAMES_QUANTITIES = lazy_pattern(r"metrics?(?:_name)?|quantity|statistics?|measure(?:ment)?|kpi|figure", re.IGNORECASE)
"""Names of a column that lists quantities."""

_NUMBERED = lazy_pattern(r"(?P<stem>[A-Za-z_]*[A-Za-z])_?(?P<number>[0-9]+)")
_SUMMARY = lazy_pattern(r"(?i)(?:grand )?(?:average|avg\.?|geo-?mean|geometric mean|overall|total)")
_SIZES = frozenset(("size", "bytes"))  # words in names of parameters, whole or not: `47.84 MiB`
_COLUMN = "column"  # the parameter of such a table, where its columns have no number
_SEVERAL = 2  # units from which on the rows of a table are several quantities

_OUTCOME = lazy_pattern(r"(?:.*[_. ])?(?:status|state|outcome|result)", re.IGNORECASE)
"""Names of columns with the outcome of a case."""

_OUTCOMES = lazy_pattern(
    r"ok|pass\w*|succe\w+|complet\w+|done|finish\w+|running|pending|queued|waiting|prun\w+|terminat\w+|fail\w*|error\w*"
    r"|oom\w*|out.of.memory|crash\w*|time.?d?.?out\w*|cancel\w*|kill\w*|abort\w*|invalid|skip\w*|nan|inf|best|preempt\w*"
    r"|node_fail|true|false|yes|no|[xX✓✗✅❌]+",
    re.IGNORECASE,
)
"""Words for an outcome. A `state` may also be what is measured, such as one in FP32 or BF16."""

_NAMES_WORK = lazy_pattern(
    r"(?:.*[_. ])?(?:name|kernel|op|operator|operation|layer|module|function|phase|test|task|job)s?", re.IGNORECASE
)
"""Names of columns that describe which work is measured."""

_FAILED = lazy_pattern(
    r"(?:(?:cuda|gpu)? ?out of memory|oom|(?:runtime|compile|launch)? ?err(?:or)?|fail(?:ed|ure)?|crash(?:ed)?"
    r"|time(?:d )?out|killed|out of resources|[-+]?inf(?:inity)?|nan|\w+(?:error|exception))\b",
    re.IGNORECASE,
)
"""Words that programs print instead of a value if the case failed."""
_STATISTIC = lazy_pattern(
    rf"(?:.*[_. ])?(?:{STATISTIC}|count|n)",
    re.IGNORECASE,
)
"""Names of statistics of one quantity, and of the number of its values."""

_NAME_OF_JOB = "job"

_COUNTS = MOMENTS.union(
    "timestep timesteps index idx id no line row time timestamp date datetime elapsed request request_id "
    "uuid trial samples_done".split()
)
"""Names of what a series runs over: its records are no cases."""

_PROGRESS = MOMENTS | {"training_iteration"}
"""Names of the progress of a case. They are not measured, and no parameters if other parameters identify the cases."""

_CHANGE = lazy_pattern(r"(?i)(?:.*_)?(?:Δ|delta|change|diff|difference|gain|improvement|reduction|speed_?up)(?:_.*)?")
"""Names of a column with the change from one of the other columns to the next."""

_DERIVED = frozenset(("speedup", "slowdown", "ratio"))  # words in names of what is computed from other columns
_DIGIT = lazy_pattern("[0-9]")
_LABEL = "row"  # the column of a table with the labels of its rows, where it has no name
_MOMENT_UNITS = ("", "1", "s")  # units of times since 1970
SAME = " = "
"""Between the names of parameters that are equal in each record."""

_LONG = 64  # cases of one parameter that counts up by one or names each case: rather a list than a sweep
_LONG_TEXT = 64  # characters: a longer string describes a case
_MOST_VARIANTS = 8
_MOST_OVER = 5  # parameters that are named


class CaseTable(Struct, frozen=True):
    """Records with the same names: the cases of one table.

    `parameters`, `figures`: values by name, one for each record; a missing value is NaN. `settings`: parameters that
    are the same in all records. `texts`: all other columns of strings. `units`: unit by name. `bad`: by quantity, the
    records that print NaN or infinity. `lines`: the line of each record. `names`: all names of the records.
    """

    parameters: dict[str, list[Any]]
    figures: dict[str, Floats]
    settings: dict[str, Any]
    texts: dict[str, list[Any]]
    units: dict[str, str]
    bad: dict[str, Mask]
    lines: Ints
    names: frozenset[str]

    @property
    def over(self) -> str:
        """The names of the parameters."""
        return first_few(self.parameters, _MOST_OVER, " x ")

    @property
    def is_by_column(self) -> bool:
        """Whether its cases are the columns of what is printed: one column holds several quantities."""
        return not self.names.issuperset(self.figures)

    @property
    def is_of_different_work(self) -> bool:
        """Whether the cases are different pieces of work, such as kernels: none of them is the best."""
        return len(self.parameters) == 1 and all(map(_NAMES_WORK.fullmatch, self.parameters))

    def at(self, record: int, without: str | None = None) -> str:
        """Return the case of a record as a string: `impl flash, seq_len 128`."""
        return ", ".join(
            f"{name} {_text(values[record], self.units.get(name, ''))}"
            for name, values in self.parameters.items()
            if name != without and values[record] is not None
        )

    def shown_value(self, name: str, value: Any) -> str:
        """Return the value of a parameter or a setting as a string: `2,048`, `512 KiB`."""
        return _text(value, self.units.get(name, ""))

    def cases(self, figure: str, without: str | None = None) -> dict[tuple[Any, ...], tuple[float, int]]:
        """Return the median of a quantity and the first record of each case, with or without one of its parameters."""
        columns = [values for name, values in self.parameters.items() if name != without]
        found: dict[tuple[Any, ...], list[int]] = {}
        for record in np.flatnonzero(np.isfinite(self.figures[figure])).tolist():
            found.setdefault(tuple(values[record] for values in columns), []).append(record)
        return {case: (float(np.median(self.figures[figure][of])), of[0]) for case, of in found.items()}


@computed_once
def case_tables(tables: Tables) -> dict[str, list[CaseTable]]:
    """Return the tables of cases of each run that has any, in the order of the log."""
    rows = tables.rows("values")
    steps = tables.rows("steps")
    trains = steps.where(steps.known("step")).counts("run")  # other values of a run with steps configure it
    rows = rows.where(~rows.known("step") & ~rows.one_of("run", trains) & ~rows.one_of("key", _bar_names(rows)))
    messages = tables.rows_by_run("collectives")  # values beside them are measured over operation and size
    by_run = rows.by("run")
    for run in messages.keys() & by_run.keys():
        by_run[run] = by_run[run].where(~np.isin(by_run[run]["line"], messages[run]["line"]))
    found = {run: list(_tables_of(run_values)) for run, run_values in by_run.items()}
    return {run: sorted(of, key=lambda table: int(table.lines[0])) for run, of in found.items() if of}


def names_of_records(tables: Tables) -> set[str]:
    """Return the names of values that stand together with others in several records of a run, for no step."""
    rows = tables.rows("values")
    found: set[str] = set()
    for run_values in rows.where(~rows.known("step")).by("run").values():
        records = groups_of(run_values["line"], run_values["part"])
        together = run_values.where(records.sizes[records.inverse] > 1)
        found.update(name for name, times in together.counts("key").items() if times > 1)
    return found


def names_without_case(tables: Tables) -> set[str]:
    """Return the names that a run prints several times for cases that cannot be identified: no value represents them.

    They are the `names_of_records` beside a rate of FLOP, as each record measures another shape; and names that are
    alone on their lines in a run without steps that has rows of a name and its value: there may be a table of such rows
    for each phase.
    """
    rows = tables.rows("values")
    shapes = tables.rows("lines").records("run", "shape")
    runs_with_lists = {run for run, shape in shapes if {"{key:", "{value:"} <= set(re.findall(r"{\w+:", str(shape)))}
    runs_with_lists -= tables.rows_by_run("steps").keys()
    record_names = names_of_records(tables)
    found: set[str] = set()
    for run, run_values in rows.where(~rows.known("step")).by("run").items():
        lines = run_values.where(run_values.one_of("unit", ["TFLOP/s"]))["line"]
        counted = run_values.where(np.isin(run_values["line"], lines) & run_values.one_of("key", record_names))
        found.update(name for name, times in counted.counts("key").items() if times > 1)
        if run in runs_with_lists:
            records = groups_of(run_values["line"], run_values["part"])
            alone = run_values.where((records.sizes[records.inverse] == 1) & run_values.known("value"))
            found.update(name for name, times in alone.counts("key").items() if times > 1)
    return found


def case_samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield each quantity of each case: a comparison matches cases by their parameters."""
    for run, found in case_tables(tables).items():
        for table in found if run in steady.cuts else ():
            for key in table.figures:
                unit = table.units.get(key, "")
                direction = None if table.is_of_different_work else better(key, unit)
                for value, record in table.cases(key).values():
                    yield Measure("value", f"{key}, {table.at(record)}", unit, direction), run, np.array([value])


@metric(
    title="cases",
    needs=("values",),
    columns=_COLUMNS,
    compares=(case_samples,),
    main="max",
    formula="smallest and largest value of a quantity over the cases; a repeated case counts by its median",
    source="values as printed; parameters are the leading names of a record that together identify the records",
)
def cases(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Quantities that a run prints over parameters: the best case, the worst, and their ratio.

    Rows of `values` of one record, for no step, are one measurement. Steps, epochs and requests are series, no cases.

    Example:
        >>> table = perflog.metrics.cases(perflog.read("run.txt"))
        >>> len(table)
        0
    """
    return _rows_of_runs(tables, _rows)


@metric(
    title="case_pairs",
    needs=("values",),
    columns=_PAIR_COLUMNS,
    main="ratio",
    formula="value of a variant / value of the base at the same values of all other parameters; geometric mean",
    source="a variant is a value of a parameter that is a word, or one of several quantities side by side",
)
def case_pairs(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001
    """Variants of what is measured, such as implementations and libraries, compared case by case with the first one.

    Example:
        >>> table = perflog.metrics.case_pairs(perflog.read("run.txt"))
        >>> len(table)
        0
    """
    return _rows_of_runs(tables, _pairs)


def _rows_of_runs(tables: Tables, rows_of: Callable[[CaseTable], Iterator[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of each table of cases, with its run, label and number in front."""
    labels = tables.labels()
    return [
        {"run": run, "label": labels.get(run), "table": number} | row
        for run, found in case_tables(tables).items()
        for number, table in enumerate(found, 1)
        for row in rows_of(table)
    ]


def _rows(table: CaseTable) -> Iterator[dict[str, Any]]:
    """Yield a row for each quantity of a table."""
    for key in table.figures:
        found = [*table.cases(key).values()]
        unit = table.units.get(key, "")
        row: dict[str, Any] = {"over": table.over, "key": key, "unit": unit or None, "cases": len(found)}
        row |= {"better": None if table.is_of_different_work else better(key, unit)}
        failed = np.flatnonzero(table.bad[key])
        named = [table.at(record) for record in failed[:MOST_FAILED].tolist()]
        row |= {"failed": len(failed), "failed_at": "; ".join(named) or None}
        row |= {"first_line": int(table.lines.min()), "last_line": int(table.lines.max())}
        if found:
            (low, low_at), (high, high_at) = min(found, key=_value), max(found, key=_value)
            row |= {"min": low, "min_at": table.at(low_at), "max": high, "max_at": table.at(high_at)}
            row |= {"ratio": high / low if low > 0 else None}
        yield row


def _value(case: tuple[float, int]) -> float:
    return case[0]


def _pairs(table: CaseTable) -> Iterator[dict[str, Any]]:
    """A row for each variant that is compared with the first one."""
    for parameter, values in table.parameters.items() if not table.is_of_different_work else ():
        variants = list(dict.fromkeys(values))
        if not all(isinstance(x, str) for x in variants) or not 2 <= len(variants) <= _MOST_VARIANTS:
            continue
        place = list(table.parameters).index(parameter)
        for key in table.figures:
            by_variant: dict[str, dict[tuple[Any, ...], tuple[float, int]]] = {x: {} for x in variants}
            for case, found in table.cases(key).items():
                by_variant[case[place]][(*case[:place], *case[place + 1 :])] = found
            for variant in variants[1:]:
                unit = table.units.get(key, "")
                ratios = _ratios(table, by_variant[variants[0]], by_variant[variant], parameter)
                pair = {"key": key, "parameter": parameter, "base": variants[0], "variant": variant}
                yield from (pair | {"better": better(key, unit)} | row for row in ratios)
    providers = _providers(table)
    for variant in providers[1:]:
        for row in _ratios(table, table.cases(providers[0]), table.cases(variant), None):
            yield {"base": providers[0], "variant": variant} | row


def _ratios(
    table: CaseTable,
    base: dict[tuple[Any, ...], tuple[float, int]],
    other: dict[tuple[Any, ...], tuple[float, int]],
    without: str | None,
) -> Iterator[dict[str, Any]]:
    """Return the ratios of one variant to another over the cases that both have."""
    both = [(other[case][0] / base[case][0], other[case][1]) for case in other if case in base and base[case][0] > 0]
    both = [found for found in both if found[0] > 0]
    if both:
        (low, low_at), (high, high_at) = min(both, key=_value), max(both, key=_value)
        row: dict[str, Any] = {"cases": len(both), "ratio": math.exp(np.mean([math.log(ratio) for ratio, _ in both]))}
        row |= {"min": low, "min_at": table.at(low_at, without), "max": high, "max_at": table.at(high_at, without)}
        yield row


def _providers(table: CaseTable) -> list[str]:
    """Return quantities that are variants of one, named after what is measured: cuBLAS, Triton. Else [].

    A header names them, so they have no unit, and no name gives the quantity. Statistics of one quantity, such as
    P50 and P99, are no variants of each other. Ratios and shares beside them are derived. Nor are
    counts beside other numbers, or differences, which may be negative.
    """
    names = [name for name in table.figures if table.units.get(name) != "1" and not _DERIVED & {*words_of(name)}]
    plain = [name for name in names if not table.units.get(name) and better(name, "") is None]
    are_alike = plain == names and not any(_CONFIGURES.fullmatch(n) or _STATISTIC.fullmatch(n) for n in names)
    known = [table.figures[name][np.isfinite(table.figures[name])] for name in names]
    are_counts = [bool((values % 1 == 0).all()) for values in known]
    are_alike &= all((values > 0).all() for values in known) and (all(are_counts) or not any(are_counts))
    return names if len(names) > 1 and are_alike else []


# --- tables of records ----------------------------------------------------------------------------------------------


def _bar_names(rows: Rows) -> list[str]:
    """The names of states of progress bars."""
    return [name for name in rows.codes("key")[1] if OF_BARS.search(name)]


def _tables_of(rows: Rows) -> Iterator[CaseTable]:
    """The tables of cases among the values of one run."""
    rows, lines, parts_of_lines = under_titles(rows)
    records = groups_of(lines, parts_of_lines)
    if len(records.sizes) < 2 or not (records.sizes > 1).any():
        return
    codes, words = rows.codes("key")
    titles = {code for code, word in enumerate(words) if word == TABLE_TITLE}
    by_names: dict[tuple[int, ...], list[int]] = {}
    order = np.argsort(records.inverse, kind="stable")
    bounds = np.append(0, np.cumsum(records.sizes))
    for record in np.flatnonzero(records.sizes > 1).tolist():
        names = tuple(codes[order[bounds[record] : bounds[record + 1]]].tolist())
        by_names.setdefault(names, []).append(record)
    groups: list[list[tuple[tuple[int, ...], list[int]]]] = []  # the longest names first
    for names, named in sorted(by_names.items(), key=lambda item: -len(item[0])):
        if len(set(names)) < len(names):
            continue  # a name twice: a list, or ranks
        others = ((parts, {*parts[0][0]} - {*names}) for parts in groups if {*names} <= {*parts[0][0]})
        whole = next((parts for parts, more in others if not more & titles), None)
        if whole is not None:  # cells without a value
            whole.append((names, named))
        else:
            groups.append([(names, named)])

    def table_of(names: tuple[int, ...], members: Sequence[int]) -> list[CaseTable]:
        if len(members) < 2:
            return []
        places = np.concatenate([order[bounds[r] : bounds[r + 1]] for r in sorted(members)])
        records = groups_of(lines[places], parts_of_lines[places])
        return list(_tables_with(rows.where(places), records, lines[places], [words[code] for code in names]))

    for parts in groups:
        together = table_of(parts[0][0], [record for _, records_of_part in parts for record in records_of_part])
        # If one of two tables has more columns, each identifies its cases by itself.
        apart = [] if together or len(parts) < 2 else [table_of(*part) for part in parts]
        yield from chain(together, *apart)


def _tables_with(rows: Rows, records: Groups, line: Ints, names: Sequence[str]) -> Iterator[CaseTable]:
    """Yield the tables of records with these names; none if they have no parameters or no measured quantities."""
    number = len(records.sizes)
    codes, words = rows.codes("key")
    units_of_row, unit_words = rows.codes("unit")
    texts, values, nans = rows["text"], rows["value"], rows.nans("value")
    columns: dict[str, list[Any]] = {}
    units: dict[str, str] = {}
    bad: dict[str, Mask] = {}
    units_of_record: list[set[str]] = [set() for _ in range(number)]  # of cells in columns with several units
    for name in names:
        places = np.flatnonzero(codes == words.index(name))
        cells: list[Any] = [None] * number
        for place in places.tolist():
            value = values[place]
            cells[records.inverse[place]] = (
                texts[place] or None if math.isnan(value) and not nans[place] else float(value)
            )
        columns[name] = cells
        found = {unit_words[code] for code in units_of_row[places].tolist() if code >= 0}
        units[name] = next(iter(found)) if len(found) == 1 else ""
        if len(found) > 1 and not _CHANGE.fullmatch(name):
            for record, code in zip(records.inverse[places].tolist(), units_of_row[places].tolist(), strict=True):
                units_of_record[record] |= {unit_words[code]} if code >= 0 else set()
        bad[name] = np.array([_is_failure(x) for x in cells], np.bool_)
    columns = with_parameters(columns)
    names = list(columns)
    units = {name: units.get(name, "") for name in names}
    bad = {name: bad.get(name, np.zeros(number, np.bool_)) for name in names}
    kept = _without_summary(columns, _last_of_trials(columns))
    columns = {name: [cells[record] for record in kept] for name, cells in columns.items()}
    bad = {name: of[kept] for name, of in bad.items()}
    lines, number = line[records.first][kept], len(kept)
    parameters, settings = _parameters(columns, units)
    outcomes = [name for name in names if _is_outcome(name, columns[name])]
    has_failed = np.any([bad[name] for name in outcomes], axis=0) if outcomes else np.zeros(number, np.bool_)
    others = {*parameters, *settings, *outcomes}
    rest = [n for n in names if n not in others and n.lower() not in _PROGRESS and not _TRIAL.fullmatch(n)]
    rest = [name for name in rest if not _follows(name, columns[name], units[name], [columns[n] for n in parameters])]
    figures = {name: np.array([_number(x) for x in columns[name]]) for name in rest}
    figures = {
        name: of
        for name, of in figures.items()
        if np.isfinite(of).any() and not (units[name] in _MOMENT_UNITS and are_moments(of).any())
    }
    for name, of in figures.items():
        bad[name] = bad[name] | (has_failed & np.isnan(of))
    words_beside = {n: columns[n] for n in rest if n not in figures and any(isinstance(x, str) for x in columns[n])}
    has_bad = np.any([bad[name] for name in figures], axis=0) if figures else has_failed
    for name, of in figures.items():  # 0 TFLOP/s with an infinite time is no measurement, nor 0 of a case that crashed
        instead = (has_failed | (has_bad & (better(name, units[name]) == "higher"))) & (of == 0)
        of[instead], bad[name] = np.nan, bad[name] | instead
    is_measured = any(units[n] or better(n, "") or any(x % 1 for x in of[np.isfinite(of)]) for n, of in figures.items())
    if not parameters or not is_measured:  # whole numbers without a unit describe, such as offsets of documents
        return
    together = _together({name: columns[name] for name in parameters})
    units_of_cells = [units_of_record[record] for record in kept]
    if (by_column := _turned(together, figures, units, bad, lines, units_of_cells)) is not None:
        yield by_column
        return
    for sweep in _sweeps(list(zip(*together.values(), strict=True))):
        table = CaseTable(
            {name: cells[sweep] for name, cells in together.items()},
            {name: of[sweep] for name, of in figures.items()},
            settings,
            {name: cells[sweep] for name, cells in words_beside.items()},
            units,
            {name: of[sweep] for name, of in bad.items()},
            lines[sweep],
            frozenset(names),
        )
        yield from _by_unit(table)


def _by_unit(table: CaseTable) -> Iterator[CaseTable]:
    """Yield a table for each quantity in a column of units, `ms` or `MB`, which are those of figures without one."""
    columns = {**table.parameters, **table.texts}
    name = next((n for n in columns if _UNIT_COLUMN.fullmatch(n)), "")
    words = [str(word) for word in columns.get(name, ())]
    known = {word: unit_of(word)[0] for word in words}
    if not name or not all(known.values()):
        yield table
        return
    units = [UNITS[known[word]] for word in words]
    for base in dict.fromkeys(unit.base for unit in units):
        rows = np.flatnonzero([unit.base == base for unit in units])
        factors = np.array([units[k].factor for k in rows.tolist()])
        kept = {n: [cells[k] for k in rows.tolist()] for n, cells in table.parameters.items() if n != name}
        varied = {n: cells for n, cells in kept.items() if len(set(cells)) > 1}
        if not varied:
            continue
        scaled = {n for n in table.figures if not table.units[n]}
        yield CaseTable(
            varied,
            {n: of[rows] * (factors if n in scaled else 1) for n, of in table.figures.items()},
            table.settings | {n: cells[0] for n, cells in kept.items() if n not in varied},
            {n: [cells[k] for k in rows.tolist()] for n, cells in table.texts.items() if n != name},
            table.units | dict.fromkeys(scaled, base),
            {n: of[rows] for n, of in table.bad.items()},
            table.lines[rows],
            table.names,
        )


def _turned(
    parameters: dict[str, list[Any]],
    figures: dict[str, Floats],
    units: dict[str, str],
    bad: dict[str, Mask],
    lines: Ints,
    units_of_cells: Sequence[Set[str]],
) -> CaseTable | None:
    """The table with a case for each column, if its rows are quantities; None if they are cases.

    Names of columns show it, or several units in their words, `Mean TTFT (ms)`, `Output (tok/s)`, or in their cells.
    Such columns have no units of their own, apart from those with the change of each quantity.
    """
    [(name, words), *others] = parameters.items()
    columns = [figure for figure in figures if units[figure] != "1" and not _CHANGE.fullmatch(figure)]
    if others or len(set(words)) < len(words) or not _are_words(words) or any(units[figure] for figure in columns):
        return None
    split = [split_unit(str(word)) for word in words]
    in_cells = [of - {"1"} or of for of in units_of_cells]  # the share by which a quantity changed has its own unit
    split = [
        (quantity, next(iter(of)) if len(of) == 1 else unit)
        for (quantity, unit), of in zip(split, in_cells, strict=True)
    ]
    if not columns or (not _NAMES_QUANTITIES.fullmatch(name) and len({unit for _, unit in split} - {""}) < _SEVERAL):
        return None
    numbered = [_NUMBERED.fullmatch(column) for column in columns]
    stems = {match["stem"] for match in numbered if match}
    cases: list[Any] = [float(match["number"]) for match in numbered if match]
    if len(cases) < len(columns) or len(stems) > 1:
        stems, cases = {_COLUMN}, list(columns)
    if len({quantity for quantity, _ in split}) < len(split):
        return None
    rows = {
        quantity: row
        for row, (quantity, _) in enumerate(split)
        if any(np.isfinite(figures[column][row]) or bad[column][row] for column in columns)
    }
    values_by_quantity = {
        quantity: np.array([figures[c][row] for c in columns]) * (UNITS[unit].factor if (unit := split[row][1]) else 1)
        for quantity, row in rows.items()
    }
    return CaseTable(
        {stems.pop(): cases},
        values_by_quantity,
        {},
        {},
        {quantity: base_of(unit) for quantity, unit in split},
        {quantity: np.array([bad[c][row] for c in columns]) for quantity, row in rows.items()},
        np.resize(lines[[0, -1]], len(columns)),
        frozenset((name, *columns)),
    )


def _without_summary(columns: dict[str, list[Any]], records: list[int]) -> list[int]:
    """Return records without the last one if it is what all of them amount to: `average`."""
    is_summary = any(
        isinstance(cells[records[-1]], str) and _SUMMARY.fullmatch(cells[records[-1]]) for cells in columns.values()
    )
    return records[:-1] if is_summary and len(records) > _SEVERAL else records


def _last_of_trials(columns: dict[str, list[Any]]) -> list[int]:
    """The records that count: of each trial of a search the last, for its state is printed again and again."""
    number = len(next(iter(columns.values())))
    trial = next((cells for name, cells in columns.items() if _TRIAL.fullmatch(name)), range(number))
    return sorted({name: record for record, name in enumerate(trial)}.values())


def _together(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Parameters that are equal in each record have one name: `M = N = K`."""
    names: dict[tuple[Any, ...], list[str]] = {}
    for name, cells in columns.items():
        names.setdefault(tuple(cells), []).append(name)
    return {SAME.join(alike): list(cells) for cells, alike in names.items()}


def _sweeps(records: Sequence[tuple[Any, ...]]) -> Iterator[slice]:
    """Yield the sections of records that each begin with the same case: sweeps of different kinds.

    Their lines have the same names, and do not print the kind. Sweeps are over the same cases: if less than half of the
    cases of a section are in the first one, or more than half of the first one's are missing, all are one sweep.
    """
    begins = [0]
    for place in range(1, len(records)):
        if records[place] == records[begins[-1]] != records[place - 1]:
            begins.append(place)
    found = [slice(begin, end) for begin, end in pairwise([*begins, len(records)])]
    first, *others = (set(records[stretch]) for stretch in found)
    are_alike = all(2 * len(first & other) >= max(len(first), len(other)) for other in others)
    yield from found if are_alike else [slice(0, len(records))]


def _parameters(columns: dict[str, list[Any]], units: dict[str, str]) -> tuple[list[str], dict[str, Any]]:
    """Return the names that identify records, and the settings common to all; no parameters if they are a series."""
    settings = {name: cells[0] for name, cells in columns.items() if _is_setting(cells, units[name])}
    moments = [name for name, cells in columns.items() if _is_moment(name, cells)]
    trial = _number_of_trials(columns)
    leading = _leading({n: of for n, of in columns.items() if n not in {*settings, *moments, *trial}}, units)
    if _is_series(leading, columns) or (moments and not _has_work(leading, columns)):
        return [], {}
    others = {*leading, *settings, *moments, *trial}
    behind = {name: cells for name, cells in columns.items() if name not in others}
    sizes = [n for n, cells in behind.items() if _CONFIGURES.fullmatch(n) and _is_whole(cells, units[n])]
    chosen = [n for n in behind if _is_chosen(n, units)]
    if not leading:  # what is measured may be printed first
        few = max(_MOST_VARIANTS, len(next(iter(columns.values()))) // 2)  # else each record has a name of its own
        words = [n for n, cells in behind.items() if _are_words(cells) and _is_open(n, cells) and len({*cells}) <= few]
        leading = [n for n in behind if n in {*sizes, *chosen, *words}]
        if not _tell_apart(leading, columns) or _is_series(leading, columns):
            return [], {}
    elif not _tell_apart(leading, columns):  # a record may print a size after what was measured with it
        leading += sizes
        variants = [n for n, cells in behind.items() if n not in leading and _names_variants(n, cells)]
        if not _tell_apart(leading, columns) and _tell_apart([*leading, *variants], columns):
            leading += variants
    leading += [n for n in chosen if n not in leading]
    if not _tell_apart(leading, columns):  # two trials of one choice
        leading += [n for n, cells in behind.items() if _TRIAL.fullmatch(n) and _are_words(cells)]
    for name in reversed(leading.copy()):
        if _is_redundant(name, leading, columns):
            leading.remove(name)
    return leading, settings


def _leading(columns: dict[str, list[Any]], units: dict[str, str]) -> list[str]:
    """Return the names before the measured quantities."""
    leading: list[str] = []
    for name, cells in columns.items():
        may_follow = _are_words(cells) or _is_chosen(name, units) or _is_degree(name, cells, leading, columns, units)
        if not _is_open(name, cells):
            continue
        is_size = units[name] == "B" and None not in cells and not _SIZES.isdisjoint(words_of(name))
        if not (may_follow or is_size or _is_whole(cells, units[name])):
            break
        may_follow |= _CONFIGURES.fullmatch(name) is not None and name.lower() not in _PROGRESS
        if _tell_apart(leading, columns) and not may_follow:
            break
        leading.append(name)
        if name == _NAME_OF_JOB and _tell_apart(leading, columns):
            break  # its state and exit code are its outcome
    return leading


def _tell_apart(names: Sequence[str], columns: dict[str, list[Any]]) -> bool:
    """Whether the values of these columns together are others in each record."""
    number = len(next(iter(columns.values()), []))
    return bool(names) and len(set(zip(*(columns[name] for name in names), strict=True))) == number


def _is_chosen(name: str, units: dict[str, str]) -> bool:
    return _CHOSEN.fullmatch(name) is not None and not units[name]


def _is_degree(
    name: str, cells: Sequence[Any], leading: Sequence[str], columns: dict[str, list[Any]], units: dict[str, str]
) -> bool:
    """Whether numbers that are not whole configure records that the parameters before them do not identify."""
    are_numbers = all(isinstance(x, float) for x in cells) and not units[name]
    return _DEGREE.fullmatch(name) is not None and are_numbers and not _tell_apart(leading, columns)


def _number_of_trials(columns: dict[str, list[Any]]) -> list[str]:
    """Return the column that numbers the trials of a search, if columns are named as choices of a search."""
    begins, number = _TRIAL_NAMES
    return [number] if number in columns and any(name.startswith(begins) for name in columns) else []


def _has_work(leading: Sequence[str], columns: dict[str, list[Any]]) -> bool:
    """Whether records with a time of writing are cases all the same: strings and sizes identify them."""
    return _tell_apart(leading, columns) and any(_are_words(columns[name]) for name in leading)


def _is_moment(name: str, cells: Sequence[Any]) -> bool:
    """Whether a column has the time at which records were written, or their durations in the form `40:02:47`."""
    return name.lower() in _MOMENTS or (name.lower() == "time" and _are_words(cells))


def _names_variants(name: str, cells: Sequence[Any]) -> bool:
    """Whether a few words name the variant of each record, and not its outcome."""
    is_known = _are_words(cells) and _is_open(name, cells) and not any(_is_failure(x) for x in cells)
    return is_known and 1 < len(set(cells)) <= _MOST_VARIANTS


def _are_words(cells: Sequence[Any]) -> bool:
    return all(isinstance(x, str) or x is None for x in cells)


def _is_outcome(name: str, cells: Sequence[Any]) -> bool:
    """Whether a column has the outcome of each case in words."""
    said = any(x and _OUTCOMES.match(x.strip()) for x in cells if isinstance(x, str))
    return _OUTCOME.fullmatch(name) is not None and _are_words(cells) and said


def _is_open(name: str, cells: Sequence[Any]) -> bool:
    """Whether a column may be a parameter: it is neither the number of a trial, nor a unit, nor an outcome."""
    return _TRIAL.fullmatch(name) is None and name.lower() not in _UNIT and not _is_outcome(name, cells)


def _is_setting(cells: Sequence[Any], unit: str) -> bool:
    """Whether all records print the same word or whole number."""
    return len(set(cells)) == 1 and (isinstance(cells[0], str) or _is_whole(cells, unit))


def _is_redundant(name: str, leading: Sequence[str], columns: dict[str, list[Any]]) -> bool:
    """Whether other parameters identify the records as well, and this one names or describes each of them.

    A name is a string of its own for each record, such as its file. A description is a long string.
    """
    cells = columns[name]
    others = [columns[n] for n in leading if n != name]
    is_own = all(isinstance(x, str) for x in cells) and len(set(cells)) == len(cells)
    describes = _are_words(cells) and max(map(len, filter(None, cells)), default=0) > _LONG_TEXT
    if not others or not (is_own or describes):
        return False
    return len(set(zip(*others, strict=True))) == len(set(zip(*others, cells, strict=True)))


def _follows(name: str, cells: Sequence[Any], unit: str, parameters: Sequence[Sequence[Any]]) -> bool:
    """Whether numbers follow from one of the parameters, with values that several records share.

    Such whole numbers configure the records; so do others if no unit and no name says that they are measured.
    """
    if not _is_whole(cells, unit) and (unit or None in cells or better(name, "") is not None):
        return False
    mappings = (dict(zip(values, cells, strict=True)) for values in parameters)
    return any(
        2 * len(value_of) <= len(cells) and all(value_of[x] == cell for x, cell in zip(values, cells, strict=True))
        for values, value_of in zip(parameters, mappings, strict=True)
    )


def _is_whole(cells: Sequence[Any], unit: str) -> bool:
    """Whether cells are whole numbers of things, or sizes in bytes, with words such as `auto` among them."""
    numbers = [x for x in cells if isinstance(x, float)]
    return unit in ("", "1", "B") and None not in cells and all(x.is_integer() for x in numbers) and bool(numbers)


def _is_series(names: Sequence[str], columns: dict[str, list[Any]]) -> bool:
    """Whether records run over steps, moments or requests."""
    counted = [name for name in names if _counts(name) and not (name == _LABEL and _are_words(columns[name]))]
    if any(not _are_words(columns[name]) or any(map(_DIGIT.search, filter(None, columns[name]))) for name in counted):
        return True  # `wall time` above `forward` and `backward` names what was timed
    cells = columns[names[0]] if names else []
    if len(names) != 1 or len(cells) < _LONG:
        return False
    if all(isinstance(x, str) for x in cells):
        return len(set(cells)) == len(cells)
    return all(isinstance(b, float) and isinstance(a, float) and b - a == 1 for a, b in pairwise(cells))


def _counts(name: str) -> bool:
    """Whether a series runs over numbers of this name; `num_steps` configures."""
    words = words_of(name)
    if words[-1:] == ["batch"] and words[0] in EVALUATIONS:  # `val_batch`, of `Test: [20/196]`
        return True
    is_number_of = words[:1] in (["num"], ["n"], ["max"])
    return name.lower() in _COUNTS or (not is_number_of and bool(_COUNTS.intersection(words[-1:])))


def _is_failure(cell: Any) -> bool:
    """Whether a cell marks its case as failed: NaN, infinity, or an error word instead of a number."""
    return not math.isfinite(cell) if isinstance(cell, float) else bool(cell and _FAILED.match(cell))


def _number(cell: Any) -> float:
    return cell if isinstance(cell, float) else math.nan


def _text(value: Any, unit: str) -> str:
    if not isinstance(value, float):
        return str(value)
    return show(value, unit) if unit else f"{value:,.0f}" if value.is_integer() else f"{value:g}"
