"""Phase tables of given rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perflog.formats.model import Phase
from perflog.metrics.run_rows import SteadyRun
from perflog.metrics.semantics import RunSemantics
from perflog.metrics.step_time.phase_table import PhaseTable, with_facts
from perflog.tables.columns import NULL

DECLARED = {
    "whole": Phase("whole"),
    "a": Phase("a", of=("whole",)),
    "b": Phase("b", of=("whole",)),
    "beside": Phase("beside", of=("whole",), hidden=True),
}


def table_of(
    values: Sequence[Mapping[str, Any]], world: int | None, phases: Mapping[str, Phase] = DECLARED
) -> PhaseTable:
    """The phase table of runs that are alike; `run_index`: by default 0. None: a rank not known."""
    names = sorted({value["phase"] for value in values})
    columns = {
        name: np.array([NULL if value[name] is None else value[name] for value in values])
        for name in ("line", "part", "step", "rank", "occurrence", "time_s")
    }
    unknown = np.full(len(values), np.nan)
    columns |= {"phase": np.array([names.index(value["phase"]) for value in values])}
    columns |= {"min_s": unknown, "remote_share": unknown}
    run_index = np.array([value.get("run_index", 0) for value in values], np.int64)
    run = SteadyRun("r", None, 0, float("nan"), world, RunSemantics(None, phases=phases))
    return with_facts([run] * (int(run_index.max()) + 1), names, run_index, columns)
