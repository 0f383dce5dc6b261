"""Lists of numbers whose items are rows, and what the name of a file tells of its lines: expert loads."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import SHARED

import perflog
from perflog.errors import FormatError
from perflog.formats.loader.format_file import load
from perflog.formats.registry import get

TRACES = SHARED / "campaigns" / "expert_loads"
LOG = "0:[[0.0, 1393.0, 149.0], [1306.0, 0.0, 236.0]]\n10:[[5, 6, 7], [8, 9, 10]]\n2:[[], [1]]\n"


def written(folder: Path, name: str, text: str = LOG) -> perflog.Log:
    path = folder / name
    path.write_text(text)
    return perflog.read(path)


def test_each_number_of_a_list_is_a_row_with_its_places(tmp_path: Path) -> None:
    log = written(tmp_path, "table_iter101_rank3.log")
    loads = log.table("loads")
    columns = ["line", "layer", "micro_batch", "expert", "unit", "amount"]
    assert loads[columns].values.tolist() == [
        [1, "0", 0, 0, "token", 0.0],
        [1, "0", 0, 1, "token", 1393.0],
        [1, "0", 0, 2, "token", 149.0],
        [1, "0", 1, 0, "token", 1306.0],
        [1, "0", 1, 1, "token", 0.0],
        [1, "0", 1, 2, "token", 236.0],
        [2, "10", 0, 0, "token", 5.0],
        [2, "10", 0, 1, "token", 6.0],
        [2, "10", 0, 2, "token", 7.0],
        [2, "10", 1, 0, "token", 8.0],
        [2, "10", 1, 1, "token", 9.0],
        [2, "10", 1, 2, "token", 10.0],
        [3, "2", 1, 0, "token", 1.0],
    ]
    lines = log.table("lines")
    assert (lines["figures_stored"].sum(), lines["figures_unread"].sum()) == (13 + 3, 0)


@pytest.mark.parametrize(
    ("name", "step", "rank", "rank_by"),
    [
        ("table_iter101_rank3.log", 101, 3, "file"),
        ("trace_rank12.log", None, 12, "file"),
        ("table_iter2001_rank0.log.txt", 2001, 0, "file"),
        ("loads.log", None, None, None),
        ("table_iter101_rank99999999999.log", 101, None, None),
    ],
)
def test_the_name_of_the_file_tells_step_and_rank(
    tmp_path: Path, name: str, step: int | None, rank: int | None, rank_by: str | None
) -> None:
    loads = written(tmp_path, name).arrow("loads").to_pylist()
    assert {(row["step"], row["rank"], row["rank_by"]) for row in loads} == {(step, rank, rank_by)}


def test_imbalance_of_experts_is_told_for_each_layer(tmp_path: Path) -> None:
    table = perflog.metrics.imbalance(written(tmp_path, "table_iter1_rank0.log"))
    rows = table[["name", "over", "imbalance", "largest"]].values.tolist()
    mean = (1393 + 1306 + 149 + 236) / 3
    assert rows[0] == ["token in layer 0", "expert", pytest.approx(1393 / mean - 1), 1]
    assert rows[1] == ["token in layer 10", "expert", pytest.approx(17 / 15 - 1), 2]


@pytest.mark.skipif(not TRACES.is_dir(), reason="needs the real logs in ../shared/campaigns")
def test_the_trace_of_smart_moe() -> None:
    log = perflog.read(TRACES / "table_iter101_rank3.log")
    loads = log.table("loads")
    assert loads.shape[0] == 24 * 4 * 32 and loads["amount"].sum() == 24 * 4 * 4096
    assert set(loads["step"]) == {101} and set(loads["rank"]) == {3}


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ('items = ["expert"]', "`items` are the columns for the indices in a list that fills a column"),
        ('items = ["expert", "amount"]', "table loads has no column of integers `amount`"),
    ],
)
def test_items_name_a_column_for_each_level(tmp_path: Path, keys: str, reason: str) -> None:
    path = tmp_path / "loads.toml"
    path.write_text(
        f"""title = "Loads"
[[line]]
name = "layer"
table = "loads"
text = "loads of {{layer:d}}: [{{amount:m}}]"
sample = "loads of 3: [[1, 2], [3]]"
{keys}
"""
    )
    with pytest.raises(FormatError) as error:
        load(path)
    assert error.value.reason == reason


def test_file_names_have_step_and_rank_only(tmp_path: Path) -> None:
    path = tmp_path / "loads.toml"
    path.write_text('title = "Loads"\nfile_names = ["{_:s}_node{node:d}.log"]\n')
    with pytest.raises(FormatError, match="`node` in `file_names`"):
        load(path)


def test_the_name_of_a_folder_tells_nothing() -> None:
    form = get("expert_loads")
    assert form.named_by("table_iter7_rank1.log") == {"step": 7, "rank": 1}
    assert form.named_by("table_iter7.log") == {}
