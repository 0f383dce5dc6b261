"""Why a plot cannot be drawn, and which can."""

from __future__ import annotations

import pytest
from support.plotted_logs import made

from perflog import plots
from perflog.errors import UsageError
from perflog.metrics import Tables
from perflog.plots import PLOTS


def test_why_there_is_nothing_to_draw() -> None:
    tables = Tables(made([0.1] * 8))
    assert PLOTS["kernels"]._missing(tables) == "no rows in table `kernels`"
    assert PLOTS["steps"]._missing(tables) == "metric `steps` has no rows for it"
    with pytest.raises(UsageError, match="no rows in table `events`") as caught:
        plots.device_time(tables)
    assert "possible: " in caught.value.help and "steps" in caught.value.help


def test_the_help_of_a_plot_has_the_arguments_of_a_call_with_their_types() -> None:
    text = PLOTS["steps"].__doc__ or ""
    assert text.index("The numbers come from `perflog.metrics.steps`.") < text.index("Args:") < text.index("Example:")
    assert "warmup (int | None): " in text and "unknown" not in text
