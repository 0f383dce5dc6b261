"""Facts of benchmarks over parameters: the best case and the worst, and how far variants lie apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from perflog.metrics import Options, Tables, case_pairs, cases
from perflog.metrics.benchmarks.case_tables import CaseTable, case_tables, names_of_records, names_without_case
from perflog.metrics.benchmarks.cases import MOST_FAILED, OBJECTIVES
from perflog.metrics.benchmarks.serving import is_latency_statistic
from perflog.metrics.directions import words_of
from perflog.metrics.many_runs.scaling_studies import table_studies
from perflog.tables.nulls import row_dicts
from perflog.units import count, show

_MOST_FIGURES, _MOST_PAIRS, _MOST_TABLES, _MOST_SETTINGS = 4, 3, 4, 3
_WORK = frozenset("tok toks token tokens sample samples img imgs image images".split())
_RATES = ("1/s", "TFLOP/s", "GB/s")
_APART = 0.005  # variants that are nearer to each other are equal
_DIGITS = 4


def measured_cases(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Where each metric of a table of cases is best and worst, first what a search optimises.

    Of metrics without a known direction their ends, if no other has a unit. Tables with the sizes of a scaling study
    as rows are reported as such.
    """
    rows = cases.table(tables, options)
    if not len(rows):
        yield from _without_case(tables, run)
        return
    scaling_tables = [study.table for study in table_studies(tables) if run in study.runs[study.sizes[0]]]
    rows = rows[(rows["run"] == run) & ~rows["table"].isin(scaling_tables)]
    rows = rows[rows["min"].notna()]
    varied = rows["min"] < rows["max"]
    rows = rows[varied] if varied.any() else rows
    number_of_tables = rows["table"].nunique()
    several = number_of_tables > 1
    tables_of_run = [table_rows for _, table_rows in rows.groupby("table", sort=False)][:_MOST_TABLES]
    own = _own_settings([case_tables(tables)[run][table_rows["table"].iloc[0] - 1] for table_rows in tables_of_run])
    for over, with_own, table_rows in zip(
        (of["over"].iloc[0] for of in tables_of_run), own, tables_of_run, strict=True
    ):
        number = int(table_rows["cases"].max())
        lines = f", lines {table_rows['first_line'].min():,} to {table_rows['last_line'].max():,}" if several else ""
        with_direction = table_rows["better"].notna()
        is_derived = table_rows.loc[with_direction, "unit"].isna().all()  # a speedup, an accuracy: of what is beside it
        comes_first = with_direction | (table_rows["unit"].notna() if is_derived else table_rows["unit"].eq("s"))
        named = [row for row in row_dicts(table_rows) if row["key"] in OBJECTIVES]
        first = [*row_dicts(table_rows[comes_first]), *(row_dicts(table_rows[~comes_first]) if is_derived else ())]
        named += [row for row in first if row["key"] not in OBJECTIVES]
        named.sort(key=lambda row: row["key"].endswith("_spread"))
        parts = [_ends(row) for row in _with_a_rate(named)]
        more = f"; {count(len(table_rows) - len(parts), 'more metric')}" if len(table_rows) > len(parts) else ""
        worst = table_rows.loc[table_rows["failed"].idxmax()]
        left = worst["failed"] - MOST_FAILED
        more_failed = f" and {left:,} more" if left > 0 else ""
        without = (
            f" ({worst['failed']} without a finite value: {worst['failed_at']}{more_failed})" if worst["failed"] else ""
        )
        yield f"{number} cases over {over}{with_own}{lines}{without}: {'; '.join(parts)}{more}."
    if number_of_tables > _MOST_TABLES:
        yield f"{count(number_of_tables - _MOST_TABLES, 'more table')} of cases."
    if not number_of_tables:
        yield from _without_case(tables, run)


def _with_a_rate(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first rows. If none is a rate, the last one gives way to the plainest rate of tokens or samples."""
    shown, rates = list(rows[:_MOST_FIGURES]), [row for row in rows if row["unit"] in _RATES]
    if rates and not any(row["unit"] in _RATES for row in shown):
        words = [words_of(row["key"]) for row in rates]
        order = [(_WORK.isdisjoint(of), len(of)) for of in words]
        shown[-1] = rates[order.index(min(order))]
    return shown


def _own_settings(found: Sequence[CaseTable]) -> list[str]:
    """Return of each table of cases the settings that not all of them have, in brackets."""
    common = set.intersection(*({*table.settings.items()} for table in found)) if found else set()
    texts = []
    for table in found:
        own = [f"{name} {table.shown_value(name, x)}" for name, x in table.settings.items() if (name, x) not in common]
        texts.append(f" ({', '.join(own)})" if 0 < len(own) <= _MOST_SETTINGS else "")
    return texts


def _without_case(tables: Tables, run: str) -> Iterator[str]:
    """How far figures lie apart that are measured several times, for cases that are not known."""
    rows = tables.rows_of("values", run)
    latencies = {name for name in names_of_records(tables) if is_latency_statistic(name)}
    rows = rows.where(rows.one_of("key", names_without_case(tables) | latencies) & rows.known("value"))
    parts = []
    for name, key_rows in rows.by("key").items():
        units = {unit or "" for (unit,) in key_rows.records("unit")}
        if len(units) == 1:
            values, lines, unit = key_rows["value"], key_rows["line"], units.pop()
            places = dict.fromkeys((values.argmin(), values.argmax()))  # one, if all are equal
            ends = (f"{show(float(values[k]), unit, _DIGITS)} (line {lines[k]})" for k in places)
            parts.append(f"{name} {' to '.join(ends)}, {len(values)} times")
    if parts:
        more = f"; {count(len(parts) - _MOST_FIGURES, 'more metric')}" if len(parts) > _MOST_FIGURES else ""
        yield f"Measured: {'; '.join(parts[:_MOST_FIGURES])}{more}."


def variants(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """How far variants of what is measured lie apart, where other parameters vary too."""
    rows = case_pairs.table(tables, options)
    rows = rows[(rows["run"] == run) & (rows["cases"] > 1)]
    rows = rows[(rows["max"] > 1 + _APART) | (rows["min"] < 1 - _APART)]
    shown = row_dicts(rows.head(_MOST_PAIRS))
    rates = rows[rows["better"] == "higher"]
    if len(rates) and all(row["better"] != "higher" for row in shown):
        shown[-1:] = row_dicts(rates.head(1))
    for row in shown:
        key = f"{row['key']} " if isinstance(row["key"], str) else ""
        ends = f"{_times(row['min'])} ({row['min_at']}) to {_times(row['max'])} ({row['max_at']})"
        mean = f"{_times(row['ratio'])} in the geometric mean of {row['cases']} cases"
        yield f"{row['variant']} / {row['base']}: {key}{ends}, {mean}."
    if len(rows) > _MOST_PAIRS:
        more = len(rows) - _MOST_PAIRS
        yield f"{count(more, 'more pair')} of variants {'is' if more == 1 else 'are'} compared by case."


def _ends(row: dict[str, Any]) -> str:
    unit = row["unit"] if isinstance(row["unit"], str) else ""
    if row["min"] == row["max"]:
        return f"{row['key']} {show(row['min'], unit, _DIGITS)} in all"
    low, high = (f"{show(row[end], unit, _DIGITS)} ({row[f'{end}_at']})" for end in ("min", "max"))
    is_no_time = unit == "s" and row["min"] == 0  # shorter than what the program's clock shows
    if not isinstance(row["better"], str) or is_no_time:
        return f"{row['key']} {low} to {high}"
    best, worst = (low, high) if row["better"] == "lower" else (high, low)
    return f"{row['key']} best {best}, worst {worst}"


def _times(ratio: float) -> str:
    return f"{ratio:.3g}x"
