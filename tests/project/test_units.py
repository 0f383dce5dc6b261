"""Values, changes and intervals as people read them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perflog.units import numbers_in_words, show, show_interval


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.051, 0.069, "+5.1 .. +6.9 %"),
        (-0.5, 1.2, "-50.0 .. +120 %"),
        (None, 0.1, "-"),
        (float("nan"), 0.1, "-"),
        (90.0, 300.0, "+9000 .. +30000 %"),  # that there is no change is excluded
        (-0.999, 27755.0, "no change excluded"),  # from a thousandth of the time to its 27,756-fold
        (-0.5, 99.0, "-50.0 .. +9900 %"),
    ],
)
def test_intervals_of_changes(low: float | None, high: float | None, text: str) -> None:
    assert show_interval(low, high) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([4, 1], "1, 4"),
        (range(4, 8), "4-7"),
        ([9, 40, 41, 42], "9, 40-42"),
        ([0, 1, 2, 4, 6, 8, 10, 12, 13, 14, 20], "0-2, 4, 6, 8, 10 and 4 more"),
        (range(3, 1024, 8), "3, 11 ... 1019 (every 8th)"),
        ([1, 3, 5, 7], "1, 3 ... 7 (every 2nd)"),
        ([2, 4, 6], "2, 4, 6"),
        (range(0, 1024, 111), "0, 111 ... 999 (every 111th)"),
    ],
)
def test_many_numbers_in_words(numbers: Sequence[int], text: str) -> None:
    assert numbers_in_words(numbers) == text


def test_a_size_has_the_units_in_which_it_is_round() -> None:
    sizes = [1e6, 2.0**20, 1.5e9, 12.5 * 2**30, 1024e3, 12e3, 1e6 + 1, 999.0, 0.0, 4096e6, 65536e3]
    texts = "1 MB, 1 MiB, 1.5 GB, 12.5 GiB, 1000 KiB, 12 kB, 976.6 KiB, 999 B, 0 B, 4.096 GB, 62.5 MiB"
    assert [show(size, "B") for size in sizes] == texts.split(", ")
