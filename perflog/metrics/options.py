"""Options of all metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from perflog.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Options:
    """Options of all metrics.

    Args:
        warmup: Number of steps to cut at the start of each run. None: detected from the step times.
        gpu: Name of the GPU, such as "H100 SXM": MFU is relative to its peak. None: no MFU.
        peak_tflops: Dense peak of one GPU in TFLOP/s, instead of the peak that perflog knows for `gpu`.
        flops: Id of the FLOP convention. None: the convention that the log's format declares.
        level: Confidence level of intervals.
        targets: Values to reach, by the name of the series, of metric `time_to_target`: {"val_loss": 3.28}.
        gpu_hour: Price of one GPU for an hour, in any currency, for metrics `energy` and `scaling`. None: no cost.
    """

    warmup: int | None = None
    gpu: str | None = None
    peak_tflops: float | None = None
    flops: str | None = None
    level: float = 0.95
    targets: Mapping[str, float] | None = field(default=None, hash=False)  # a dict has no hash
    gpu_hour: float | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a value without a meaning."""
        _check("warmup", self.warmup, "a number of steps, 0 or more", lambda value: value >= 0 and int(value) == value)
        _check("level", self.level, "a number between 0 and 1, such as 0.95", lambda value: 0 < value < 1)
        peak = "the dense peak of one device, in TFLOP/s"
        _check("peak_tflops", self.peak_tflops, peak, lambda value: 0 < value < math.inf)
        _check("gpu_hour", self.gpu_hour, "a number, 0 or more", lambda value: value >= 0)

    @classmethod
    def of(cls, **options: Any) -> Options:
        """Return options from keywords. Raises UsageError that names the nearest option for an unknown keyword."""
        known = [each.name for each in fields(cls)]
        for name in options:
            if name not in known:
                help = did_you_mean(name, known, f"there are: {', '.join(known)}")
                raise UsageError(f"there is no option `{name}`", help=help)
        return cls(**options)


def _check(name: str, value: float | None, rule: str, holds: Callable[[float], bool]) -> None:
    try:
        if value is None or holds(value):
            return
    except (TypeError, ValueError, OverflowError):
        pass
    raise UsageError(f"`{name}` is {value!r}", help=f"give {rule}")
