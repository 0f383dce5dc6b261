"""Tables of any program: the rows under a header prove it, wherever it stands and whatever separates the cells."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.reading import Reading, read

from perflog.errors import InputError, UnrecognisedError
from perflog.formats.families.cell_cutting import cells_of
from perflog.parsing.match.ordered import table_evidence as module
from perflog.parsing.match.ordered.table_evidence import PrintedTable, _cells_at, value_and_unit


def text(*lines: str) -> bytes:
    return "\n".join([*lines, ""]).encode()


def rows(got: Reading) -> dict[int, dict[str, Any]]:
    """By line, the values of its row by name."""
    found: dict[int, dict[str, Any]] = {}
    for row in got.rows("values"):
        found.setdefault(row["line"], {})[row["key"]] = row["text"] if row["value"] is None else row["value"]
    return found


TABLES: list[tuple[tuple[str, ...], dict[int, dict[str, Any]]]] = [
    (  # the unit in a cell is right, whatever the header says
        ("| ms | Duration (s) |", "|----|--------------|", "| 10 |    10.500 ms |", "| 30 |    30.500 ms |"),
        {3: {"ms": 10, "Duration": 0.0105}, 4: {"ms": 30, "Duration": 0.0305}},
    ),
    (  # names of several values in a cell, and one unit for all of them
        ("| Set | TTFP p50 / p95 | Retries (P50/P90) |", "|---|---|---|", "| crowd | 1500 / 2500 ms | 0.5 / 2.5 |"),
        {3: {"Set": "crowd", "TTFP_p50": 1.5, "TTFP_p95": 2.5, "Retries_P50": 0.5, "Retries_P90": 2.5}},
    ),
    (  # the unit of a total is that of the memory in use
        ("| Set | Time (ms) | Mem |", "|---|---|---|", "| a | 12.5 | 12.5/80.0 GB |", "| b | 13.5 | 13.5/80.0 GB |"),
        {
            3: {"Set": "a", "Time": 0.0125, "Mem": 12.5e9, "Mem_total": 8e10},
            4: {"Set": "b", "Time": 0.0135, "Mem": 13.5e9, "Mem_total": 8e10},
        },
    ),
    (  # names with their units in one cell, and a value for each
        (
            "| op | fwd (ms) bwd (ms) | ratio |",
            "|---|---|---|",
            "| gelu | 1.25 2.5 | 2.0x |",
            "| silu | 1.5 3.5 | 2.5x |",
        ),
        {
            3: {"op": "gelu", "fwd": 0.00125, "bwd": 0.0025, "ratio": 2},
            4: {"op": "silu", "fwd": 0.0015, "bwd": 0.0035, "ratio": 2.5},
        },
    ),
    (  # bars between groups of columns
        (
            "  size |  NCCL(ms)  relay(ms)   ratio",
            "------------",
            "  4 KB |     0.040      0.025   1.59x",
            "  9 KB |     0.043      0.028   1.53x",
        ),
        {
            3: {"size": 4000, "NCCL": 4e-5, "relay": 2.5e-5, "ratio": 1.59},
            4: {"size": 9000, "NCCL": 4.3e-5, "relay": 2.8e-5, "ratio": 1.53},
        },
    ),
    (  # a column of words without a name, and a remark after a value
        (
            "| | Round 0 (tok/s) | Avg |",
            "|---|---|---|",
            "| **Plain** | 47.5 (JIT) | **216.5** |",
            "| Fused | 60.5 | 220 |",
        ),
        {3: {"row": "Plain", "Round_0": 47.5, "Avg": 216.5}, 4: {"row": "Fused", "Round_0": 60.5, "Avg": 220}},
    ),
    (  # a colon after the names of rows is none of a figure
        ("| Part | Time (ms) |", "|---|---|", "| load: | 1.5 |", "| save: | 2.5 |"),
        {3: {"Part": "load:", "Time": 0.0015}, 4: {"Part": "save:", "Time": 0.0025}},
    ),
    (  # rows of sizes are no quantities: figures of several units in a column stay words
        ("| Size | Base | New |", "|---|---|---|", "| 4 KB | 3 ms | 2 ms |", "| 8 KB | 9 tok/s | 8 tok/s |"),
        {3: {"Size": 4000, "Base": "3 ms", "New": "2 ms"}, 4: {"Size": 8000, "Base": "9 tok/s", "New": "8 tok/s"}},
    ),
    (  # a value again in another unit; words in a column of values with a unit
        (
            "| Phase | Time | Mean |",
            "|---|---:|---|",
            "| step | 7,275.18s (121.25m) | `~0.62s` steady |",
            "| optimizer | 5.04s | `0.6243s` |",
            "| save | 167.5s | `0.5136s` |",
        ),
        {
            3: {"Phase": "step", "Time": 7275.18, "Mean": "0.62s steady"},
            4: {"Phase": "optimizer", "Time": 5.04, "Mean": 0.6243},
            5: {"Phase": "save", "Time": 167.5, "Mean": 0.5136},
        },
    ),
    (  # a card: bars at both ends of each line, and a quantity in each row, in the unit of its cells
        (
            "+----------------------------------------+",
            "|  Metric        Median   Worst   Scope  |",
            "|  ------------------------------------  |",
            "|  GPU Util      14.0%    0.5%    node=n0|",
            "|  GPU Memory    6.25GB   8.5GB   node=n1|",
            "+----------------------------------------+",
        ),
        {
            4: {"Metric": "GPU Util", "Median": 0.14, "Worst": 0.005, "Scope": "node=n0"},
            5: {"Metric": "GPU Memory", "Median": 6.25e9, "Worst": 8.5e9, "Scope": "node=n1"},
        },
    ),
    (  # two values in most cells of a column, each with its unit
        (
            "| Benchmark | A |",
            "| --- | ---: |",
            "| `Put`, 1GB | 22202.5 us, 48.36 GB/s |",
            "| `Get`, 1GB | 22209.5 us, 48.35 GB/s |",
            "| Small | 368.99 us |",
        ),
        {
            3: {"Benchmark": "Put, 1GB", "A": 0.0222025, "A_GB_s": 48.36},
            4: {"Benchmark": "Get, 1GB", "A": 0.0222095, "A_GB_s": 48.35},
            5: {"Benchmark": "Small", "A": 0.00036899},
        },
    ),
    (  # each value has a unit of its own
        ("Metric\tValue", "RTFx\t0.25x", "Mean Chunk\t4.5s", "Peak\t2.5ms"),
        {2: {"RTFx": 0.25}, 3: {"Mean_Chunk": 4.5}, 4: {"Peak": 0.0025}},
    ),
    (
        ("M,N,cuBLAS,Triton", "256,512,4.1,4.2", "512,512,26.2,91.5"),
        {
            2: {"M": 256, "N": 512, "cuBLAS": 4.1, "Triton": 4.2},
            3: {"M": 512, "N": 512, "cuBLAS": 26.2, "Triton": 91.5},
        },
    ),
    (
        ("gemm:", "      M     Ours", "0  256.0    4.5", "1  512.0   26.5"),
        {1: {"table_title": "gemm"}, 3: {"M": 256, "Ours": 4.5}, 4: {"M": 512, "Ours": 26.5}},
    ),
    (
        ("# Results", "", "| ISL | TTFT Avg (ms) |", "|-----|-----|", "| 128 | 35.5 |", "", "Done."),
        {1: {"table_title": "Results"}, 5: {"ISL": 128, "TTFT_Avg": 0.0355}},
    ),
    (
        ("name         launches   mean_ms", "gemm_1            120     2.000", "soft max            7     0.500"),
        {
            2: {"name": "gemm_1", "launches": 120, "mean": 0.002},
            3: {"name": "soft max", "launches": 7, "mean": 0.0005},
        },
    ),
    (
        (
            "| size  | algbw    | time   |",
            "| ----: | -------: | -----: |",
            "| 32KiB | 0.5GBps  | 35.5us |",
            "| 1MiB  | 20.5GBps | 1.5ms  |",
        ),
        {3: {"size": 32768, "algbw": 0.5, "time": 35.5e-6}, 4: {"size": 1 << 20, "algbw": 20.5, "time": 0.0015}},
    ),
    (  # nvbench: times and rates in the unit that suits each of them, two columns of one name
        (
            "|  T  |  Time     | Noise |  Time 2  | Noise | Elem/s  | BW         |",
            "|-----|-----------|-------|----------|-------|---------|------------|",
            "| F32 |  10.5 us  | 5.25% | 3.5 us   | 1.25% | 296.5M  | 2.5 GB/s   |",
            "| F64 |  1.25 ms  | 0.25% | 1.5 ms   | 0.50% | 218.25G | 1.746 TB/s |",
        ),
        {
            3: {
                "T": "F32",
                "Time": pytest.approx(10.5e-6),
                "Noise": 0.0525,
                "Time_2": pytest.approx(3.5e-6),
                "Noise_2": 0.0125,
                "Elem_s": 296.5e6,
                "BW": 2.5,
            },
            4: {
                "T": "F64",
                "Time": 0.00125,
                "Noise": 0.0025,
                "Time_2": 0.0015,
                "Noise_2": 0.005,
                "Elem_s": 218.25e9,
                "BW": 1746.0,
            },
        },
    ),
    (  # libfabric: a count with a factor is a word, and a rate of millions has no unit
        (
            "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec",
            "64      20k     1.2m        0.03s     42.50       1.50       0.67",
            "1m      200     200m        0.25s   6892.50     152.12       0.01",
        ),
        {
            2: {
                "bytes": 64,
                "iters": "20k",
                "total": "1.2m",
                "time": 0.03,
                "MB_sec": pytest.approx(0.0425),
                "time_per_xfer": 1.5e-6,
                "Mxfers_sec": 0.67,
            },
            3: {
                "bytes": "1m",
                "iters": 200,
                "total": "200m",
                "time": 0.25,
                "MB_sec": 6.8925,
                "time_per_xfer": 152.12e-6,
                "Mxfers_sec": 0.01,
            },
        },
    ),
    (  # llama-bench: a value and its spread have one unit
        (
            "| model | test  |            t/s |",
            "| ----- | ----- | -------------: |",
            "| qwen  | pp512 | 996.25 ± 16.25 |",
            "| qwen  | tg128 | 170.25 ± 2.5 |",
        ),
        {
            3: {"model": "qwen", "test": "pp512", "t_s": 996.25, "t_s_spread": 16.25},
            4: {"model": "qwen", "test": "tg128", "t_s": 170.25, "t_s_spread": 2.5},
        },
    ),
    (  # a row that the program marks
        (
            "   kernel        time(ms)     TFLOPS",
            "   sage_fp8        9.5000    1505.25",
            ">> aiter_mxfp4     6.6250    2395.75  <<",
            "   aiter_bf16     12.2500    1195.50",
        ),
        {
            2: {"kernel": "sage_fp8", "time": 0.0095, "TFLOPS": 1505.25},
            3: {"kernel": "aiter_mxfp4", "time": pytest.approx(0.006625), "TFLOPS": 2395.75},
            4: {"kernel": "aiter_bf16", "time": 0.01225, "TFLOPS": 1195.5},
        },
    ),
    (  # sizes that may count in steps of 1,000 or 1,024 stay words
        (
            "| op | sent  | kept    |",
            "|----|-------|---------|",
            "| a  | 5 KB  | 2 KiB   |",
            "| b  | 5 MB  | 2 MiB   |",
        ),
        {3: {"op": "a", "sent": "5 KB", "kept": 2048}, 4: {"op": "b", "sent": "5 MB", "kept": 2 << 20}},
    ),
    (  # a remark after the last cell
        (
            "engine    batch   latency(ms)  speedup",
            "vllm          8         12.5     1.00x",
            "hf            8         33.25    0.37x  (vs vllm)",
        ),
        {
            2: {"engine": "vllm", "batch": 8, "latency": 0.0125, "speedup": 1},
            3: {"engine": "hf", "batch": 8, "latency": 0.03325, "speedup": 0.37},
        },
    ),
    (  # rich: a long cell goes on in the next line; a row without figures is a row where the cell above had room
        (
            "┏━━━━━━━━━━━━━━┳━━━━━━━━━━━┓",
            "┃ kernel       ┃ time (ms) ┃",
            "┡━━━━━━━━━━━━━━╇━━━━━━━━━━━┩",
            "│ flash with a │      12.5 │",
            "│ long name    │           │",
            "│ cudnn        │      10.5 │",
            "│ others       │           │",
            "└──────────────┴───────────┘",
        ),
        {
            4: {"kernel": "flash with a long name", "time": 0.0125},
            6: {"kernel": "cudnn", "time": 0.0105},
            7: {"kernel": "others"},
        },
    ),
    (  # a row that is cut off, in the middle of a number
        (
            "┌──────┬───────┬───────┐",
            "│ part │ mean  │ p99   │",
            "├──────┼───────┼───────┤",
            "│ load │  12.5 │  31.5 │",
            "│ save │  10.5 │  22.5 │",
            "│ wait │  1",
        ),
        {
            4: {"part": "load", "mean": 12.5, "p99": 31.5},
            5: {"part": "save", "mean": 10.5, "p99": 22.5},
            6: {"part": "wait"},
        },
    ),
    (  # tabulate
        (
            "╒═══════╤════════╕",
            "│  size │   rate │",
            "╞═══════╪════════╡",
            "│   128 │  312.5 │",
            "├───────┼────────┤",
            "│   256 │  412.5 │",
            "╘═══════╧════════╛",
        ),
        {4: {"size": 128, "rate": 312.5}, 6: {"size": 256, "rate": 412.5}},
    ),
    (  # a bar before the names alone, as copies of pages have it
        (
            "| Workload | Rate | Prompt / Output | TTFT",
            "-- | -- | -- | --",
            "multi-turn | 7.5 req/s | 8K / 1K | 45.5 ms",
            "random | 5.25 req/s | 8k / 1k | 35.5 ms",
        ),
        {
            3: {"Workload": "multi-turn", "Rate": 7.5, "Prompt_Output": "8K / 1K", "TTFT": 0.0455},
            4: {"Workload": "random", "Rate": 5.25, "Prompt_Output": "8k / 1k", "TTFT": 0.0355},
        },
    ),
    (  # names go on in the second line
        (
            "Kernel name                Calls    Total        Avg       Share",
            "                                    time (ms)    (us)      (%)",
            "sgemm_128x64_nn            120      31.25        260.5     45.5",
            "at::native::vectorized<4>  240      11.25        46.5      16.5",
        ),
        {
            3: {
                "Kernel_name": "sgemm_128x64_nn",
                "Calls": 120,
                "Total_time": 0.03125,
                "Avg": 260.5e-6,
                "Share": 0.455,
            },
            4: {
                "Kernel_name": "at::native::vectorized<4>",
                "Calls": 240,
                "Total_time": 0.01125,
                "Avg": 46.5e-6,
                "Share": 0.165,
            },
        },
    ),
    (
        (
            "  op     eager   compiled",
            "          (ms)       (us)",
            "gemm      1.25       12.5",
            "conv      2.25       15.5",
        ),
        {
            3: {"op": "gemm", "eager": 0.00125, "compiled": 12.5e-6},
            4: {"op": "conv", "eager": 0.00225, "compiled": 15.5e-6},
        },
    ),
    (  # a bar before the rows alone
        ("name | p50 | rate", "--|--|--", "| x1 | 1.5 | 2.5", "| x2 | 3.5 | 4.5"),
        {3: {"name": "x1", "p50": 1.5, "rate": 2.5}, 4: {"name": "x2", "p50": 3.5, "rate": 4.5}},
    ),
]


def test_two_signs_of_factors_are_one_unit() -> None:
    got = read(text("| op | speedup | loss |", "|--|--|--|", "| a | 1.5x | 2.5 |", "| b | **2.5×** | 3.5 |"))
    assert [row["value"] for row in got.rows("values") if row["key"] == "speedup"] == [1.5, 2.5]


def test_a_row_with_fewer_cells_belongs_to_another_table() -> None:
    first = ("| Workload | Rate | TTFT | Lat |", "|--|--|--|--|", "| a | 7.5 | 1.5 | 2.5 |", "")
    got = read(text(*first, "a | b | c |", "--|--|--|", "x1 | 1.5 | 2.5 |", "x2 | 3.5 | 4.5 |"))
    assert rows(got) == {3: {"Workload": "a", "Rate": 7.5, "TTFT": 1.5, "Lat": 2.5}}


@pytest.mark.parametrize(("lines", "expected"), TABLES)
def test_rows_prove_a_header(lines: tuple[str, ...], expected: dict[int, dict[str, Any]]) -> None:
    got = read(text(*lines))
    assert got.done.formats == ["tables"]
    assert {line: pytest.approx(row) for line, row in expected.items()} == rows(got)
    assert got.done.figures["unread"] == 0


def test_numbers_that_are_not_aligned_are_each_under_their_own_name() -> None:
    got = read(text("step  loss  time_ms", "1 2.5 10.5", "2 2.4 10.6", "3 2.3 11.0"))
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(1, 2.5), (2, 2.4), (3, 2.3)]
    with pytest.raises(InputError):
        read(text("size  loss  time_ms", "1 2.5 10.5", "2 2.4 10.6", "3 2.3 11.0"))


@pytest.mark.parametrize("cell", ["{}/25", "{} (25)", "{} ± 25"])
def test_the_step_of_a_cell_with_several_values_is_whole(cell: str) -> None:
    cells = [f"| {cell.format(k)} | 2.{k} |" for k in (1, 2, 3)]
    got = read(text("| step | loss |", "|------|------|", *cells))
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(1, 2.1), (2, 2.2), (3, 2.3)]


@pytest.mark.parametrize("between", [" ", "  ", "   "])
def test_names_with_units_need_no_alignment(between: str) -> None:
    header = between.join(("size(B)", "time(us)", "algbw(GB/s)"))
    lines = [between.join(row) for row in (("1024", "10.01", "0.102"), ("4096", "10.04", "0.408"))]
    got = read(text(header, *lines))
    assert [row["time"] for row in rows(got).values()] == pytest.approx([10.01e-6, 10.04e-6])
    assert got.done.lines.get("unread", 0) == 0


def test_a_table_of_steps_has_steps() -> None:
    got = read(text("step loss", "1 4.5", "2 4.25", "3 4.0"))
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(1, 4.5), (2, 4.25), (3, 4.0)]


@pytest.mark.parametrize(
    "lines",
    [
        ("Hello, world", "12, 14 monkeys and more, and so on"),
        ("Loading the model took", "12 seconds of 14"),
        ("a note to the reader", "3 of 4 tests passed"),
        ("| one | two |", "| three | four |"),
    ],
)
def test_sentences_are_no_tables(lines: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        read(text(*lines))


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("ab     12     x", ["ab", "12", "x"]),
        ("ab            x", ["ab", "", "x"]),  # a cell may be empty
        ("ab", ["ab", "", ""]),
        ("       12     x", ["", "12", "x"]),
        ("ab      12    x", []),  # a cell begins elsewhere
        (" ab    12     x", []),
        ("abcdefgh12    x", []),  # nothing between two cells
        ("ab :   12     x", []),  # a name with its value
        ("a b    1 2    x y z", ["a b", "1 2", "x y z"]),
    ],
)
def test_cells_begin_where_names_do(row: str, cells: list[str]) -> None:
    assert _cells_at("Name   Value  Remark")(row) == cells


def of_metrics(names: str, more: str) -> bytes:
    rows = "| GPU | H100 80GB HBM3 |", "| Driver | 550.54.15 |", "| Throughput | 29,391.20 tok/s |"
    return text(names, "|---|---|", *rows, more)


def test_a_metric_among_words() -> None:
    log = read(of_metrics("| Metric | Value |", "| Model | llama |"))
    assert [(x["key"], x["value"]) for x in log.rows("values") if x["value"] is not None] == [("Throughput", 29391.2)]


@pytest.mark.parametrize(
    ("names", "more"),
    [("| Metric | Value |", "| Tokens | 128 |"), ("| Setting | Value |", "| Model | llama |")],  # of which unit?
)
def test_settings_among_words(names: str, more: str) -> None:
    with pytest.raises(UnrecognisedError):
        read(of_metrics(names, more))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("12", ("12", "")),
        ("2.5 ms", ("2.5", " ms")),
        ("2.5ms", ("2.5", "ms")),
        ("0.25x", ("0.25", "x")),
        ("12 openat", None),
        ("6.75 B", None),  # bytes or billions
        ("6.75B", None),
        ("7B", ("7", "B")),
        ("words", None),
        ("", None),
    ],
)
def test_the_number_in_a_cell_and_its_unit(cell: str, expected: tuple[str, str] | None) -> None:
    assert value_and_unit(cell) == expected


def test_a_condition_in_brackets_is_after_a_number() -> None:
    got = read(
        text(
            "| hosts | tok/s/GPU  | all tok/s | change            |",
            "|-------|------------|-----------|-------------------|",
            "| a     | 2914       | 1.5 M     | `+3.7%` (n=49)    |",
            "| b     | 1765 (V=4) | 2.5 M     | `-2.5%` (n=48)    |",
        )
    )
    expected = {
        3: {"hosts": "a", "tok_per_s_GPU": 2914, "all_tok_per_s": 1.5e6, "change": 0.037},
        4: {"hosts": "b", "tok_per_s_GPU": 1765, "all_tok_per_s": 2.5e6, "change": -0.025},
    }
    assert rows(got) == {line: pytest.approx(row) for line, row in expected.items()}
    assert got.done.figures["unread"] == 3  # of the conditions


@pytest.mark.parametrize(("bar", "rule"), [("|", "|---|---|"), ("│", "├───┼───┤")])
def test_names_of_metrics_in_rows_hold_their_units(bar: str, rule: str) -> None:
    cells = [("Metric", "Value"), ("-- Load --", ""), ("Wait (ms)", "12.5"), ("Done (req/s)", "10.5"), ("Retries", "3")]
    got = read(
        text(*(f"{bar} {name} {bar} {value} {bar}" + f"\n{rule}" * (not k) for k, (name, value) in enumerate(cells)))
    )
    values = {row["key"]: row["value"] for row in got.rows("values")}
    assert values == pytest.approx({"Wait": 0.0125, "Done": 10.5, "Retries": 3})
    assert [row["unit"] for row in got.rows("values")] == ["s", "1/s", None]


def test_numbers_of_operations_in_rows_are_no_rates() -> None:
    cells = [("Metric", "Value"), ("FLOPs per GPU step", "7.5 TFLOPs"), ("Reached FLOPS", "300.5 TFLOPs")]
    got = read(text(*(f"| {name} | {value} |" + "\n|---|---|" * (not k) for k, (name, value) in enumerate(cells))))
    expected = [("FLOPs_per_GPU_step", 7.5e12, "FLOP"), ("Reached_FLOPS", 300.5, "TFLOP/s")]
    assert [(row["key"], row["value"], row["unit"]) for row in got.rows("values")] == expected


def test_columns_of_percentiles_are_named_after_them() -> None:
    got = read(text("Metric        50%     99.9%", "Latency (s)   17.25   20.75", "TTFT (ms)     176.5   2246.5"))
    assert rows(got)[2] == {"Metric": "Latency (s)", "p50": 17.25, "p99_9": 20.75}


def test_rows_show_which_words_of_a_header_are_one_name() -> None:
    got = read(
        text(
            "Test Name   Msg Size Chunk Blocks    NCCL BW   P2P Lat Lat Reduc",
            "Ch1_8B            8B 512KB      1       0.50       8.9      -2.6",
            "Ch1_64KB        64KB 512KB      1       9.53      11.0       2.8",
            "Ch32_1GB         1GB 512KB     32     723.16    2941.1      28.5",
        )
    )
    assert rows(got)[4] == {
        "Test_Name": "Ch32_1GB", "Msg_Size": 2**30, "Chunk": 2**19, "Blocks": 32, "NCCL_BW": 723.16, "P2P_Lat": 2941.1,
        "Lat_Reduc": 28.5,
    }  # fmt: skip
    assert got.done.figures["unread"] == 0


def test_a_comma_after_each_number_is_no_part_of_it() -> None:
    got = read(
        text("    M      N   Time(s)  Rate(GF/s)", "  128,   256,   0.519    827.5", "  256,   256,   1.005    854.5")
    )
    assert rows(got)[3] == {"M": 256, "N": 256, "Time": 1.005, "Rate": 0.8545}


def test_a_box_may_have_names_of_several_words_and_a_column_of_row_numbers() -> None:
    box = text(
        "╒════╤═════════════╤═════════╤═════════════╕",
        "│    │ Metric      │ Avg     │ Pct of Peak │",
        "╞════╪═════════════╪═════════╪═════════════╡",
        "│  0 │ VALU IOPs   │ 364.09  │ 1.61        │",
        "├────┼─────────────┼─────────┼─────────────┤",
        "│  1 │ L2 Cache BW │ 1296.31 │ 37.23       │",
        "╘════╧═════════════╧═════════╧═════════════╛",
    )
    assert rows(read(box))[6] == {"Metric": "L2 Cache BW", "Avg": 1296.31, "Pct_of_Peak": 37.23}


def test_a_count_and_a_sum_of_a_kernel_are_its_calls_and_time() -> None:
    got = read(
        text("| Kernel_Name | Count | Sum(ns) | Pct |", "|---|---|---|---|", "| gemm | 2.00 | 20160.00 | 75.5 |")
    )
    (row,) = got.rows("kernels")
    assert (row["name"], row["calls"], row["time_s"], row["share"]) == ("gemm", 2, pytest.approx(20.16e-6), 0.755)


def test_a_matrix_of_devices_is_proved_by_its_labels() -> None:
    got = read(
        text(
            "Unidirectional LOAD bandwidth GiB/s [Remote read]",
            " SRC\\DST      GPU 00    GPU 01",
            "GPU 00  ->   5563.50     47.75",
            "GPU 01  ->     47.50   5154.50",
        )
    )
    found = {(row["line"], row["key"]): row["value"] for row in got.rows("values") if row["unit"] == "GB/s"}
    printed = {(3, "GPU_00"): 5563.5, (3, "GPU_01"): 47.75, (4, "GPU_00"): 47.5, (4, "GPU_01"): 5154.5}
    assert found == {key: pytest.approx(value * 2**30 / 1e9) for key, value in printed.items()}


def test_a_column_of_durations_may_have_some_of_one_unit() -> None:
    got = read(
        text("| phase | mean |", "|---|---:|", "| `generate` | 5h26m |", "| `sync` | 6m16s |", "| misc | ~22s |")
    )
    assert [row["mean"] for row in rows(got).values()] == [19560, 376, 22]


STEPS = ("step loss", "1 2.5", "2 2.4", "3 2.3")
FRAME = ("   size  time", "0   1.5   2.5", "1   2.5   3.5")


@pytest.mark.parametrize(
    ("style", "lines", "rows_and_header"),
    [
        ("csv", ("m,n", "1,2"), None),  # two names may be a sentence with a comma: it needs two rows
        ("csv", ("m,n", "1,2", "3,4"), (2, True)),
        ("csv", ("m,n,k", "1,2,3"), (1, True)),
        ("csv", ("m,n,k", "1,2,3", "x,y,z"), (1, True)),  # the table ends at a row without values
        ("csv", ("m,n,k", "1,2,3", "", "4,5,6"), (1, True)),
        ("csv", ("m,n,k", "1,2,3", "4,5,6,7"), (1, True)),
        ("csv", ("m,n,k", "# remark", "1,2,3"), None),
        ("csv", ("#m,n,k", "# remark", "1,2,3"), (1, True)),
        ("csv", ("name,time,more...", "x,1.5,n=2.5", "y,2.5,n=3"), (2, True)),
        ("csv", ("name,time,more", "x,1.5,n=2.5", "y,2.5,n=3"), None),  # `n=2.5` names its own figure
        ("tab", ("m\tn", "1\t2", "3\t4"), (2, True)),
        ("tab", ("|m\tn", "1\t2", "3\t4"), None),  # bars separate its cells
        ("words", STEPS, (3, True)),
        ("words", STEPS[:3], (2, False)),  # two columns need three rows that count steps
        ("words", (*STEPS[:2], "3 2.4", "2 2.3"), (3, False)),
        ("words", (*STEPS[:2], "2 2.4", "2 2.3"), (3, False)),
        ("words", ("size loss", *STEPS[1:]), (3, False)),
        ("words", (*STEPS[:3], "3 x"), (3, False)),
        ("words", (*STEPS, "1 2 3"), None),  # a row of other cells follows
        ("words", (*STEPS, "and so 2"), (3, True)),
        ("blanks", ("name   mean   max", "ab     1.5    2"), (1, True)),
        ("blanks", ("name   mean   max", "ab       1.5    2"), (1, True)),
        ("blanks", ("name   mean   max", "ab  1.5  2"), (1, False)),  # `1.5` is under `name` alone
        ("blanks", ("name   mean   max", "ab:    1.5    2"), (1, False)),  # it may name its own figure
        ("blanks", ("name   mean   max", "ab:    1.5    2", "cd:    2.5    3"), (2, True)),
        ("blanks", ("size", "1", "2", "3"), (3, False)),  # one column
        ("blanks", ("n   mean(ms)   max(ms)", "1  1.5  2", "2  5.5  2"), (2, True)),  # names with units
        ("blanks", ("n   mean(ms)   max(ms)", "1  1.5  2"), (1, False)),
        ("blanks", ("n   mean(ms)   max", "1  1.5  2", "2  5.5  2"), (2, False)),
        ("blanks", ("n   mean(ms)   max(ms)", "x  1.5  2", "y  5.5  2"), (2, False)),
        ("blanks", ("| n   mean   max", "| 1   1.5    2"), (1, False)),  # a frame around the lines of a row
        ("frame", FRAME, (2, True)),
        ("frame", (*FRAME[:2], "2   2.5   3.5"), (2, False)),  # they do not count up
        ("bars", ("| name | size |", "|---|---|", "| x | 1 |", "| y | 2 |"), (2, True)),
        ("bars", ("| name | size |", "| x | 1 |", "| y | 2 |"), (2, False)),
        ("bars", ("| name | size | time |", "| x | 1 | 2 |"), (1, True)),
        ("bars", ("| name | size= | time |", "| x | 1 | 2 |"), (1, False)),
        ("bars", ("| name | and | time |", "| x | 1 | 2 |"), (1, False)),
        ("bars", ("| name | 12 ms | time |", "| x | 1 | 2 |"), (1, False)),
        ("blanks", ("12:00:01 PM   CPU   user", "12:00:02 PM   0     1.5"), (1, False)),
        ("blanks", ("12:00:01 PM   CPU   user   idle", "12:00:02 PM   0     1.5    2.5"), (1, True)),
        ("blanks", ("n       GPU 0   GPU 1", "GPU 0     1.5     2", "GPU 1     -       2"), (2, True)),
        ("blanks", ("n       GPU 0   GPU 1", "GPU 0     1.5     2"), (1, True)),
    ],
)
def test_a_header_and_the_rows_below_it(
    style: str, lines: tuple[str, ...], rows_and_header: tuple[int, bool] | None
) -> None:
    """How many rows follow the first line, and whether it can only be their header."""
    table = PrintedTable.of(lines, style)
    assert (None if table is None else (len(table.rows), table.names_columns())) == rows_and_header


def test_names_of_columns_that_are_clear() -> None:
    """A clock before the names, a column of one mark, names that two columns share or that are cut off."""

    def names(style: str, *lines: str) -> list[str]:
        table = PrintedTable.of(lines, style)
        assert table is not None
        return list(table.columns())

    assert names("blanks", "12:00:01 PM   CPU   user", "12:00:02 PM   0     1.5") == ["CPU", "user"]
    assert names("bars", "| m | n | m |", "| x | 1 | 2 |") == ["n"]
    assert names("csv", "name,time,more...", "x,1.5,n=2.5", "y,2.5,n=3") == ["name", "time"]


@pytest.mark.parametrize(("second", "unitless"), [("2", []), ("2.5", ["n"]), ("-", ["n"]), ("x", [])])
def test_columns_of_fractions_without_a_unit(second: str, unitless: list[str]) -> None:
    """More than half of the cells have a point; the first column names the cases."""
    rows_below = ("1.5", "1.5", "7"), ("2.5", second, "8")
    table = PrintedTable("bars", [""], ["m", "n", "k (ms)"], [""], rows_below)
    assert sorted(table.unitless()) == unitless
    of_time = PrintedTable("bars", [""], ["m", "n (ms)", "k"], [""], rows_below)
    assert not of_time.unitless()
    assert not table.is_proved and PrintedTable("bars", [""], ["m"], [""], [], is_ruled=True).is_proved


@pytest.mark.parametrize(("rows_below", "is_proved"), [(2, False), (3, True)])
def test_a_file_for_programs_proves_its_names(rows_below: int, is_proved: bool) -> None:
    cells = [["1", "2", "3"]] * rows_below
    assert PrintedTable("csv", [""], ["m", "n", "k"], [""], cells).is_proved == is_proved
    assert not PrintedTable("csv", [""], ["m", "n"], [""], cells).is_proved
    assert not PrintedTable("bars", [""], ["m", "n", "k"], [""], cells).is_proved


def of_quantities(*rows_below: tuple[str, ...]) -> dict[str, str]:
    """How the cells of a table with a rule print their numbers."""
    lines = ["| Metric | A | B |", "|--|--|--|", *(f"| {' | '.join(row)} |" for row in rows_below)]
    table = PrintedTable.of(lines, "bars")
    assert table is not None
    types = table.cell_types()
    assert types.pop("Metric") == "s"
    return types


BOTH_WAYS = "r ms|r ms()|r tok/s|r tok/s()"


@pytest.mark.parametrize(
    ("below", "types"),
    [
        ([("Time", "3 ms", "2 ms"), ("Speed", "9 tok/s", "8 tok/s")], {"A": BOTH_WAYS, "B": BOTH_WAYS}),
        ([("Time", "3 ms", "2 ms"), ("Time", "9 tok/s", "8 tok/s")], {}),  # two rows of one name
        ([("Time", "3 ms", "2 tok/s"), ("Speed", "9 tok/s", "8 tok/s")], {"B": "r tok/s"}),  # two units in a row
        ([("Time", "3 ms", "10%"), ("Speed", "9 tok/s", "8%")], {"A": BOTH_WAYS, "B": "r%"}),  # and their shares
        ([("x", "1,234.5", "7"), ("y", "12,345.5", "8")], {"A": ",f"}),
        ([("x", "1,234", "7"), ("y", "12,345", "8")], {}),  # commas may be points of decimals
        ([("x", "1 s", "7"), ("y", "2", "8"), ("z", "3 s", "9")], {}),  # in seconds too?
    ],
)
def test_how_cells_print_numbers(below: list[tuple[str, ...]], types: dict[str, str]) -> None:
    assert of_quantities(*below) == types


@pytest.mark.parametrize(
    ("name", "units", "ways"),
    [
        ("Time", {" ms", " us"}, "r ms|r us"),
        ("Time", {"ms"}, "rms"),
        ("Time", {"s", "ms"}, "t"),
        ("Rate/s", {"K", "M"}, "q"),  # rates count in thousands
        ("Tokens", {"K", "M"}, ""),  # 10,000 or 10,240?
        ("Tokens", {"K"}, "rK"),
        ("Size", {"KB", "MB"}, "z"),
        ("Size", {" KB", " MB"}, ""),
        ("Size", {" KiB", " MiB"}, "r KiB|r MiB"),
        ("Size", {" KiB", " B"}, "r B|r KiB"),
        ("Speedup", {"x", "×"}, "rx|r×"),
        ("Value", {"x", "ms"}, "rms|rx"),
        ("Ratio", {"x", "ms"}, ""),
        ("Value", {"x", "openat"}, ""),
        ("BW", {" GB/s", " TB/s"}, "r GB/s|r TB/s"),
        ("BW", {" GB/s", " ms"}, ""),
    ],
)
def test_ways_to_print_numbers_with_units(name: str, units: set[str], ways: str) -> None:
    assert module._ways_with_units(name, "r", units) == ways


@pytest.mark.parametrize(
    ("cells", "shape"),
    [
        (["3 ms / 2 TFLOPS", "4 ms / 5 TFLOPS"], "{} ms / {} TFLOPS"),
        (["3 ms / 2 TFLOPS", "4 ms"], ""),
        (["3 us, 2 GB/s", "4 us, 5 GB/s", "6 us"], "{} us, {} GB/s"),  # most of them
        (["3 us, 2 GB/s", "6 us"], ""),
        (["3 us, 2 openat", "4 us, 5 openat"], ""),
        (["images/sec: 3 (jitter = 2)"], "images/sec: {} (jitter = {})"),
        (["m: 1, n: 2, k: 3, l: 4"], "m: {}, n: {}, k: {}, l: {}"),
        (["m: 1, n: 2, k: 3, l: 4, o: 5"], ""),
        (["1/2/3/4"], "{}/{}/{}/{}"),
        (["1/2/3/4/5"], ""),
        (["2048x2048"], ""),
        (["2 x 3"], ""),
        (["1 x / 2"], "{} x / {}"),
        (["(12)"], "({})"),
        (["12"], ""),
        (["12 apples / 3"], ""),
    ],
)
def test_the_shape_that_cells_share(cells: list[str], shape: str) -> None:
    assert module._shape_of_cells(cells) == shape


@pytest.mark.parametrize(
    ("cell", "bare"),
    [
        ("0.37x  (vs vllm)", "0.37x"), ("2459 (V=4)", "2459"), ("12 (step 3)", "12 (step 3)"),
        ("words (vs x)", "words (vs x)"), ("90.5s (1.51m)", "90.5s"), ("90.5s (2.5m)", "90.5s (2.5m)"),
        ("100ms (0.1009s)", "100ms"), ("100ms (0.102s)", "100ms (0.102s)"), ("12 (12)", "12 (12)"),
        ("1 GB (1 s)", "1 GB (1 s)"), ("1 GB (1000 MB)", "1 GB"),
    ],
)  # fmt: skip
def test_remarks_after_a_number(cell: str, bare: str) -> None:
    """In words, or the same value again in another unit."""
    assert module._without_remark(cell) == bare


@pytest.mark.parametrize(
    ("text", "are_names"),
    [("| m | n |", True), ("| m | n | k |", False), ("m n", False), ("|---|---|", False), ("| m 1.5 | n |", False)],
)
def test_names_between_bars(text: str, are_names: bool) -> None:
    assert module._are_names(text, len(cells_of("| m | n |", "bars"))) == are_names


@pytest.mark.parametrize(
    ("labels", "cells", "is_matrix"),
    [
        (("GPU 0", "GPU 1"), (("-", "1"), ("2", "-")), True),
        (("GPU 0", "GPU 1"), (("x", "1"), ("2", "-")), False),
        (("GPU 1", "GPU 0"), (("-", "1"), ("2", "-")), False),
    ],
)
def test_a_matrix_has_the_names_of_its_columns_in_its_rows(
    labels: tuple[str, ...], cells: tuple[tuple[str, ...], ...], is_matrix: bool
) -> None:
    below = [(label, *row) for label, row in zip(labels, cells, strict=True)]
    assert PrintedTable("blanks", [""], ["to", "GPU 0", "GPU 1"], [""], below)._is_matrix() == is_matrix


@pytest.mark.parametrize(
    ("lines", "rows_below"),
    [
        (["| m | n |", "|---|---|", "| x | 1.5 |"], 1),
        (["| m | n |", "|---|---|", "| x | 1.5 |", "| y | word |"], None),  # half of a column
        (["| m | n |", "|---|---|", "| x | 1.5 |", "| y | word |", "| z | 2.5 |"], 3),
        (["| m | n |", "|---|---|", "| - | - |"], None),
        (["| m | n |", "|---|---|"], None),
        (["| m | n |", "| x | 1.5 |"], None),  # no rule
        (["| m | n |", "|---|---|---|", "| x | 1.5 |"], None),
        (["| m | n |", "|---|---|", "| x | 1.5 |", "| y | 2.5 | 3.5 |"], 1),
        (["| m | n |", "|---|---|", "| x | 1.5 |", "", "| y | 2.5 |"], 1),
        (["| m | n |", "|---|---|", "| x | 1.5 |", "|---|---|", "| y | 2.5 |"], 2),
    ],
)
def test_a_rule_proves_a_header_above_values(lines: list[str], rows_below: int | None) -> None:
    table = PrintedTable.from_markdown(lines)
    assert (None if table is None else len(table.rows)) == rows_below


def test_names_that_span_columns_begin_a_header() -> None:
    lines = ["step 3", "| m || n |", "| a | b | c |", "|---|---|---|", "| x | 1.5 | 2 |"]
    assert module._grouped(pa.array([line.encode() for line in lines], pa.binary())).tolist() == [
        False, True, False, False, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "firsts", "counts"),
    [
        ("# Step", "123", True),
        ("step", "1", False),
        ("step", "122", False),
        ("step", "12x", False),
        ("m", "123", False),
    ],
)
def test_a_column_of_steps_counts_up(name: str, firsts: str, counts: bool) -> None:
    below = [(first, "1.5") for first in firsts]
    assert PrintedTable("bars", [""], [name, "loss"], [""], below)._counts_up() is counts
