"""Runs of a side that failed and so have no part in the comparison: nothing passes because a crashed run is silent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from perflog.analysis.compare.sides import LeftOut, Side
from perflog.analysis.lint import findings
from perflog.analysis.lint.losses import DIVERGED
from perflog.log import Log

End = Literal["ended early", "diverged"]

ENDINGS: dict[str, End] = {"run-stopped": "ended early", "program-error": "ended early", DIVERGED: "diverged"}
"""Findings for which runs are no base for others, and what they say of the run."""


class FailedRun(Struct, frozen=True):
    """A run that failed: its side (or empty), id and label, how it ended, and what the finding says."""

    side: str
    run: str
    label: str
    end: End
    message: str

    @property
    def text(self) -> str:
        """The run and what happened to it: `new: 2#1: Ended by a process that was killed, line 2`."""
        return f"{self.side}: {self.label}: {self.message}" if self.side else f"{self.label}: {self.message}"


def failed_runs(log: Log, side: str = "") -> list[FailedRun]:
    """Return the runs that ended early, or with a loss that became NaN, one for each finding that says so."""
    labels = {key.id: key.label or f"{key.log}#{key.index}" for key in log.run_keys}
    return [
        FailedRun(side, finding.run, labels[finding.run], ENDINGS[finding.code], finding.message)
        for finding in findings(log)
        if finding.code in ENDINGS and finding.severity != "note"
    ]


def failed_among(sides: Sequence[Side], runs: Collection[str]) -> list[FailedRun]:
    """Return the failed runs among some. Logs of another kind, such as the log of a monitor, are no such runs."""
    found = []
    for side in sides:
        if keys := [key for key in side.log.run_keys if key.id in runs]:
            found += failed_runs(side.log.select(*keys), side.name)
    return found


def with_failures(left_out: Sequence[LeftOut], failed: Sequence[FailedRun]) -> list[LeftOut]:
    """Return the runs that are not compared. The reason is that they failed, of those that did."""
    runs = {each.run for each in failed}
    return [LeftOut(r.side, r.run, r.label, "it failed") if r.run in runs else r for r in left_out]
