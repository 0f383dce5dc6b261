"""Gains of traces: how much shorter the steps of each run would be with one thing changed, by replay.

All code that reports the gain of a change of a trace uses these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.grouping import grouped
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.device_time import device_time, wholes_of_traces
from perflog.metrics.traces.replays.scenario_changes import OF_JOB, SCENARIOS
from perflog.metrics.traces.replays.scenarios import replay
from perflog.tables.nulls import floats, none_if_null, row_dicts

if TYPE_CHECKING:
    import pandas as pd


class ScenarioGain(Struct, frozen=True, kw_only=True):
    """The gain of a run in a scenario: mean over its devices and their steps.

    Attributes:
        run: The run.
        of: The whole: traced step, or trace.
        scenario: A scenario of metric `replay`.
        subject: Which one: category of kernels, class of operators, number of a stream.
        rank: The rank that is changed, of scenario `rank`.
        device: Its device.
        whole_s: Time of the whole in s, as `breakdown` has it; of a scenario of a job, time of the job.
        gain: How much shorter it would be, as a share of it.
        bound: Why this is a bound; None if all dependencies are known.
    """

    run: str
    of: str
    scenario: str
    subject: str | None
    rank: int | None = None
    device: int | None = None
    whole_s: float
    gain: float
    bound: str | None

    @property
    def gain_s(self) -> float:
        """The same in s."""
        return self.gain * self.whole_s

    @property
    def model(self) -> str:
        """What is changed, and why the gain is a bound."""
        changed = f"the same dependencies; {SCENARIOS[self.scenario].partition(';')[0]}"
        return changed if self.bound is None else f"{changed}; {self.bound}"


@computed_once
def scenario_gains(tables: Tables, options: Options) -> dict[str, list[ScenarioGain]]:
    """Return the gains of each run that can be replayed, in the order of metric `replay`."""
    if not tables.count("events"):
        return {}
    rows = replay.table(tables, options)
    times = device_time.table(tables, options)
    spans = {str(run): float(wholes_of_traces(part)["span_s"].mean()) for run, part in times.groupby("run")}
    return {
        str(run): [*_device_gains(part[~part["scenario"].isin(OF_JOB)], spans[str(run)]), *_job_gains(part)]
        for run, part in rows.groupby("run", sort=False)
    }


def _device_gains(rows: pd.DataFrame, span_s: float) -> Iterator[ScenarioGain]:
    whole = rows[["rank", "device", "device_name", "time_s", "n"]].drop_duplicates()
    whole_s = float((whole["time_s"] * whole["n"].astype(float)).sum())
    gains_s = floats(rows["gain_s"]) * floats(rows["n"])
    gains_s = np.where(np.isnan(gains_s), 0.0, gains_s)
    run, of, bound = (rows[name].tolist() for name in ("run", "of", "bound"))
    subjects = map(none_if_null, rows["subject"].tolist())
    places = grouped((key, place) for place, key in enumerate(zip(rows["scenario"].tolist(), subjects, strict=True)))
    for (scenario, subject), alike in places.items():
        bounds = (none_if_null(bound[place]) for place in alike)
        yield ScenarioGain(
            run=run[alike[0]], of=of[alike[0]], scenario=scenario, subject=subject,
            whole_s=span_s, gain=float(gains_s[alike].sum()) / whole_s, bound=next(filter(None, bounds), None),
        )  # fmt: skip


def _job_gains(rows: pd.DataFrame) -> Iterator[ScenarioGain]:
    for row in row_dicts(rows[rows["scenario"].isin(OF_JOB)]):
        yield ScenarioGain(
            run=row["run"], of=row["of"], scenario=row["scenario"], subject=None, rank=none_if_null(row["rank"]),
            device=none_if_null(row["device"]), whole_s=float(row["time_s"]), gain=float(row["gain"]),
            bound=none_if_null(row["bound"]),
        )  # fmt: skip
