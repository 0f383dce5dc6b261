"""The best configuration of a sweep with repeats, in words."""

from __future__ import annotations

import math

import pytest

from perflog.analysis.overview.facts import sweep_facts as module
from perflog.metrics.many_runs.factors import Sweep


def sweep_of(*values: tuple[float, ...], figure: str = "loss") -> Sweep:
    """The values of the repeats of each configuration: learning rates 1, 2, ..."""
    settings, logs = {}, {}
    for number, repeats in enumerate(values, 1):
        for repeat, value in enumerate(repeats):
            settings[f"{number}-{repeat}"] = {"lr": str(number)}
            logs[f"{number}-{repeat}"] = math.log(value)
    return Sweep("x", figure, figure != "loss", ("lr",), (), settings, logs, ())


@pytest.mark.parametrize(
    ("sweep", "text"),
    [
        (sweep_of((2.0, 2.02), (3.0, 3.02), (4.0, 4.02)),
         "Best of 3 configurations by loss: lr 1, 2.01; next lr 2, +49.8 % (p 5e-06)."),
        (sweep_of((2.0, 2.1), (2.05, 2.16), (4.0, 4.02)),
         "Best of 3 configurations by loss: lr 1, 2.049; next lr 2, +2.7 % (repeats differ as much, p 0.43)."),
        (sweep_of((150.0, 151.0), (160.0, 161.0), (100.0, 101.0), figure="samples_per_s"),
         "Best of 3 configurations by samples/s: lr 2, 160.5; next lr 1, -6.2 % (p 0.001)."),
        (sweep_of((2.0, 2.02), (3.0, 3.02), (4.0,)),
         "Best of 3 configurations by loss: lr 1, 2.01; next lr 2, +49.8 % (p 0.0002)."),
        (sweep_of((2.0, 2.0), (3.0, 3.0), (4.0, 4.0)),
         "Best of 3 configurations by loss: lr 1, 2; next lr 2, +50.0 % (p < 1e-09)."),
        (sweep_of((2.0, 2.02), (3.0,), (4.0,)), None),  # of one repeat
        (sweep_of((2.0,), (3.0,), (4.0,)), None),  # without repeats nothing shows how sure it is
        (sweep_of((2.0, 2.0), (3.0, 3.0)), None),
        (sweep_of((2.0, 2.0), (2.0, 2.0), (4.0, 4.1)), None),  # two are equal: none is best
    ],
)  # fmt: skip
def test_which_configuration_is_best(sweep: Sweep, text: str | None) -> None:
    assert list(module._best(sweep)) == ([] if text is None else [text])
