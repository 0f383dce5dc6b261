"""Which way a value is better, by the words of its name and by its unit."""

from __future__ import annotations

import pytest

from perflog.metrics.directions import better, direction, names_energy, names_rate, words_of


@pytest.mark.parametrize(
    ("key", "unit", "expected"),
    [
        ("loss", "1", "lower"),
        ("perplexity", "1", None),  # a change in percent
        ("iteration time", "1", None),
        ("val_loss", "", "lower"),
        ("loss_scale", "", None),  # a factor
        ("aux_loss_coef", "1", None),
        ("loss_scaling_time", "s", "lower"),
        ("topAccuracy", "", "higher"),
        ("acc1", "%", "higher"),
        ("throughput", "", "higher"),
        ("latency_p50", "s", "lower"),
        ("odd", "s", "lower"),  # the unit says it
        ("odd", "1/s", "higher"),
        ("odd", "GB/s", "higher"),
        ("odd", "TFLOP/s", "higher"),
        ("odd", "B", None),  # a size
        ("Update_Broadcast_GiB", "B", None),
        ("peak_memory", "B", "lower"),
        ("max_allocated", "B", "lower"),
        ("avail_mem", "B", None),
        ("Write_IOPS", "", "higher"),
        ("NCCL_BW", "", "higher"),
        ("odd", "J", "lower"),
        ("odd", "", None),
        ("odd", "W", None),
        ("tokens_per_sec", "", "higher"),
        ("tokens/s", "", "higher"),
        ("sec_per_token", "", None),
        ("tokens_per_joule", "J", "higher"),
        ("ns_day", "", "higher"),
        ("ns/day", "", "higher"),
        ("energy", "", "lower"),
        ("kWh used", "", "lower"),
        ("bytes", "B", None),  # the amount of work
        ("flops", "", None),
        ("nbytes", "", None),
        ("less time", "s", None),  # how much less
        ("time saved", "s", None),
        ("copy_overlap", "s", None),  # more time beside other work may be better
        ("overlapped time", "s", None),
        ("time without overlap", "s", "lower"),
        ("stdev", "GB/s", None),
        ("traffic", "B", None),
        ("latency_std", "s", None),
        ("", "", None),
    ],
)
def test_which_way_is_better(key: str, unit: str, expected: str | None) -> None:
    assert better(key, unit) == expected


@pytest.mark.parametrize(
    ("change", "which", "expected"),
    [(0.1, "higher", "improvement"), (-0.1, "higher", "regression"), (0.1, "lower", "regression"),
     (-0.1, "lower", "improvement"), (0.1, None, "different")],
)  # fmt: skip
def test_what_a_change_means(change: float, which: str | None, expected: str) -> None:
    assert direction(change, which) == expected  # type: ignore[arg-type]


def test_words_of_a_name() -> None:
    assert words_of("valLoss_top1/GPUTime kWh") == ["val", "loss", "top1", "/", "gpu", "time", "kwh"]
    assert names_rate(["tokens", "per", "s"]) and not names_rate(["per", "token", "s"])
    assert names_energy(["total", "joules"]) and not names_energy(["power"])
