"""How wide columns are where a table has limited room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.output.column_widths import GAP, Need, fit, least_width


def need(natural: int, least: int | None = None, rank: int = 0) -> Need:
    return Need(natural, natural if least is None else least, rank)


@pytest.mark.parametrize(
    ("needs", "room", "widths"),
    [
        ([need(10), need(20)], None, [10, 20]),
        ([need(10), need(20)], 32, [10, 20]),
        ([need(10), need(20, 16)], 31, [10, 19]),
        ([need(10), need(20, 16), need(5, rank=1)], 32, [10, 20, 0]),
        ([need(10), need(5, rank=1), need(5, rank=1)], 17, [10, 5, 0]),  # the last of one rank
        ([need(10), need(5, rank=2), need(5, rank=1)], 17, [10, 0, 5]),  # the highest rank first
        ([need(10), need(5, rank=2), need(5, rank=1)], 16, [10, 0, 0]),
        ([need(10), need(10)], 12, [5, 5]),  # narrower than the least if nothing else helps
        ([need(10), need(10)], 11, [4, 5]),
        ([need(3), need(3)], 1, [1, 1]),
        ([need(30, 5), need(30, 9)], 22, [10, 10]),  # the narrowest gets more first
        ([need(6, 5), need(30, 9)], 22, [6, 14]),  # but no more than its longest value
        ([need(3, 3), need(30, 9)], 25, [3, 20]),
    ],
)
def test_the_widths_of_columns(needs: list[Need], room: int | None, widths: list[int]) -> None:
    assert fit(needs, room) == widths


columns = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2))


@given(st.lists(columns, min_size=1, max_size=6), st.integers(1, 90))
def test_tables_fit_if_they_can_and_leave_no_room_unused(drawn: list[tuple[int, int, int]], room: int) -> None:
    needs = [Need(natural, min(natural, least), rank) for natural, least, rank in drawn]
    widths = fit(needs, room)
    shown = [width for width in widths if width]
    total = sum(shown) + GAP * (len(shown) - 1)
    assert all(width <= each.natural for width, each in zip(widths, needs, strict=True))
    assert all(width for width, each in zip(widths, needs, strict=True) if not each.rank)
    if any(not each.rank for each in needs):
        assert total <= room or max(shown) == 1
        is_cut = any(0 < width < each.natural for width, each in zip(widths, needs, strict=True))
        assert not is_cut or total >= room


@pytest.mark.parametrize(("natural", "least"), [(5, 5), (16, 16), (17, 16), (90, 16)])
def test_the_least_width_of_names(natural: int, least: int) -> None:
    assert least_width(natural) == least
