"""Cases of a benchmark: values that a log prints over parameters, such as message sizes, shapes or chunk sizes.

A record that prints parameters and measured values together, and belongs to no step, is one measurement. Records with
the same names are a table of cases. Its parameters are the leading names that together identify each case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import numpy as np

from perflog.formats.families.title_lines import HEADING
from perflog.formats.vocabulary import STATISTIC
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.benchmarks.case_parameters import CONFIGURES, MOST_VARIANTS, Cell, are_words
from perflog.metrics.benchmarks.case_tables import CaseTable, case_tables
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.directions import better, words_of
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables

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
    MetricColumn("better", meaning="lower or higher, by its name or unit; null: unknown, or the cases are different "
                 "work"),
    MetricColumn("min", meaning="smallest value; of a case that is measured again the median of its values"),
    MetricColumn("min_at", meaning="its case, the first of several"),
    MetricColumn("max", meaning="largest value"),
    MetricColumn("max_at", meaning="its case, the first of several"),
    MetricColumn("ratio", meaning="max / min, if both are positive"),
    MetricColumn("first_line", meaning="line of the first case", brief=False),
    MetricColumn("last_line", meaning="line of the last case", brief=False),
)  # fmt: skip
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
OBJECTIVES = frozenset(("value", "objective"))
"""Names of what a search optimises."""
_STATISTIC = lazy_pattern(
    rf"(?:.*[_. ])?(?:{STATISTIC}|count|n)",
    re.IGNORECASE,
)
"""Names of statistics of one quantity, and of the number of its values."""
_DERIVED = frozenset(("speedup", "slowdown", "ratio"))  # words in names of what is computed from other columns


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
    """Variants of what is measured, such as implementations and libraries, compared case by case with the first one."""
    return _rows_of_runs(tables, _pairs)


def _rows_of_runs(
    tables: Tables, rows_of: Callable[[CaseTable], Iterator[dict[str, object]]]
) -> list[dict[str, object]]:
    """The rows of each table of cases, with its run and number in front."""
    return [
        {"run": run, "table": number} | row
        for run, found in case_tables(tables).items()
        for number, table in enumerate(found, 1)
        for row in rows_of(table)
    ]


def _rows(table: CaseTable) -> Iterator[dict[str, object]]:
    """Yield a row for each quantity of a table."""
    for key in table.figures:
        found = [*table.cases(key).values()]
        unit = table.units.get(key, "")
        row: dict[str, object] = {"over": table.over, "key": key, "unit": unit or None, "cases": len(found)}
        differ = table.is_of_different_work or table.grows_with_work(key)
        row |= {"better": None if differ else better(key, unit)}
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


def _pairs(table: CaseTable) -> Iterator[dict[str, object]]:
    """A row for each variant that is compared with the first one."""
    for parameter, values in table.parameters.items() if not table.is_of_different_work else ():
        variants = list(dict.fromkeys(values))
        if not all(isinstance(x, str) for x in variants) or not 2 <= len(variants) <= MOST_VARIANTS:
            continue
        if parameter == HEADING and any(are_words(of) for name, of in table.parameters.items() if name != HEADING):
            continue  # the work of the variants that its rows name
        place = list(table.parameters).index(parameter)
        for key in table.figures:
            by_variant: dict[Cell, dict[tuple[Cell, ...], tuple[float, int]]] = {x: {} for x in variants}
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
    base: dict[tuple[Cell, ...], tuple[float, int]],
    other: dict[tuple[Cell, ...], tuple[float, int]],
    without: str | None,
) -> Iterator[dict[str, object]]:
    """Return the ratios of one variant to another over the cases that both have."""
    both = [(other[case][0] / base[case][0], other[case][1]) for case in other if case in base and base[case][0] > 0]
    both = [found for found in both if found[0] > 0]
    if both:
        (low, low_at), (high, high_at) = min(both, key=_value), max(both, key=_value)
        row: dict[str, object] = {
            "cases": len(both),
            "ratio": math.exp(np.mean([math.log(ratio) for ratio, _ in both])),
        }
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
    are_alike = plain == names and not any(CONFIGURES.fullmatch(n) or _STATISTIC.fullmatch(n) for n in names)
    known = [table.figures[name][np.isfinite(table.figures[name])] for name in names]
    are_counts = [bool((values % 1 == 0).all()) for values in known]
    are_alike &= all((values > 0).all() for values in known) and (all(are_counts) or not any(are_counts))
    return names if len(names) > 1 and are_alike else []
