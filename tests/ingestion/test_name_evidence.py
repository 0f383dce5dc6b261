"""`--guess` stores a number only if its line, or the header above it, names it without doubt; others stay unread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.errors import InputError
from perflog.ingestion.suggest.name_evidence import bonds

Stored = list[tuple[str, Any, str | None]]

LINES: dict[str, Stored] = {
    # an index behind the name, a label in front of the numbers
    "Train loss 0 48.25 Grad Norm 13.5 5.5s/it": [("step_time", 5.5, "s")],
    "Validation loss 0: 37.5": [],
    "GPU 0: 45 C, fan 30 %": [("fan", 0.3, "1")],
    "  CPU 00 min     14.25     18.75      9.5": [],
    # a size with its unit before the values of a row, headings with a number
    "[Client]   1.5 KB :  39.5 Gbps | 25.5 us": [("bandwidth", 4.9375, "GB/s")],
    "n= 104 min= 218.5 p50= 230.5": [("min", 218.5, None), ("n", 104, None), ("p50", 230.5, None)],
    "128 tokens per GPU:": [],
    "|   128 tok per GPU  |  EP64  |  EP32  |": [],
    # a part of something larger, a factor, a power, a list
    "| 2^16 = 65536 | size=16.5G | cache: 12x | wave: 2.5 |": [("wave", 2.5, None)],
    "total=44567,0,0 wave=2.5": [("wave", 2.5, None)],
    "latency (min, max): 0.5, 12.5": [],
    # a label in braces
    'util{gpu="1",host="a"} 46, wave: 2.5': [("wave", 2.5, None)],
    # words of a sentence, words that could belong to either neighbour
    "Saving the state at 5 to disk, wave: 2.5": [("wave", 2.5, None)],
    "Sum was wrong by 150.5 but should be 226.5": [],
    "mpi 1048576    1536.5 MPIIO      0": [],
    "Loaded 12 files wave 2.5": [],
    "There are: 2692 Atoms": [],
    # a cell of a row, a letter that is a unit, a date, options of a command, an ordinal that the name lacks
    "|100%   45C    P2   101W / 100W |": [],
    "temps: 56 C - 73 C, done: 1050 (12 TFLOP/s) - 1040 (11 TFLOP/s)": [],
    "Summary at:   Tue Nov 19 02:52:36 PM PST 2024, wave: 2.5": [("wave", 2.5, None)],
    "Library version:      OpenLib 1.5": [],
    "./main -p my text -n 100, wave: 2.5": [("wave", 2.5, None)],
    "  95th percentile:      1.5": [],
    "0.25 ms fetch data, 2.5 ms python": [("fetch_data", 0.00025, "s"), ("python", 0.0025, "s")],
    "Train: 0 [   5/2502 (  0%)]  Wave: 2.5": [("wave", 2.5, None)],
    "throughput: 1.234,5 tokens/s, wave: 2.5": [("wave", 2.5, None)],
    "Model params : 12,540,928  (0.013B), wave: 2.5": [("model_params", 12540928, None), ("wave", 2.5, None)],
    "time:   156  s | wave  2.5 |": [("time", 156, "s"), ("wave", 2.5, None)],
    "trained: 12 K-images, wave: 2.5": [("wave", 2.5, None)],
    # factors, products, names and values in lists, picoseconds, versions, ranges
    "mem 5.5G/s, size: 1.5K, wave: 2.5": [("wave", 2.5, None)],
    "| params   |   6.75 B |": [],
    "KV cache: 1024 blocks x 16 words": [],
    "latency p50/p90/p99: 12.5/15.5/22.5 ms": [],
    "events (avg/stddev):   11908.5/0.5": [],
    "50000 steps, 100.5 ps.": [("steps", 50000, None)],
    "OpenLib version: 5.10, wave: 2.5": [("wave", 2.5, None)],
    "Range (min … max):   300.5 ms … 303.5 ms    10 words": [],
    "| Metric |  HWThread 0  | 5.5": [],
    "%Cpu(s): 12.5 us,  1.5 sy,  0.5 ni, 86.5 id": [],
    # words behind the numbers on both sides of a slash, thousands of things
    "Cores            : 16 threads / 8 cores": [],
    "fallbacks =   1 p /   2 h, wave: 2.5": [("wave", 2.5, None)],
    "rate: 12.5 Mcells/s": [("rate", 12.5, None)],
    "rate: 12.5 kreq/s": [("rate", 12.5, None)],
    # cut off, lists in one unit, a pair that is no count, a heading, a version, an option of a command
    "| Power | Avg: 120.5, Min: 117... |": [("avg", 120.5, None)],
    "time: [12.5 us 13.5 us 14.5 us], wave: 2.5": [("wave", 2.5, None)],
    "thrpt: [4.5 Kelem/s 5.5 Kelem/s 6.5 Kelem/s], times: ['0.5s', '0.25s'], wave: 2.5": [("wave", 2.5, None)],
    "Latency / 1K tokens: 91.5 ms": [],
    "peak mem: 0.5": [("peak_mem", 0.5, None)],
    "round 1 / 90000 wave=2.5": [("round", 1, None), ("wave", 2.5, None)],
    "Fetching 2 files: wave: 2.5": [("wave", 2.5, None)],
    "job id: 1234.pbs01, merge=1/3, wave: 2.5": [("wave", 2.5, None)],
    "0.1 Top Kernels": [],
    "Linpack 2.3  --  The Linpack Benchmark": [],
    'timed: "train.py --batch 64", wave: 2.5': [("wave", 2.5, None)],
    # a count and what it counts, behind a mark; a word that could belong to either neighbour
    "Trial status: 2 RUNNING | 1 TERMINATED": [("terminated", 1, None)],
    "Resources: 4.0/16 CPUs, 2.0/2 GPUs": [],
    "Benchmark time: 64 CPUs 0.5 s/step": [],
    "init : 0.5s CPU 0.75s WALL ( 1 calls)": [("calls", 1, None), ("init", 0.5, "s")],
    # names are whole
    "device/data loading (%)=50.0": [("device_data_loading", 0.5, "1")],
    "points in the train set: 569, Thread(s) per core: 2": [
        ("points_in_the_train_set", 569, None), ("threads_per_core", 2, None),
    ],
    "Major (requiring I/O) tide faults: 12": [("major_requiring_i_o_tide_faults", 12, None)],
    "[BENCH] total_latency(ms) 12.5": [("total_latency", 0.0125, "s")],
    "Time per request: 12.5 [ms] (mean)": [("time_per_request", 0.0125, "s")],
    # an amount with its time and rate, a number of an epoch among the words, two sentences
    "Time taken for epoch 3 is 12.5 s": [("epoch", 3, None), ("time_taken", 12.5, "s")],
    "wave is 0.5 and tide is 2.5": [("tide", 2.5, None), ("wave", 0.5, None)],
    "[NeMo I 2025-08-05 10:20:30 nemo_logging:393] wave: 2.5": [("wave", 2.5, None)],
    # one name for two numbers
    "wave: 2.5 wave: 3.5 tide: 1.5": [("tide", 1.5, None)],
    "wave: 2.5 (3.5) tide: 1.5": [("tide", 1.5, None), ("wave", 2.5, None)],
    # marks, words alone between separators, units of rates
    "kimg 5738.5   time 1d 06h 06m   sec/kimg 17.25": [
        ("kimg", 5738.5, None), ("sec_kimg", 17.25, None), ("time", 108360, "s"),
    ],
    "This part took 5396.5 s": [("this_part", 5396.5, "s")],
    "Ep. 1 : Up. 500 : Cost 91.5 : Time 704.5s : 8907.5 words/s": [
        ("cost", 91.5, None), ("ep", 1, None), ("time", 704.5, "s"), ("up", 500, None), ("words_per_s", 8907.5, "1/s"),
    ],
    "Wave [AU] (%): 98.5 (0.25)": [("wave_au", 0.985, "1")],
    "VDD_IN 5542mW/5555mW AUX@36.5C": [("aux", 36.5, None), ("vdd_in", 5.542, "W")],
    "2020-10-10 08:33:24,855 — a.b — INFO — Entropy:  0.5": [("entropy", 0.5, None)],
    "Memory use: 12.5/80.0 GB": [("memory_use", 12.5e9, "B"), ("memory_use_total", 80e9, "B")],
    "Generate: 21.5 ± 1.5 ms": [("generate", 0.0215, "s"), ("generate_spread", 0.0015, "s")],
    "Imgs/sec per GPU: 126.5 +-6.5": [("imgs_per_s_per_gpu", 126.5, "1/s"), ("imgs_per_s_per_gpu_spread", 6.5, "1/s")],
    "batch_size ................ 12.5": [("batch_size", 12.5, None)],
    "| RL-Games           | 195.5             |": [("rl_games", 195.5, None)],
    "Engine built in 1033.5 sec.": [("engine_built", 1033.5, "s")],
    "result: 1450617.5 Mflop/s per node": [("result_per_node", 1.4506175, "TFLOP/s")],
    "ValueRate: 475.5us / second": [("value_rate_per_second", 0.0004755, "s")],
    "Try #0: 354.5 img/sec per GPU": [("img_per_sec_per_gpu", 354.5, "1/s")],
    "Step time: 2.5 ms per step": [("step_time", 0.0025, "s")],
    "prompt = 25.5 ms /   353 tokens (   72.5 ms per token)": [
        ("per_token", 0.0725, "s"), ("prompt", 0.0255, "s"), ("tokens", 353, None),
    ],
}  # fmt: skip


def stored(path: Path, text: str) -> Stored:
    """Return key, value and unit of each number that a guess stores outside of the settings."""
    path.write_text(text, encoding="utf-8")
    try:
        log = perflog.read(path, guess=True)
    except InputError:
        return []
    rows = [row for table in ("values", "summaries") for row in log.arrow(table).to_pylist()]
    rows += [{"key": "step_time", "value": row["step_time_s"], "unit": "s"} for row in log.arrow("steps").to_pylist()]
    return sorted(((row["key"], row["value"], row["unit"]) for row in rows if row["value"] is not None), key=str)


@pytest.mark.parametrize("line", LINES)
def test_a_guess_stores_what_a_line_names_without_doubt(line: str, tmp_path: Path) -> None:
    expected: Stored = [(key, pytest.approx(value), unit) for key, value, unit in LINES[line]]
    assert stored(tmp_path / "run.txt", f"{line}\nthe end\n") == expected


def test_the_rest_of_a_torn_line_gives_no_name_to_others(tmp_path: Path) -> None:
    text = "s_att=35.5, gamma_ctc=65.5, acc=0.5\ngamma_att=28.5, gamma_ctc=59.5, acc=0.25\n"
    names = {key for key, _, _ in stored(tmp_path / "run.txt", text)}
    assert names == {"s_att", "gamma_att", "gamma_ctc", "acc"}


def test_the_rest_of_a_torn_name_names_nothing(tmp_path: Path) -> None:
    text = "loss_att=35.5, acc=0.5\ns_att=28.5, ctc=59.5\nd_z=1.5, heat=2.5\n"
    assert [key for key, _, _ in stored(tmp_path / "run.txt", text)] == ["acc", "ctc", "d_z", "heat", "loss_att"]


def test_keys_of_an_object_name_its_numbers_and_no_others(tmp_path: Path) -> None:
    text = "(Manager pid=1805485) run 7: {'wave': 2.5, 'tide': 3.5}\n"
    assert stored(tmp_path / "run.txt", text) == [("tide", 3.5, None), ("wave", 2.5, None)]


def test_lines_of_several_parts_of_a_program_are_told_apart_by_their_first_names(tmp_path: Path) -> None:
    lines = (
        "perf_sampler: sampling time = 5.5 ms / 140 runs ( 0.5 ms per token)\n"
        "perf_context: prompt time = 45.5 ms / 12 runs ( 3.5 ms per token)\n"
        "perf_context: eval time = 2345.5 ms / 127 runs ( 18.5 ms per token)\n"
    )
    keys = {key for key, _, _ in stored(tmp_path / "run.txt", lines)}
    assert {"sampling_per_token", "prompt_per_token", "eval_per_token"} <= keys


def test_lines_of_one_number_are_told_apart_by_the_words_behind_it(tmp_path: Path) -> None:
    text = "tps = 20.5 (including the time to connect)\ntps = 22.5 (excluding the time to connect)\n"
    assert [key for key, _, _ in stored(tmp_path / "run.txt", text)] == ["excluding_tps", "including_tps"]


def test_words_behind_a_colon_in_front_of_a_number_may_be_its_own_name(tmp_path: Path) -> None:
    text = "1080925 requests, 191.5MB read\n  Socket errors: connect 694, read 728, write 1425\n"
    assert stored(tmp_path / "run.txt", text) == [
        ("read", 191.5e6, "B"), ("requests", 1080925, None), ("socket_errors_read", 728, None), ("write", 1425, None),
    ]  # fmt: skip


def test_lists_with_a_name_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("wave: 2.5\nPseudo dice [0.0, 0.25, 0.5]\n(2,0.1,4,0.1,0) (0.5 GB, 0.0 GB)\n", encoding="utf-8")
    rows = perflog.read(path, guess=True).arrow("values").to_pylist()
    assert {(row["key"], row["text"]) for row in rows if row["text"]} == {("pseudo_dice", "[0.0, 0.25, 0.5]")}


def test_what_is_not_stored_is_unread(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("Train loss 0 48.25 Grad Norm 13.5 rate: 5.5\n", encoding="utf-8")
    assert perflog.read(path, guess=True).figure_account == {"total": 4, "stored": 1, "dropped": 0, "unread": 3}


def test_a_log_without_a_sure_name_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("911.5 20.5 22.5\n903.5 21.5 22.5\n", encoding="utf-8")
    with pytest.raises(InputError, match="no word names its numbers without doubt") as error:
        perflog.read(path, guess=True)
    assert error.value.help == "`perflog formats suggest` writes a format file in which you name them"


def test_digits_in_a_name_tell_figures_apart(tmp_path: Path) -> None:
    lines = "".join(f"    p{p} latency: {9440 + p} usec\n" for p in (50, 90, 95, 99))
    expected: Stored = [(f"p{p}_latency", pytest.approx((9440 + p) / 1e6), "s") for p in (50, 90, 95, 99)]
    assert stored(tmp_path / "run.txt", lines) == expected
    assert stored(tmp_path / "run.txt", "| > loss_1: 287.5\n| > grad_1: 0.5\n") == [
        ("grad_1", 0.5, None), ("loss_1", 287.5, None),
    ]  # fmt: skip


def test_a_cell_under_a_header_is_a_number_with_its_unit(tmp_path: Path) -> None:
    text = (
        "| Aligned |   Elements    | Samples |  CPU Time  | Noise  | Noise  |  Elem/s  |   Wave |\n"
        "|---------|---------------|---------|------------|--------|--------|----------|--------|\n"
        "|     yes |  2^16 = 65536 |     12x |  23.118 us |  8.19% |  0.05% |  16.000G |   2.5  |\n"
    )
    assert stored(tmp_path / "run.txt", text) == [
        ("CPU_Time", pytest.approx(23.118e-6), "s"), ("Elem_s", 16e9, None), ("Noise", pytest.approx(0.0819), "1"),
        ("Noise_2", pytest.approx(0.0005), "1"), ("Samples", 12, None), ("Wave", 2.5, None),
    ]  # fmt: skip


def test_a_log_without_words_beside_its_figures_does_not_have_only_words(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("| N/A   34C    Q0   113W /  700W | 72345MiB /  81559MiB |  97%      Default |\n", encoding="utf-8")
    with pytest.raises(InputError, match="no word names its numbers without doubt"):
        perflog.read(path, guess=True)


def test_a_rule_of_short_dashes_belongs_to_the_table(tmp_path: Path) -> None:
    rows = "".join(f"{k} | 0.{k}25 | 1.5 | 26:4{k}\n" for k in range(4))
    text = f"epoch | train_wave | tide | time\n-- | -- | -- | --\n{rows}"
    assert ("train_wave", 0.125, None) in stored(tmp_path / "run.txt", text)


def test_a_line_of_pairs_is_no_header(tmp_path: Path) -> None:
    lines = "tick 0     kimg 0.1      time 58s\ntick 1     kimg 6.1      time 12m 16s\n"
    assert [key for key, _, _ in stored(tmp_path / "run.txt", lines)].count("kimg") == 2


def test_a_size_in_the_settings_keeps_its_unit_as_a_value(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("nodes : 4\nxfersize : 1 GiB\nwave: 5.5\n", encoding="utf-8")
    log = perflog.read(path, guess=True)
    assert log.settings["nodes"].item() == 4
    assert ("xfersize", 2.0**30, "B") in {(r["key"], r["value"], r["unit"]) for r in log.arrow("values").to_pylist()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loss is 9.5, done", {"9.5": ("loss",)}),
        ("the loss is 9.5", {"9.5": ("loss",)}),
        ("wave: 3 : 5", {}),
        ("step 3/10 wave=2.5", {"3": ("step",), "10": ("step",), "2.5": ("wave",)}),
        ("Iter #4: 4081.5 img/sec", {"4": ("Iter",), "4081.5": ("img/sec",)}),
        ("12 tokens, 3.5 ms/step", {"12": ("tokens",), "3.5": ("ms/step",)}),
        ("1.75/s LR: 0.25", {"0.25": ("LR",)}),
        ("model=llama tp=8", {"8": ("tp",)}),
        ("copy 16 MiB 25.1 GB/s", {"16": ("copy",), "25.1": ("GB/s",)}),
        ("736 x 736", {}),
        ("52 tokens in 1.5s (33 tok/s)", {"52": ("tokens",), "1.5": ("time",), "33": ("tok/s",)}),
        ("52 token in 1.5s (33 tok/s)", {"33": ("tok/s",)}),  # no amount is one thing
        ("sum on rank 3, wave: 2.5", {"3": ("rank",), "2.5": ("wave",)}),
        ("sum on ranks 3, wave: 2.5", {"2.5": ("wave",)}),
        ("seq.len .... 4", {"4": ("seq.len",)}),
        ("wave: 1.5 (2.5 tides)", {"1.5": ("wave",), "2.5": ("tides",)}),
        ("[5.5 waves] done", {"5.5": ("waves",)}),
    ],
)
def test_the_words_that_a_line_ties_to_its_numbers(text: str, words: dict[str, tuple[str, ...]]) -> None:
    assert {place: bond.words for place, bond in bonds(text).items() if bond.is_sure} == {
        text.index(number): name for number, name in words.items()
    }


def test_ranks_and_nodes_after_a_number_do_not_name_it() -> None:
    assert bonds("[ 30.5s r002 node014] still at work")[2].words == ()
    assert bonds("[ 30.5s elapsed] still at work")[2].words == ("elapsed",)
