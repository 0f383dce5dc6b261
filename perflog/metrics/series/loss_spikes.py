"""Loss spikes: where the loss of a run rises far above its usual values, how high, and whether it comes back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from perflog.metrics.run_tables import Tables, computed_list
from perflog.statistics.excursions import Excursion, excursions
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.columns import NULL, Rows

_BEFORE, _JUST_BEFORE = 20, 3  # values: of the usual gradient norm; before the loss, in which it may rise first
_HIGHER = 2.0  # times the usual gradient norm


class LossSpike(Struct, frozen=True):
    """A rise of the loss of a run; steps are None where the lines print none.

    Attributes:
        run: The run.
        line, step: The first high value.
        usual: The median of the losses before.
        peak, peak_step: The highest loss.
        back_step: The step of the first usual loss after it.
        is_back: Whether the loss comes back.
        last, last_step: The last loss of the run, which may be infinite or NaN.
        grad_norm: The usual gradient norm and the highest one around the spike; None if it does not rise too.
    """

    run: str
    line: int
    step: int | None
    usual: float
    peak: float
    peak_step: int | None
    back_step: int | None
    is_back: bool
    last: float
    last_step: int | None
    grad_norm: tuple[float, float] | None


@computed_list
def loss_spikes(tables: Tables) -> Iterator[LossSpike]:
    """Return the spikes of the loss of each run, in the order of the runs and steps."""
    steps = tables.rows("steps")
    if not steps.known("loss").any():
        return
    for run, rows in steps.where(steps.known("loss") | steps.nans("loss")).by("run").items():
        one = _of_one_rank(rows)
        finite = one.where(np.isfinite(one["loss"]))
        yield from (_spike(run, finite, found, one) for found in excursions(finite["loss"]))


def _of_one_rank(rows: Rows) -> Rows:
    """Return the rows of the lowest rank with a finite loss in the order of lines; a step of several lines once."""
    finite = rows.where(np.isfinite(rows["loss"]))
    rows = rows.where(rows["rank"] == finite["rank"].min(initial=np.iinfo(np.int64).max))
    rows = rows.where(np.argsort(rows["line"], kind="stable"))
    if not rows.known("step").all():
        return rows
    return rows.where(np.sort(groups_of(rows["epoch"], rows["step"]).first))


def _spike(run: str, rows: Rows, found: Excursion, printed: Rows) -> LossSpike:
    """Return a spike of a run, by its rows with a finite loss and all rows in which it printed one."""
    last_step = int(printed["step"][-1])
    losses, steps = rows["loss"], [None if step == NULL else step for step in rows["step"].tolist()]
    return LossSpike(
        run, int(rows["line"][found.begin]), steps[found.begin], found.usual, float(losses[found.peak]),
        steps[found.peak], None if found.end is None else steps[found.end], found.end is not None,
        float(printed["loss"][-1]), None if last_step == NULL else last_step, _grad_norms(rows, found),
    )  # fmt: skip


def _grad_norms(rows: Rows, found: Excursion) -> tuple[float, float] | None:
    norms, first = rows["grad_norm"], max(found.begin - _JUST_BEFORE, 0)
    before, around = norms[max(first - _BEFORE, 0) : first], norms[first : found.end]
    before, around = before[np.isfinite(before)], around[np.isfinite(around)]
    if not len(before) or not len(around):
        return None
    usual, peak = median(before), float(around.max())
    return (usual, peak) if peak > _HIGHER * usual > 0 else None
