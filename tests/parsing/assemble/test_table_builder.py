"""Which rows a line gives, in which tables, with which keys, units and columns."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.table_builder import key_names

HEAD = 'title = "lines of a program"\nscopes = ["run", "part"]\n'
STEP = """
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} with loss {loss:.1f}"
sample = "finished step 3 with loss 2.5"
"""
STEP_LINE = "finished step 1 with loss 2.5"


def rows(folder: Path, form: str, lines: list[str], table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of the rows of a table, the same however the log is cut."""
    data = "".join(f"{line}\n" for line in [*lines, STEP_LINE]).encode()
    loaded = load(given_file(folder, HEAD + form + STEP))
    found = []
    for chunk in (1 << 20, 1):
        got = sorted(read(data, formats=[loaded], chunk=chunk).rows(table), key=lambda row: (row["line"], row["part"]))
        found.append([tuple(row[name] for name in columns) for row in got if row["line"] <= len(lines)])
    assert sorted(map(repr, found[0])) == sorted(map(repr, found[1]))
    return found[0]


def line(table: str, text: str, sample: str, more: str = "") -> str:
    return f'[[line]]\nname = "own"\ntable = "{table}"\ntext = "{text}"\nsample = "{sample}"\n{more}\n'


VALUES = ("key", "value", "unit", "text")


@pytest.mark.parametrize(
    ("form", "lines", "expected"),
    [
        (  # a row for each number, named after its field, in the base unit
            line("values", "io took {wait:.1f} of {total:d}", "io took 2.5 of 3", 'unit = { wait = "ms" }'),
            ["io took 2.5 of 3", "io took 0.5 of 4"],
            [
                ("wait", 0.0025, "s", None),
                ("total", 3.0, None, None),
                ("wait", 0.0005, "s", None),
                ("total", 4.0, None, None),
            ],
        ),
        (  # the line prints the name; signs in it become one
            line("values", "metric {key:S} is {value:.1f}", "metric a is 2.5"),
            ["metric loss/train is 2.5", "metric /x is 1.0", "metric // is 3.0"],
            [("loss_train", 2.5, None, None), ("x", 1.0, None, None), ("unnamed", 3.0, None, None)],
        ),
        (
            line("values", "metric {key:S} is {value:.1f}", "metric a is 2.5", 'unit = { value = "ms" }'),
            ["metric a is 2.5"],
            [("a", 0.0025, "s", None)],
        ),
        (  # a constant is the name
            line("values", "speed is {value:.1f}", "speed is 2.5", 'set = { key = "speed of all" }'),
            ["speed is 2.5"],
            [("speed_of_all", 2.5, None, None)],
        ),
        (  # operations of a name that counts them, else a rate of them
            line("values", "metric {key:S} is {value:.1f}", "metric a is 2.5", 'unit = { value = "TFLOP/s" }'),
            ["metric total_FLOPs is 2.5", "metric reached is 1.5"],
            [("total_FLOPs", 2.5e12, "FLOP", None), ("reached", 1.5, "TFLOP/s", None)],
        ),
        (  # a string is a text, without a unit
            line("values", "mode of own is {mode:w}", "mode of own is fast"),
            ["mode of own is fast"],
            [("mode", None, None, "fast")],
        ),
        (  # a list gives a row for each item
            line("values", "loads of own [{loads:l}]", "loads of own [1, 2]", 'unit = { loads = "kB" }'),
            ["loads of own [1, 2.5]", "loads of own []", "loads of own [7]"],
            [("loads[0]", 1000.0, "B", None), ("loads[1]", 2500.0, "B", None), ("loads[0]", 7000.0, "B", None)],
        ),
        (  # numbers of a line of steps that are no columns
            line("steps", "own step {step:d} has odd {odd:.1f}, loss {loss:.1f}", "own step 3 has odd 1.5, loss 2.5"),
            ["own step 3 has odd 1.5, loss 2.5"],
            [("odd", 1.5, None, None)],
        ),
        (  # what is no time is no phase
            line(
                "phases",
                "pull took {pull:.1f} with {memory:.1f}",
                "pull took 2.5 with 1.5",
                'unit = { pull = "ms", memory = "kB" }',
            ),
            ["pull took 2.5 with 1.5"],
            [("memory", 1500.0, "B", None)],
        ),
        (  # helpers of a computed column have no rows
            line(
                "steps",
                "own step {_a:d} of {_b:d} with loss {loss:.1f}",
                "own step 3 of 4 with loss 2.5",
                'compute = { step = "_a * 10 + _b" }',
            ),
            ["own step 3 of 4 with loss 2.5"],
            [],
        ),
    ],
)
def test_rows_of_values(tmp_path: Path, form: str, lines: list[str], expected: list[tuple[Any, ...]]) -> None:
    assert rows(tmp_path, form, lines, "values", *VALUES) == expected


def test_names_that_lines_give_their_numbers() -> None:
    printed = pa.array(["a/b", "//", None])

    class Rows(SimpleNamespace):
        def __len__(self) -> int:
            return 3

    def names(columns: dict[str, Any], inherited: dict[str, Any], **of_line: Any) -> list[str]:
        line = Line("own", Template(""), table="values", **of_line)
        rows: Any = Rows(line=line, records=SimpleNamespace(columns=columns), inherited=inherited)
        return key_names(rows)

    assert names({"key": printed}, {}) == ["a_b", "unnamed", "unnamed"] == names({}, {"key": printed})
    assert names({}, {}, set={"key": "speed"}) == ["speed"] * 3


def test_a_scope_names_the_number(tmp_path: Path) -> None:
    form = '[[line]]\nname = "head"\nopens = "part"\ntext = "tuning of {key:S}"\nsample = "tuning of a"\n'
    form += line("values", "candidate {candidate:S} took {value:.1f} ms", "candidate a took 2.5 ms")
    log = ["tuning of mm", "candidate c1 took 2.5 ms", "tuning of bmm", "candidate c2 took 3.5 ms"]
    found = rows(tmp_path, form, log, "values", "line", "key", "value", "text")
    assert {row for row in found if row[2] is not None} == {(2, "mm", 2.5, None), (4, "bmm", 3.5, None)}
    assert [text for *_, text in found if text is not None] == ["c1", "c2"]


def test_a_scope_gives_its_unit_to_the_numbers_in_it(tmp_path: Path) -> None:
    """Known units are converted; a number with a unit of its own keeps it."""
    form = '[[line]]\nname = "head"\nopens = "part"\ntext = "numbers in {unit:S}"\nsample = "numbers in ms"\n'
    form += line("values", "total {total:.1f} of {size:.1f}", "total 2.5 of 3.5", 'unit = { size = "kB" }')
    log = ["total 1.0 of 2.0", "numbers in ms", "total 2.5 of 3.5", "numbers in odds", "total 4.5 of 5.5"]
    found = rows(tmp_path, form, log, "values", "line", "key", "value", "unit")
    assert found == [
        (1, "total", 1.0, None),
        (1, "size", 2000.0, "B"),
        (3, "total", 0.0025, "s"),
        (3, "size", 3500.0, "B"),
        (5, "total", 4.5, "odds"),
        (5, "size", 5500.0, "B"),
    ]


def test_phases_have_their_time_in_seconds(tmp_path: Path) -> None:
    units = 'unit = { pull = "ms", gate = "us" }'
    form = line("phases", "pull took {pull:.1f} and {gate:.1f}", "pull took 2.5 and 1.5", units)
    found = rows(tmp_path, form, ["pull took 2.5 and 1.5"] * 2, "phases", "line", "phase", "time_s")
    assert found == [(k, *each) for k in (1, 2) for each in (("pull", 0.0025), ("gate", 1.5e-06))]


KERNEL = "kernel {name:S} took {time:.1f}"
MAPPED = line(
    "kernels",
    KERNEL,
    "kernel a took 2.5",
    'unit = { time = "ms" }\nmap = [["category", "name", "*gemm*", "gemm"], ["category", "name", "*", "other"]]',
)


@pytest.mark.parametrize(
    ("form", "text", "columns", "expected"),
    [
        (
            line("kernels", KERNEL, "kernel a took 2.5", 'set = { category = "gemm" }\nunit = { time = "ms" }'),
            "kernel mm took 2.5",
            ("name", "category", "time_s"),
            ("mm", "gemm", 0.0025),
        ),
        (MAPPED, "kernel sgemm_x took 2.5", ("name", "category"), ("sgemm_x", "gemm")),
        (MAPPED, "kernel copy took 2.5", ("name", "category"), ("copy", "other")),
        (
            line(
                "steps",
                "own {_a:d} of step {step:d}, loss {loss:.1f}",
                "own 4 of step 3, loss 2.5",
                'compute = { mfu = "_a / 8" }',
            ),
            "own 4 of step 3, loss 2.5",
            ("step", "loss", "mfu"),
            (3, 2.5, 0.5),
        ),
        (
            line("steps", "own step {step:d}, mfu {mfu:.1f}", "own step 3, mfu 2.5", "unknown = { mfu = -1.0 }"),
            "own step 3, mfu -1.0",
            ("step", "mfu"),
            (3, None),
        ),
    ],
)
def test_columns_of_a_line(
    tmp_path: Path, form: str, text: str, columns: tuple[str, ...], expected: tuple[Any, ...]
) -> None:
    table = "kernels" if "kernel" in text else "steps"
    (found,) = rows(tmp_path, form, [text], table, *columns)
    assert found == expected


def test_a_line_with_two_measurements_gives_two_rows(tmp_path: Path) -> None:
    form = line(
        "collectives",
        "{op:w} of {size:d}: {time:.1f} and in place {in_time:.1f}",
        "reduce of 8: 2.5 and in place 1.5",
        'unit = { size = "B", time = "us", in_time = "us" }\nagain = { time = "in_time" }',
    )
    found = rows(tmp_path, form, ["reduce of 8: 2.5 and in place 1.5"], "collectives", "time_s")
    assert [pytest.approx(time) for (time,) in found] == [2.5e-6, 1.5e-6]


def test_items_of_a_list_fill_a_column(tmp_path: Path) -> None:
    """Each number of the list is a row, with its index."""
    form = line("loads", "loads at step {step:d}: [{amount:l}]", "loads at step 3: [1, 2]", 'items = ["expert"]')
    log = ["loads at step 3: [5, 7]", "loads at step 4: [9]"]
    assert rows(tmp_path, form, log, "loads", "step", "expert", "amount") == [(3, 0, 5), (3, 1, 7), (4, 0, 9)]


# --- columns that all rows have ---------------------------------------------------------------------------------------

WAITED = line("values", "io took {wait:.1f} of {total:d}", "io took 2.5 of 3", 'unit = { wait = "ms" }')


def test_ranks_and_how_they_are_known(tmp_path: Path) -> None:
    text = "io took 2.5 of 3"
    found = rows(tmp_path, WAITED, [f"[rank0]:{text}", text, f"[rank1]:{text}"], "values", "key", "rank", "rank_by")
    assert [row for row in found if row[0] == "wait"] == [
        ("wait", 0, "label"), ("wait", None, None), ("wait", 1, "label"),
    ]  # fmt: skip


def test_segments_of_a_line_are_its_parts(tmp_path: Path) -> None:
    found = rows(tmp_path, WAITED, ["io took 2.5 of 3\rio took 0.5 of 4"], "values", "line", "part", "value")
    assert sorted(found) == [(1, 0, 0.0025), (1, 0, 3), (1, 1, 0.0005), (1, 1, 4)]


def test_a_clock_gives_step_times_and_their_source(tmp_path: Path) -> None:
    form = line(
        "steps", "part {step:d} elapsed {time:.1f} s", "part 1 elapsed 0.5 s", 'unit = { time = "s" }\nclock = "time"'
    )
    lines = ["part 1 elapsed 0.5 s", "part 2 elapsed 1.5 s", "part 4 elapsed 4.5 s"]
    columns = ("step", "elapsed_s", "step_time_s", "step_time_from", "step_time_by", "steps_averaged", "copy")
    assert rows(tmp_path, form, lines, "steps", *columns) == [
        (1, 0.5, None, None, None, 1, 1), (2, 1.5, 1.0, 1, "clock", 1, 1), (4, 4.5, 1.5, 2, "clock", 2, 1),
    ]  # fmt: skip


# --- lines that describe themselves -----------------------------------------------------------------------------------

WAIT = "| Metric | Value |\n|---|---|\n| Wait (ms) | 12.5 |\n| Size (KiB) | 3 |\n| Rate | 7 |\n"
PRINTED = "metric,value,unit\nlatency,3.5,ms\nsize,2,KiB\nodd,7,foos\nplain,1,\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WAIT, [("Wait", 0.0125, "s"), ("Size", 3072, "B"), ("Rate", 7, None)]),  # the names hold the units
        (WAIT.replace(" (ms)", "").replace(" (KiB)", ""), [("Wait", 12.5, None), ("Size", 3, None), ("Rate", 7, None)]),
        (PRINTED, [("latency", 0.0035, "s"), ("size", 2048, "B"), ("odd", 7, "foos"), ("plain", 1, None)]),
    ],
)
def test_rows_of_a_table_are_in_the_units_that_they_name(text: str, expected: list[tuple[Any, ...]]) -> None:
    found = sorted(read(text.encode()).rows("values"), key=lambda row: int(row["line"]))
    assert [(row["key"], row["value"], row["unit"]) for row in found] == expected


def test_columns_of_a_line_with_a_time_a_process_or_a_guess() -> None:
    stamped = "".join(f"[2026-01-01 10:00:0{k}] step {k} loss 2.5\n" for k in (1, 2))
    columns = ("printed_ns", "clock", "source", "read_by")
    assert [tuple(row[name] for name in columns) for row in read(stamped.encode()).rows("steps")] == [
        (1767261601_000000000, "local", None, None), (1767261602_000000000, "local", None, None),
    ]  # fmt: skip
    pods = "".join(f"[pod/web-{pod}/main] step {k} loss 2.5\n" for k in (1, 2) for pod in (0, 1))
    found = sorted(read(pods.encode()).rows("steps"), key=lambda row: int(row["line"]))
    assert [tuple(row[name] for name in columns) for row in found] == [
        (None, None, source, None) for _ in (1, 2) for source in ("web-0/main", "web-1/main")
    ]


def test_each_cell_of_a_matrix_is_a_part_of_its_line(tmp_path: Path) -> None:
    form = '''
scopes = ["run", "matrix"]
[[table]]
name = "sent"
title = "{key:w} bandwidth (MB/s)"
opens = "matrix"
table = "values"
cells = { column = "peer", number = "bandwidth" }
unit = { bandwidth = "MB/s" }
sample = """
Send bandwidth (MB/s)
   D\\\\D     0      1
     0   8.00   2.50
"""
[table.columns]
"D\\\\D" = "{gpu:d}"
"*" = "{*:.2f}"
'''
    lines = ["Send bandwidth (MB/s)", "   D\\D     0      1", "     0   8.00   2.50", "     1   3.00   9.00"]
    loaded = load(given_file(tmp_path, 'title = "matrix"\n' + form))
    found = read("".join(f"{line}\n" for line in lines).encode(), formats=[loaded]).rows("values")
    cells: dict[tuple[int, int], dict[str, Any]] = {}
    for row in found:
        cells.setdefault((row["line"], row["part"]), {})[row["key"]] = (row["value"], row["unit"])
    assert len({part for _, part in cells}) == 2 and 0 not in {part for _, part in cells}
    assert [cells[place] for place in sorted(cells)] == [
        {"gpu": (gpu, None), "peer": (peer, None), "Send.bandwidth": (pytest.approx(rate), "GB/s")}
        for gpu, peer, rate in ((0, 0, 0.008), (0, 1, 0.0025), (1, 0, 0.003), (1, 1, 0.009))
    ]
