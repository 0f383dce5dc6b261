"""Binding: which of the causes of a run holds it up. At most one does, so that no two answers contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

from perflog.metrics.causes.cause import JOB, PIPELINE, RUN, Cause
from perflog.metrics.step_time.breakdown import TRACED_STEP

_WHOLES = (JOB, "step", "phases", TRACED_STEP, "trace", "gpu", "api", PIPELINE, RUN)
"""Where to look for what binds, in this order: the first whole that the log divides decides."""

_TELLING = 0.03  # of the whole: less holds nothing up
_EXPLAINS = 0.5  # of the gain of what it is a part of

_FAULT = 0.1  # of the whole: what a rank, or unequal stages, cost; their peers show that this time is not needed
_UNLIKE_PEERS = ("rank", "unequal stages")

_NEEDED = ("compute", "device", "phase")  # work that takes time on all ranks

_PART_OF = {
    "rank": ("communication", "waiting", "device", "compute", "phase", "data"),
    "unequal stages": ("communication", "waiting", "device", "compute"),
    "data": ("host",),
    "graph capture": ("host",),
    "compilation": ("host",),
    "compute": ("device",),
    "communication": ("device",),
    "copies": ("device",),
}
"""Causes that are a part of others, and more specific."""


def binding(causes: Sequence[Cause]) -> Cause | None:
    """Return what binds a run; None if the log does not show it, or nothing takes enough of its time."""
    for whole in _WHOLES:
        members = [cause for cause in causes if _in(cause, whole)]
        able = [cause for cause in members if cause.may_bind and not cause.gain < _TELLING]
        if able:
            first = max(able, key=lambda cause: _weight(cause, whole))
            parts = [cause for cause in able if _explains(cause, first)]
            return max(parts, key=lambda cause: (cause.subject == "rank", cause.gain), default=first)
        if any(cause.time_s is not None and whole != RUN for cause in members):
            return None  # it is divided, and no part is large enough
    return None


def _in(cause: Cause, whole: str) -> bool:
    """Whether a cause counts in a whole: what ranks cost is known in whole traces only."""
    return cause.of == whole or (whole == TRACED_STEP and cause.subject in _UNLIKE_PEERS and cause.of == "trace")


def _weight(cause: Cause, whole: str) -> float:
    """The gain; a stuck rank has none, and the job ends with it."""
    return float("inf") if whole == JOB and cause.gain != cause.gain else cause.gain


def _explains(cause: Cause, first: Cause) -> bool:
    enough = _EXPLAINS * first.gain
    if cause.subject in _UNLIKE_PEERS and first.subject in _NEEDED:
        enough = min(enough, _FAULT)
    return first.subject in _PART_OF.get(cause.subject, ()) and cause.gain >= enough
