"""A cause: its share of the whole, and how much shorter the whole were."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perflog.metrics.causes.cause import Cause


@pytest.mark.parametrize(
    ("whole", "part", "share"),
    [(4.0, 1.0, 0.25), (4.0, 0.0, 0.0), (4.0, None, None), (None, 1.0, None), (0.0, 1.0, None), (None, None, None)],
)
def test_parts_of_the_whole(whole: float | None, part: float | None, share: float | None) -> None:
    for name, other in (("time_s", "gain_s"), ("gain_s", "time_s")):
        times: dict[str, Any] = {name: part, other: 3.0}
        cause = Cause(run="r", of="step", subject="host", whole_s=whole, **times)
        found = cause.share if name == "time_s" else cause.gain
        assert math.isnan(found) if share is None else found == share
    cause = Cause(run="r", of="step", subject="host")
    assert cause.may_bind and not cause.binds
