"""Work that is counted against work that is done, and rates that cannot be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Seen, count, percent
from perflog.metrics.throughput import throughput

_UNEQUAL = 0.05


@rule(
    code="nominal-work",
    severity="warning",
    title="the work that is done is not the work that is counted",
    why="Rates are computed from nominal work, the same on each rank. The ranks execute more or less: padding, "
    "imbalance, dropped tokens. It is a warning where a rank is more than 5 % off, else a note.",
    action="take the rate for nominal work per second; the loads (`perflog analyze RUN imbalance`) tell what ranks do",
    needs=("loads",),
)
def nominal_work(seen: Seen) -> Iterator[Finding]:
    """Rows of the loads of each rank and step against the declared rows of work."""
    for run in seen.runs:
        nominal, unit = (run.meaning.quantities.get(n) for n in ("work_rows", "unit_rows"))
        loads = run["loads"].dropna(subset=["step", "amount"])
        loads = loads[loads["expert"].isna()]  # what an expert gets is not what a rank does
        if not nominal or not unit or not len(loads):
            continue
        rows = loads["amount"] * unit
        low, high = float(rows.min()), float(rows.max())
        ranks = loads.groupby("step").size()
        whole = loads["step"].isin(ranks.index[ranks == ranks.mode().iloc[0]])  # steps that all ranks print
        mean = float(rows[whole].mean())
        if low == high == nominal:
            continue
        message = (
            f"ranks execute {low:,.0f} to {high:,.0f} rows a step where {nominal:,.0f} are nominal "
            f"({percent(low / nominal - 1, sign=True)} to {percent(high / nominal - 1, sign=True)}); on average "
            f"{mean:,.0f} ({percent(mean / nominal - 1, sign=True)})"
        )
        if run["steps"]["tflops"].notna().any():
            message += "; the printed TFLOP/s count the nominal ones"
        numbers = {"nominal": nominal, "min": low, "max": high, "mean": mean}
        far = max(abs(low / nominal - 1), abs(high / nominal - 1)) > _UNEQUAL
        yield Finding(run.id, message, {run.id: loads["line"]}, numbers, "warning" if far else "note")


@rule(
    code="mfu-above-1",
    severity="error",
    title="a rate that no device reaches",
    why="No program computes faster than its device: the FLOPs are counted too high, the time is too short, or the "
    "peak is that of another device or dtype.",
    action="check the FLOP convention, the peak (`--gpu`, `--peak-tflops`) and what the step time covers",
    needs=("steps",),
)
def mfu_above_1(seen: Seen) -> Iterator[Finding]:
    """Printed MFU above 1, and rates above the peak that `gpu` or `peak_tflops` gives, if one is given."""
    for run in seen.runs:
        steps = run["steps"]
        above = steps[steps["mfu"] > 1]
        if len(above):
            worst = float(above["mfu"].max())
            message = f"MFU up to {worst:.2f} is printed, above 1 on {count(len(above), 'line')}"
            yield Finding(run.id, message, {run.id: above["line"]}, {"mfu": worst})
    if seen.options.gpu is None and seen.options.peak_tflops is None:
        return
    rates = throughput.table(seen.tables, seen.options)
    steady = rates[rates["part"] == "steady"].dropna(subset=["peak_tflops"])
    for row in steady.to_dict("records"):
        rate = np.nanmax([float(row[n]) for n in ("tflops", "printed_tflops") if row[n] == row[n]] or [np.nan])
        if rate > row["peak_tflops"]:
            message = (
                f"{rate:.2f} TFLOP/s per GPU, the median of steps {row['first_step']} to {row['last_step']}, are "
                f"{rate / row['peak_tflops']:.2f} times the peak {row['peak_tflops']:g} TFLOP/s"
            )
            numbers = {"tflops": rate, "peak_tflops": row["peak_tflops"], "source": row["peak_source"]}
            yield Finding(row["run"], message, {row["run"]: [row["first_line"], row["last_line"]]}, numbers)
