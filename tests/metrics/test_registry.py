"""The list of metrics, and what a metric tells of itself."""

from __future__ import annotations

import pytest

from perflog.errors import UsageError
from perflog.metrics import METRICS, get


def test_the_order_of_the_metrics_is_deliberate() -> None:
    """`analyze`, the report and docs/metrics.md show it, so that a renamed module must not change it."""
    assert " ".join(METRICS) == (
        "steps throughput phases wait imbalance communication device_time stragglers collective_wait device_kernels "
        "kernels stages layers pipeline products ranges sweep"
    )


def test_each_metric_has_its_name() -> None:
    assert all(get(name) is metric and metric.name == name for name, metric in METRICS.items())


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `steps`"):
        get("stepss")
