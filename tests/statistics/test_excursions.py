"""Excursions of a series: made curves of trainings, healthy ones and ones with a spike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from perflog.arrays import Floats
from perflog.statistics.excursions import Excursion, excursions


def healthy(rng: np.random.Generator, number: int) -> Iterator[Floats]:
    """Losses from the start, of a warm start, with a warm-up and restarts of the learning rate, and to near zero."""
    steps = np.arange(1, number + 1)
    falling = rng.uniform(1, 3) + rng.uniform(2, 9) * steps ** -rng.uniform(0.2, 0.6)
    warm = np.full(number, rng.uniform(1, 3))
    warmed_up = warm * (1 + 0.4 * np.exp(-(((steps - 0.05 * number) / (0.03 * number)) ** 2)))
    restarts = falling * (1 + 0.1 * np.cos(8 * np.pi * steps / number))
    to_zero = 0.01 + 5 * np.exp(-8 * steps / number)
    for losses in (falling, warm, warmed_up, restarts, to_zero):
        for noise in (rng.normal(size=number), rng.standard_t(2, number)):
            yield np.maximum(losses * (1 + float(rng.choice([0.01, 0.05, 0.1])) * noise), 1e-4).astype(np.float64)
        yield np.asarray(losses * np.exp(rng.normal(0, 0.6, number)), np.float64)


def test_healthy_curves_have_none() -> None:
    rng = np.random.default_rng(0)
    curves = [curve for _ in range(34) for number in (60, 100, 300, 1000) for curve in healthy(rng, number)]
    assert len(curves) > 2000
    assert not any(map(excursions, curves))


@pytest.mark.parametrize(("begin", "length"), [(40, 3), (47, 12), (99, 40), (120, 80)])
def test_where_an_excursion_begins_and_ends(begin: int, length: int) -> None:
    losses = 2 + 5 / np.arange(1, 201) + 0.01 * np.sin(3.0 * np.arange(200))
    losses[begin : begin + length] = 9.0
    losses[begin + 1] = 9.7
    (found,) = excursions(losses)
    end = begin + length if begin + length < 200 else None
    assert (found.begin, found.peak, found.end) == (begin, begin + 1, end)
    assert found.usual == pytest.approx(2 + 5 / begin, abs=0.1)


def test_a_lower_one_needs_more_values() -> None:
    losses = 2 + 0.01 * np.sin(3.0 * np.arange(100))
    few, many = losses.copy(), losses.copy()
    few[50:57], many[50:58] = 3.5, 3.5
    assert excursions(few) == []
    (found,) = excursions(many)
    assert found == Excursion(50, 50, 58, found.usual) and found.usual == pytest.approx(2, abs=0.01)


def test_what_is_no_series_of_losses() -> None:
    assert excursions(np.full(22, 9.0)) == excursions(np.append(np.full(50, -2.0), np.full(10, 9.0))) == []
