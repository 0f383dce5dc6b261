"""`--guess` reads tables whose header names each column; a line that only looks like a header names nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.errors import InputError

Row = dict[str, Any]

TABLES: dict[str, dict[int, Row]] = {
    # any blanks, the columns end where their names end; a percent sign is a unit
    "Device            r/s     rkB/s  %rrqm r_await  %util\n"
    "dm-10          120.50   9532.00   0.00    3.55  50.50\n"
    "dm-11           17.00    464.00   0.50   12.52   1.50\n": {
        2: {"Device": "dm-10", "r_s": 120.5, "rkB_s": 9532, "rrqm": 0, "r_await": 3.55, "util": 0.505},
        3: {"Device": "dm-11", "r_s": 17, "rkB_s": 464, "rrqm": 0.005, "r_await": 12.52, "util": 0.015},
    },
    # a clock in front of the names, a header that is printed again, a column of names and numbers
    "11:30:49 AM  CPU    %usr   %idle   intr/s\n"
    "11:30:51 AM  all    6.50   90.50    12.25\n"
    "11:30:51 AM    0    8.50   88.50     9.25\n"
    "\n"
    "11:30:51 AM  CPU    %usr   %idle   intr/s\n"
    "11:30:53 AM  all    7.50   91.50    13.25\n": {
        2: {"CPU": "all", "usr": 0.065, "idle": 0.905, "intr_s": 12.25},
        3: {"CPU": 0, "usr": 0.085, "idle": 0.885, "intr_s": 9.25},
        6: {"CPU": "all", "usr": 0.075, "idle": 0.915, "intr_s": 13.25},
    },
    # a prefix of all lines, units in the cells, a cell without a value
    "nid01 out: GPU  Temp   AvgPwr  Fan  Perf  VRAM%  GPU%\n"
    "nid01 out: 0    47.0c  91.0W   0%   auto    1%   2%\n"
    "nid01 out: 1    46.0c  N/A     5%   auto    3%   4%\n": {
        2: {"GPU": 0, "Temp": 47, "AvgPwr": 91, "Fan": 0, "Perf": "auto", "VRAM": 0.01, "GPU_share": 0.02},
        3: {"GPU": 1, "Temp": 46, "Fan": 0.05, "Perf": "auto", "VRAM": 0.03, "GPU_share": 0.04},
    },
    # cells that begin where their names begin: one is empty
    "epoch       main/loss   val/loss  accuracy\n"
    "1           0.314679    0.126357  0.91114\n"
    "2           0.0935955             0.98557\n": {
        2: {"epoch": 1, "main_loss": 0.314679, "val_loss": 0.126357, "accuracy": 0.91114},
        3: {"epoch": 2, "main_loss": 0.0935955, "accuracy": 0.98557},
    },
    # bars, rules of both kinds, names with units, digits in the name of a row
    "+---------+-----------+--------------+\n"
    "| Name    | open(s)   | BW (MiB/s)   |\n"
    "|---------|-----------|-------------:|\n"
    "| (8 B)   |    1.5    |       0.25   |\n"
    "| (16 KB) |    2.5    |     100.25   |\n"
    "+---------+-----------+--------------+\n": {
        4: {"Name": "(8 B)", "open": 1.5, "BW": pytest.approx(0.000262144)},
        5: {"Name": "(16 KB)", "open": 2.5, "BW": pytest.approx(0.105119744)},
    },
    # two blanks between names of several words
    "Action            Mean duration (s)   Total time (s)\n"
    "---------------------------------------------------\n"
    "on_fit_start              0.0002               0.5\n"
    "get_batch                 0.0395               1.5\n": {
        3: {"Action": "on_fit_start", "Mean_duration": 0.0002, "Total_time": 0.5},
        4: {"Action": "get_batch", "Mean_duration": 0.0395, "Total_time": 1.5},
    },
    # a comma in a number
    "| Metric | first avg | second avg |\n|---|---|---|\n| Time to First Token (ms) | 24.5 MB | 1,888.96 |\n"
    "| Time to Second Token (ms) | 1,024.5 MB | 2.5 |\n": {
        3: {"Metric": "Time to First Token (ms)", "first_avg": 24.5e6, "second_avg": 1888.96},
        4: {"Metric": "Time to Second Token (ms)", "first_avg": 1024.5e6, "second_avg": 2.5},
    },
    # a comma at the end of each line
    "node,start us,avg ms,\nconv,12.5,0.25,\nrelu,13.5,0.75,\n": {
        2: {"node": "conv", "start": 12.5e-6, "avg": 0.25e-3}, 3: {"node": "relu", "start": 13.5e-6, "avg": 0.75e-3},
    },
    # counts of a total, a factor of unknown meaning, shares in brackets, spreads, a bar behind each row
    "  Epoch    GPU_mem   loss    Fan    rate\n"
    "   1/25     0.721G    1.5   (98%)   12.5 ± 0.5: 100% |####| 12/12 9.1it/s\n"
    "   2/25     0.725G   1.25   (97%)   11.5 ± 0.25: 100% |####| 12/12 9.2it/s\n": {
        2: {"Epoch": 1, "Epoch_total": 25, "GPU_mem_G": 0.721, "loss": 1.5, "Fan": 0.98, "rate": 12.5,
            "rate_spread": 0.5},
        3: {"Epoch": 2, "Epoch_total": 25, "GPU_mem_G": 0.725, "loss": 1.25, "Fan": 0.97, "rate": 11.5,
            "rate_spread": 0.25},
    },
    # a comment of the file as a header, and another one below it
    "# step      rmse      score\n# without data it prints nan\n"
    "    0       1.5       2.5\n    1       3.5       4.5\n": {
        3: {"rmse": 1.5, "score": 2.5}, 4: {"rmse": 3.5, "score": 4.5},
    },
    # names that one blank separates, above rows that count up
    "Step Temp E_pair\n       0         1.44   -6.77\n     100         0.75   -5.75\n": {
        2: {"Temp": 1.44, "E_pair": -6.77}, 3: {"Temp": 0.75, "E_pair": -5.75},
    },
    # a colon behind the names of rows, rules between the rows
    "Operation      Max      Mean\n---------      ---      ----\n"
    "File stat  :   12.5     11.5\n---\nRead       :   2.5      1.5\n": {
        3: {"Operation": "File stat", "Max": 12.5, "Mean": 11.5}, 5: {"Operation": "Read", "Max": 2.5, "Mean": 1.5},
    },
}  # fmt: skip

NO_TABLES = (
    "Sum was wrong here twice\n1.5 2.5 3.5 4.5 5.5\n2.5 2.5 3.5 4.5 5.5\n",  # words of a sentence
    "Operation Max Min Std Dev\nFile stat 12.5 10.5 1.5\nFile read 22.5 20.5 2.5\n",  # two words for one cell
    "a    b    c\n1.5  2.5  3.5\n4.5  5.5  6.5  7.5  8.5\n",  # a row with more cells
    "       one     two     three\n1.5    2.5     3.5     \n4.5    5.5     6.5\n",  # cells under other names
)


def rows_of(path: Path, text: str) -> dict[int, Row]:
    """Return the figures and texts of each line of a log that is read by a guess."""
    path.write_text(text, encoding="utf-8")
    rows: dict[int, Row] = {}
    for row in perflog.read(path, guess=True).arrow("values").to_pylist():
        value = row["value"] if row["value"] is not None else row["text"]
        rows.setdefault(row["line"], {})[row["key"]] = value
    return rows


@pytest.mark.parametrize("text", TABLES)
def test_a_header_with_as_many_names_as_cells_names_them(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    expected = {line: {k: v if isinstance(v, str) else pytest.approx(v) for k, v in row.items()}
                for line, row in TABLES[text].items()}  # fmt: skip
    assert rows_of(path, text) == expected
    assert perflog.read(path, guess=True).figure_account["unread"] == 0


@pytest.mark.parametrize("text", NO_TABLES)
def test_a_line_that_could_be_something_else_names_no_column(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no word names its numbers without doubt"):
        rows_of(tmp_path / "run.txt", text)


def test_a_table_whose_columns_do_not_load_is_left_out(tmp_path: Path) -> None:
    text = "run | {a} | b\n1 | 1.5{x | 2.5\n2 | 3.5}y | 4.5\nwave: 2.5\n"
    assert rows_of(tmp_path / "run.txt", text)[4] == {"wave": 2.5}


def test_a_name_with_its_mark_below_a_sentence_is_no_row(tmp_path: Path) -> None:
    text = "Device allocate done!\nLoaded: 0.5 seconds\n"
    assert rows_of(tmp_path / "run.txt", text) == {2: {"loaded": 0.5}}


def test_a_number_with_a_unit_of_its_own_is_not_read_in_the_unit_of_its_column(tmp_path: Path) -> None:
    text = "| name | time (s) | waves |\n|---|---|---|\n| a | 1.5ms | 2.5 |\n| b | 3.5 | 4.5 |\n"
    assert rows_of(tmp_path / "run.txt", text) == {
        3: {"name": "a", "time": "1.5ms", "waves": 2.5}, 4: {"name": "b", "time": 3.5, "waves": 4.5},
    }  # fmt: skip


def test_the_unit_of_a_column_may_stand_in_some_cells_alone(tmp_path: Path) -> None:
    text = "| name | share % | waves |\n|---|---|---|\n| all | 100 % | 2.5 |\n| one | 50 | 4.5 |\n| two | 20 W | 1 |\n"
    assert {line: row["share"] for line, row in rows_of(tmp_path / "run.txt", text).items()} == {
        3: "100 %", 4: 0.5, 5: "20 W",
    }  # fmt: skip


def test_names_that_two_columns_share_are_numbered(tmp_path: Path) -> None:
    text = (
        "| Trial     | status  | config... | iter | time (s) | time (s) |\n|---|---|---|---|---|---|\n"
        "| a_00002   | RUNNING |       300 |  206 |     64.5 |     65.5 |\n"
        "| a_00003   | RUNNING |       400 |  160 |     50.5 |     51.5 |\n"
    )
    assert rows_of(tmp_path / "run.txt", text) == {
        3: {"Trial": "a_00002", "status": "RUNNING", "config": 300, "iter": 206, "time": 64.5, "time_2": 65.5},
        4: {"Trial": "a_00003", "status": "RUNNING", "config": 400, "iter": 160, "time": 50.5, "time_2": 51.5},
    }  # fmt: skip


def test_words_behind_numbers_are_no_units(tmp_path: Path) -> None:
    text = "calls   errors syscall   params   rate/s   waves\n911     12 openat        6.75 B   16.0G    2.5\n"
    assert rows_of(tmp_path / "run.txt", text)[2] == {
        "calls": 911, "errors_syscall": "12 openat", "params": "6.75 B", "rate_s": 16e9, "waves": 2.5,
    }  # fmt: skip


def test_a_column_has_sizes_in_several_units(tmp_path: Path) -> None:
    text = "| ctx | size | custom (us) |\n|---|---|---|\n| 1 | 24.5KiB | 15.5 |\n| 2 | 1.5MiB | 16.5 |\n"
    rows = rows_of(tmp_path / "run.txt", text)
    assert rows == {
        3: {"ctx": 1, "size": 24.5 * 2**10, "custom": pytest.approx(15.5e-6)},
        4: {"ctx": 2, "size": 1.5 * 2**20, "custom": pytest.approx(16.5e-6)},
    }  # fmt: skip


def test_a_rule_that_the_log_repeats_is_part_of_the_table(tmp_path: Path) -> None:
    rule = "-" * 40
    text = f"{rule}\nStatistics\n{rule}\n|   kernel| max grid| min grid|\n{rule}\n| _Z12kmi|     2.5|    1.5|\n{rule}\n"
    assert rows_of(tmp_path / "run.txt", text)[6] == {"kernel": "_Z12kmi", "max_grid": 2.5, "min_grid": 1.5}


def test_lines_that_name_their_own_numbers_have_no_header(tmp_path: Path) -> None:
    text = "GPU:   NVIDIA   GB10\nVRAM:  128.5    GB\nTransfer   bandwidth   GBPS\nwrite      :        4.06\n"
    assert rows_of(tmp_path / "run.txt", text) == {2: {"vram": 128.5e9}, 4: {"write": 4.06}}


def test_a_header_alone_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("epoch | loss | acc\n-- -- | --\n0 | 0.5 | 0.25\n\nepoch  loss  acc\n0\t1.5\t0.25\n", "utf-8")
    with pytest.raises(InputError, match="no word names its numbers without doubt"):
        perflog.read(path, guess=True)
