"""The failures that a log reports, as rows of table `failures`, each in its run.

In: batches, and the runs that begin in them. Out: the table, when the log has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from perflog.parsing.assemble.runs.printed_steps import PrintedSteps, StepsBack
from perflog.parsing.assemble.runs.run_state import RunState
from perflog.parsing.failures.first_cause import judge, roles_of
from perflog.parsing.failures.reader import FailureReader
from perflog.parsing.failures.rows import FailureRow, failures_table, rows_of
from perflog.parsing.match.records import Batch, FormatLine

if TYPE_CHECKING:
    import pyarrow as pa


class RunFailures:
    """Collects the failures of a log.

    Args:
        logs: The positions at which logs begin that are read together, as one batch.
        files: Their names.
        first: The first run.
    """

    def __init__(self, logs: Sequence[int], files: Sequence[str], first: RunState) -> None:
        self._reader = FailureReader(logs)
        self._files = files
        self._starts = [(first.position, first.index, first.log)]
        self._world_sizes: dict[int, int] = {}
        self._shown = 0  # failures that `recent` has returned
        self._steps_back = StepsBack()

    @property
    def last_line(self) -> int:
        """The line in which the last failure ends, 0 without one."""
        return max((failure.last_line for failure in self._reader.failures), default=0)

    def feed(
        self, lines: Sequence[FormatLine], new_runs: Sequence[RunState], steps: PrintedSteps, batch: Batch
    ) -> Batch:
        """Read a batch, in which these runs begin. Return it with the lines of failures as a kind of their own.

        `steps`: the steps that it prints. After they went back a failure is another one than the same before.
        """
        self._starts += [(run.position, run.index, run.log) for run in new_runs]
        begins = {run.position for run in new_runs}.union(self._steps_back.positions(steps))
        return batch.with_failures(self._reader.feed(lines, batch, sorted(begins)))

    def end(self, run: RunState) -> None:
        """Remember of a run that has ended what its failures need."""
        if run.world_size is not None:
            self._world_sizes[run.index] = run.world_size

    def recent(self) -> pa.Table | None:
        """Return the failures that were found since the last call, with the ranks that their lines show; None if none.

        Those that a later batch completes, such as a traceback without its exception, are still to come.
        """
        new = self._reader.failures[self._shown :]
        self._shown += len(new)
        new = [failure for failure in new if not failure.is_refusal]
        if not new:
            return None
        return failures_table(rows_of(new, str(self._starts[-1][1]), None, self._files[0], self._reader.has_launcher))

    def table(self) -> pa.Table | None:
        """End the log. Return the failures of all runs, None without one."""
        failures = self._reader.finish()
        if not failures:
            return None
        begins = [position for position, _, _ in self._starts]
        rows: list[FailureRow] = []
        for run, run_failures in groupby(failures, lambda failure: max(bisect_right(begins, failure.position) - 1, 0)):
            _, number, log = self._starts[run]
            size, file = self._world_sizes.get(number), self._files[min(log, len(self._files) - 1)]
            new = rows_of(list(run_failures), str(number), size, file, self._reader.has_launcher)
            judged = judge(new, (), size)
            for row, role in zip(new, roles_of(new, judged), strict=True):
                row.role = role
            rows += new
        return failures_table(rows)
