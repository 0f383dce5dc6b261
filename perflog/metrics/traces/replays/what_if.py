"""How much earlier a window of a trace would end if some pieces took no time: the longest path, recomputed.

The dependencies stay as they are. Work begins when all that it depends on has ended: the work before it on its stream,
its launch, work of another stream. What bound it in the trace is followed by the same time as in the trace; what did
not bind it may be followed at once, a launch by the shortest time that any launch of the device took. A thread takes as
long as in the trace between its waits and hand-overs. So if nothing is left out, all ends when it did.

Known limit: a gain is an upper bound, since a dependency that the trace does not show may hold the work up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.arrays import Ints
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.replays.dependencies import Dependencies
from perflog.metrics.traces.replays.path_walk import LAUNCHING, SYNCHRONISATION, PathWalk, is_host, kinds_of
from perflog.metrics.traces.replays.replay import Change, PieceKind, Replay, Replayed

_CALLS_AT_ONCE = 1 << 22  # calls in a window, times removals on the host: each takes a column over all of them


class WhatIf:
    """Computes what a device would gain. Data that all windows need is prepared once."""

    def __init__(self, dependencies: Dependencies, walk: PathWalk) -> None:
        self._walk, self.replayed = walk, Replayed(dependencies)
        self._kinds = kinds_of(dependencies)

    def gains(self, start: int, end: int, removed: Sequence[PieceKind], step_thread: int = NO_CALL) -> Ints:
        """Return by how many ns the window [start, end) would be shorter without each of `removed`.

        The window ends with its last work and, if it is a step, its thread: see `PathWalk.path`.
        """
        thread = step_thread if step_thread != NO_CALL else self._walk.last_thread(end)
        unchanged, without = self.ends(start, end, removed, thread)
        return unchanged - without

    def ends(
        self, start: int, end: int, removed: Sequence[PieceKind | Change], thread: int, host_end: int | None = None
    ) -> tuple[int, Ints]:
        """Return when the window [start, end) ends if nothing changes, and when without each of `removed`, in ns.

        Args:
            start: Begin of the window.
            end: Its end.
            removed: Pieces that take no time.
            thread: The thread that ends with it, or NO_CALL.
            host_end: Where this thread ends; by default at the end of the window.
        """
        kinds = [each.kinds if isinstance(each, Change) else each[0] for each in removed]
        on_thread = list(map(self._is_on_thread, kinds))
        host = [i for i, on in enumerate(on_thread) if on]
        at_once = max(_CALLS_AT_ONCE // (1 + self.replayed.calls_inside(start, end)), 2)
        groups = [host[i : i + at_once] for i in range(0, max(len(host), 1), at_once)]
        groups[-1] = groups[-1] + [i for i, on in enumerate(on_thread) if not on]
        without, unchanged = np.zeros(len(removed), np.int64), end
        for group in filter(None, groups):
            ends = Replay(self.replayed, [removed[i] for i in group], start, end).ends(thread, host_end)
            unchanged, without[group] = int(ends[0]), ends[1:]
        return unchanged, without

    def _is_on_thread(self, kind: int | tuple[int, ...]) -> bool:
        """Whether threads take less time between their waits: this takes memory for each of their calls."""
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return any(is_host(self._kinds[each]) and each not in (LAUNCHING, SYNCHRONISATION) for each in kinds)
