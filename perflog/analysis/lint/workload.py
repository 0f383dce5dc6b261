"""Rules on what was computed: nominal and executed work, rates above the peak, models that contradict settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np

from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.analysis.lint.wording import percent, time_range
from perflog.arrays import Mask
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.possible import impossible
from perflog.metrics.settings_by_run import MFU_PEAK_OF, settings_by_run
from perflog.metrics.step_series import most_frequent
from perflog.metrics.step_time.throughput import throughput
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.columns import Rows
from perflog.tables.nulls import row_dicts
from perflog.units import count, first_few, plural, show

_UNEQUAL = 0.05  # a rank this far from the nominal work makes a warning
_SAME = 0.01  # step times this close are the same
_EXPERTS = lazy_pattern(r"expert|moe", re.IGNORECASE)
_WORD = lazy_pattern(r"[a-z]+")
_MODULE = lazy_pattern(r": (\w+)\(")


@rule(
    code="nominal-work",
    severity="warning",
    title="rates count nominal work, not what the ranks execute",
    why="Rates are computed from nominal work, which is equal on all ranks. The ranks execute more or less than that: "
    "padding, imbalance, dropped tokens. Warning if a rank is more than 5 % off, else note.",
    action="read the rate as nominal work per second; `perflog analyze RUN imbalance` shows what each rank executes",
    needs=("loads",),
)
def nominal_work(data: LintInput) -> Iterator[Finding]:
    """Rows of work that each rank executes per step, against the declared rows."""
    for run in data.runs:
        nominal, unit = (run.semantics.quantities.get(n) for n in ("work_rows", "unit_rows"))
        loads = run["loads"]
        loads = loads.where(loads.known("step", "amount") & ~loads.known("expert"))  # work of an expert is of no rank
        if not nominal or not unit or not len(loads):
            continue
        rows = loads["amount"] * unit
        low, high = float(rows.min()), float(rows.max())
        steps = groups_of(loads["step"])
        complete = (steps.sizes == most_frequent(steps.sizes))[steps.inverse]  # steps that all ranks print
        mean = float(rows[complete].mean())
        if low == high == nominal:
            continue
        message = (
            f"ranks execute {low:,.0f} to {high:,.0f} rows per step, {mean:,.0f} on average; the nominal number is "
            f"{nominal:,.0f} ({percent(low / nominal - 1, sign=True)} to {percent(high / nominal - 1, sign=True)}, "
            f"average {percent(mean / nominal - 1, sign=True)})"
        )
        if run["steps"].known("tflops").any():
            message += ". The printed TFLOP/s count the nominal rows"
        numbers = {"nominal": nominal, "min": low, "max": high, "mean": mean}
        far = max(abs(low / nominal - 1), abs(high / nominal - 1)) > _UNEQUAL
        yield Finding(run.id, message, {run.id: loads["line"]}, numbers, "warning" if far else "note")


@rule(
    code="mfu-above-1",
    severity="error",
    title="a rate exceeds the peak of the device",
    why="No program computes faster than its device: the FLOPs are counted too high, the time is too short, or the "
    "peak belongs to another device or dtype.",
    action="check the FLOP convention, the peak (`--gpu`, `--peak-tflops`) and what the step time covers",
    needs=(),
)
def mfu_above_1(data: LintInput) -> Iterator[Finding]:
    """Printed MFU above 1, rates above any GPU, and above the peak that `gpu` or `peak_tflops` gives."""
    for column, name, unit in (("mfu", "MFU", "1"), ("tflops", "TFLOP/s", "TFLOP/s")):
        for run in data.runs_where("steps", _above_peak(data.tables.rows("steps"), column)):
            above = run["steps"].where(_above_peak(run["steps"], column))
            message = f"{_up_to(above, column, name, unit)}: it counts in no average"
            yield Finding(run.id, message, {run.id: above["line"]}, {column: float(above[column].max())})
    values = data.tables.rows("values")
    keys = [key for key in values.codes("key")[1] if not {"mfu", "hfu"}.isdisjoint(_WORD.findall(key.lower()))]
    for run in data.runs_where("values", values.one_of("key", keys)) if keys else ():
        for key, printed in run["values"].where(run["values"].one_of("key", keys)).by("key").items():
            is_share = printed.one_of("unit", ["1"])
            above = printed.where(printed["value"] > np.where(is_share, 1.0, 100.0))  # without a unit perhaps percent
            if len(above):
                message = _up_to(above, "value", key, "1" if is_share.any() else "")
                yield Finding(run.id, message, {run.id: above["line"]}, {key: float(above["value"].max())})
    if data.options.gpu is None and data.options.peak_tflops is None:
        return
    rates = throughput.table(data.tables, data.options)
    steady = rates[rates["part"] == "steady"].dropna(subset=["peak_tflops"])
    for row in row_dicts(steady):
        known = (float(row[name]) for name in ("tflops", "printed_tflops") if row[name] == row[name])
        if (rate := max(known, default=0.0)) > row["peak_tflops"]:
            message = (
                f"{rate:.2f} TFLOP/s per GPU is {rate / row['peak_tflops']:.2f} times the peak "
                f"{row['peak_tflops']:g} TFLOP/s (median of steps {row['first_step']} to {row['last_step']})"
            )
            numbers = {"tflops": rate, "peak_tflops": row["peak_tflops"], "source": row["peak_source"]}
            yield Finding(row["run"], message, {row["run"]: [row["first_line"], row["last_line"]]}, numbers)


@rule(
    code="mfu-other-device",
    severity="warning",
    title="the MFU is relative to the peak of another device",
    why="The program does not know the peak of this device, and divides by the peak of another one. The TFLOP/s are "
    "right.",
    action="compute the MFU with the peak of this device: `--gpu` or `--peak-tflops`",
    needs=(),
)
def mfu_other_device(data: LintInput) -> Iterator[Finding]:
    """A program that says which peak it uses for an unknown device."""
    for run in data.runs:
        other = run.semantics.config.get(MFU_PEAK_OF)
        with_mfu = run["steps"].where(run["steps"].known("mfu"))
        if other is not None and len(with_mfu):
            device = settings_by_run(data.tables)[run.id].get("device")
            message = f"the printed MFU is of the peak of {other}" + (f"; the device is {device}" if device else "")
            yield Finding(run.id, message, {run.id: with_mfu["line"]}, {"peak_of": str(other)})


def _up_to(rows: Rows, column: str, name: str, unit: str) -> str:
    """The largest of some printed rates, on how many lines, in which steps."""
    text = f"the printed {name} is up to {show(float(rows[column].max()), unit, 3)} on {count(len(rows), 'line')}"
    steps = rows["step"][rows.known("step")]
    ends = dict.fromkeys((int(steps.min()), int(steps.max()))) if len(steps) else {}
    return text + (f", {plural('step', len(ends))} {' to '.join(map(str, ends))}" if ends else "")


def _above_peak(steps: Rows, column: str) -> Mask:
    """Flag rates above the peak of any device."""
    return (steps[column] > 0) & impossible(column, steps[column])


@rule(
    code="same-model",
    severity="warning",
    title="runs with different settings print the same model",
    why="The settings promise different systems, but the model printouts are identical: a comparison may be one of a "
    "model with itself. Warning if the step times also agree within 1 %, else note (batch, system or data may differ).",
    action="check that the option that distinguishes these runs took effect; until then treat them as repeats",
    needs=("runs",),
)
def same_model(data: LintInput) -> Iterator[Finding]:
    """Groups of identical printouts with different settings."""
    groups = grouped((run.printout, run) for run in data.runs if run.printout)
    for runs in groups.values():
        settings = {json.dumps(run.semantics.config, sort_keys=True) for run in runs}
        if len(settings) < 2:
            continue
        medians = [median(s.steady) for run in runs if (s := run.series()) is not None and len(s.steady)]
        alike = len(medians) == len(runs) and max(medians) <= min(medians) * (1 + _SAME)
        message = f"{count(len(runs), 'run')} print the same model: {first_few(r.name for r in runs)}"
        if medians:
            message += f"; steady medians {time_range(medians)}{', equal within 1 %' if alike else ''}"
        lines = {run.id: [run.first_line] for run in runs}
        yield Finding(runs[0].id, message, lines, {"medians": medians}, "warning" if alike else "note")


@rule(
    code="no-experts",
    severity="warning",
    title="the settings name experts, but the model has none",
    why="The settings give a number of experts, but the model printout names no expert and no MoE module. The run "
    "measured a dense model.",
    action="check that the option that enables experts was passed, and leave the run out of MoE comparisons",
    needs=("runs",),
)
def no_experts(data: LintInput) -> Iterator[Finding]:
    """A setting with `expert` in its name and a value above 1, and a printout without experts."""
    for run in data.runs:
        config = run.semantics.config
        experts = {k: v for k, v in config.items() if "expert" in k.lower() and isinstance(v, int) and v > 1}
        if not experts or not run.printout or _EXPERTS.search(run.printout):
            continue
        modules = dict.fromkeys(_MODULE.findall(run.printout))
        settings = ", ".join(f"{k} {v}" for k, v in experts.items())
        message = f"the settings say {settings}; the model printout has only {first_few(modules, 12)}"
        yield Finding(run.id, message, {run.id: [run.first_line]}, {"settings": experts, "modules": list(modules)})
