"""Which of the causes of a run binds it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perflog.metrics.causes.binding import binding
from perflog.metrics.causes.cause import JOB, Cause


def cause(subject: str, gain: float, of: str = "traced step", **more: Any) -> Cause:
    return Cause(run="r", of=of, subject=subject, whole_s=1.0, gain_s=gain, **more)


@pytest.mark.parametrize(
    ("found", "binds"),
    [
        ([cause("host", 0.2), cause("device", 0.5)], "device"),
        ([cause("host", 0.2), cause("device", 0.5), cause("compute", 0.3)], "compute"),  # it explains half of it
        ([cause("host", 0.2), cause("device", 0.5), cause("compute", 0.2)], "device"),
        ([cause("communication", 0.4), cause("rank", 0.25, "trace", rank=3)], "rank"),
        ([cause("communication", 0.4), cause("rank", 0.1, "trace", rank=3)], "communication"),
        ([cause("compute", 0.6), cause("rank", 0.1, "trace", rank=3)], "rank"),  # its peers do without this time
        ([cause("compute", 0.6), cause("rank", 0.09, "trace", rank=3)], "compute"),
        ([cause("host", 0.6), cause("rank", 0.2, "trace", rank=3)], "host"),
        ([cause("host", 0.4), cause("data", 0.3)], "data"),
        ([cause("host", 0.02), cause("device", 0.01, time_s=0.01)], None),  # nothing stands out
        ([cause("phase", 0.9, "step"), cause("stuck rank", float("nan"), JOB)], "stuck rank"),
        ([cause("phase", 0.6, "step"), cause("kernels", 0.9, "gpu")], "phase"),  # the step is what counts
        ([cause("phase", 0.6, "step", time_s=0.6, may_bind=False), cause("kernels", 0.9, "gpu")], None),
        ([cause("validation", 0.6, "run")], "validation"),
        ([cause("host", 0.03), cause("device", 0.0299)], "host"),  # 3 % is enough
        ([cause("host", 0.0299, time_s=0.5), cause("phase", 0.9, "gpu")], None),  # the step is divided
        ([cause("host", 0.0299), cause("phase", 0.9, "gpu")], "phase"),
        ([cause("validation", 0.01, "run", time_s=0.01)], None),
        ([cause("rank", 0.9, "trace"), cause("host", 0.2)], "rank"),  # late ranks count in steps
        ([cause("device", 0.9, "trace"), cause("host", 0.2)], "host"),
        ([cause("rank", 0.9, "trace"), cause("host", 0.2, "gpu")], "rank"),
        ([cause("host", 0.6), cause("graph capture", 0.3), cause("compilation", 0.4)], "compilation"),
        ([cause("device", 0.6), cause("data", 0.5)], "device"),  # data is no part of it
        ([cause("phase", float("nan"), "step"), cause("stuck rank", float("nan"), JOB)], "stuck rank"),
        ([cause("worker", 0.5, JOB), cause("stuck rank", float("nan"), JOB)], "stuck rank"),
        ([cause("worker", 0.5, JOB), cause("phase", 0.9, "step")], "worker"),
        ([], None),
    ],
)  # fmt: skip
def test_what_binds(found: list[Cause], binds: str | None) -> None:
    first = binding(found)
    assert (first and first.subject) == binds


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "wholes",
    [("job", "step"), ("step", "phases"), ("phases", "traced step"), ("traced step", "trace"), ("trace", "gpu"),
     ("gpu", "api"), ("api", "pipeline"), ("pipeline", "run")],
)  # fmt: skip
def test_the_first_whole_decides(wholes: tuple[str, str], order: int) -> None:
    found = [cause("phase", 0.1, wholes[0]), cause("kernels", 0.9, wholes[1])]
    assert binding(found[::order]) is found[0]


def test_shares_of_a_whole() -> None:
    half = Cause(run="r", of="step", subject="phase", whole_s=4.0, time_s=2.0, gain_s=1.0)
    assert (half.share, half.gain) == (0.5, 0.25)
    for whole_s in (None, 0.0):
        unknown = Cause(run="r", of="step", subject="phase", whole_s=whole_s, time_s=2.0, gain_s=1.0)
        assert math.isnan(unknown.share) and math.isnan(unknown.gain)
    nothing = Cause(run="r", of="step", subject="phase", whole_s=4.0)
    assert math.isnan(nothing.share) and math.isnan(nothing.gain)
