"""Cases of a benchmark: which names are parameters, where a figure is best and worst, how far variants lie apart."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perflog
from perflog.metrics import case_pairs, cases, curves
from perflog.tables.nulls import row_dicts


def log_of(tmp_path: Path, text: str, name: str = "run.csv") -> perflog.Log:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return perflog.read(path)


IMPLEMENTATIONS = """\
{"impl": "flash", "test": "forward", "seq_len": 128, "time": 0.05}
{"impl": "plain", "test": "forward", "seq_len": 128, "time": 0.02}
{"impl": "flash", "test": "forward", "seq_len": 65536, "time": 40.0}
{"impl": "plain", "test": "forward", "seq_len": 65536, "time": 845.9}
"""


def test_ends_and_variants(tmp_path: Path) -> None:
    log = log_of(tmp_path, IMPLEMENTATIONS, "run.jsonl")
    [row] = cases(log).to_dict("records")
    assert (row["over"], row["key"], row["cases"], row["better"]) == ("impl x seq_len", "time", 4, "lower")
    assert (row["min"], row["min_at"]) == (0.02, "impl plain, seq_len 128")
    assert (row["max"], row["max_at"]) == (845.9, "impl plain, seq_len 65,536")
    [pair] = case_pairs(log).to_dict("records")
    assert (pair["base"], pair["variant"], pair["cases"]) == ("flash", "plain", 2)
    assert (pair["min"], pair["min_at"], pair["max_at"]) == (pytest.approx(0.4), "seq_len 128", "seq_len 65,536")
    assert pair["max"] == pytest.approx(845.9 / 40)
    assert pair["ratio"] == pytest.approx(math.sqrt(0.4 * 845.9 / 40))


def test_a_size_behind_what_is_measured_is_a_parameter(tmp_path: Path) -> None:
    """Bandwidths of different sizes have no ratio."""
    rows = [("allgather", 1, 291.5, 1 << 30), ("allgather", 3, 0.1, 8192), ("allreduce", 1, 139.4, 1 << 30),
            ("allreduce", 3, 139.1, 1 << 30), ("allreduce", 3, 1.25, 8192)]  # fmt: skip
    line = '{{"name": "{}", "kernel": {}, "algBw": {}, "size": {}}}\n'
    log = log_of(tmp_path, "".join(line.format(*row) for row in rows), "run.jsonl")
    [row] = cases(log).to_dict("records")
    assert (row["over"], row["cases"]) == ("name x kernel x size", 5)
    [pair] = case_pairs(log).to_dict("records")
    assert (pair["cases"], pair["min"], pair["max"]) == (2, pytest.approx(139.4 / 291.5), pytest.approx(12.5))


def test_titles_name_the_cases_of_the_lines_below_them(tmp_path: Path) -> None:
    case = "=== batch={}, seq=2048 ===\nForward latency: {} ms\nFwd TFLOPS: {}\n"
    log = log_of(tmp_path, "".join(case.format(*row) for row in [(8, 1.25, 300), (16, 2.5, 350), (32, 4.5, 400)]))
    rows = {row["key"]: row for row in cases(log).to_dict("records")}
    assert list(rows) == ["Forward_latency", "Fwd_TFLOPS"]
    assert {(row["over"], row["cases"]) for row in rows.values()} == {("batch", 3)}
    assert (rows["Forward_latency"]["min"], rows["Forward_latency"]["min_at"]) == (0.00125, "batch 8")
    assert (rows["Fwd_TFLOPS"]["max"], rows["Fwd_TFLOPS"]["max_at"]) == (400, "batch 32")


def test_a_name_with_pairs_is_the_title_of_what_is_measured(tmp_path: Path) -> None:
    text = "Eagle (num_steps=8):\n#questions: 80, Throughput: 378.5 token/s, Acceptance length: 5.5\n"
    text += text.replace("8)", "5)").replace("378.5", "361.5")
    found = cases(log_of(tmp_path, text, "run.log")).set_index("key")
    assert (found["over"] == "num_steps").all()
    assert found["max_at"]["Throughput_tokens_per_s"] == "num_steps 8"
    other = "2024-12-03 11:16:44.97: E cuda_fft.cc:485] Unable to register (code 3)\nnothing of that kind\n"
    read = log_of(tmp_path, text + other, "other.log").table("values")
    assert set(read.loc[read["key"] == "title", "text"]) == {"Eagle (num_steps=8)", "Eagle (num_steps=5)"}


def test_hyphens_stay_in_titles(tmp_path: Path) -> None:
    lines = "EAGLE-{} (num_steps={}):\nThroughput: {} token/s\n"
    text = lines.format(3, 8, 378.5) + lines.format(3, 5, 361.5) + lines.format(2, 8, 230.5)
    [row] = cases(log_of(tmp_path, text, "run.log")).to_dict("records")
    assert (row["max_at"], row["min_at"]) == ("title EAGLE-3, num_steps 8", "title EAGLE-2, num_steps 8")


def test_batches_of_an_evaluation_are_no_cases(tmp_path: Path) -> None:
    text = "".join(f"Test: [{k}/196]   Time 0.{k}5 (0.5)   Loss 0.{k}5 (0.5)\n" for k in range(1, 5))
    assert cases(log_of(tmp_path, text, "run.log")).empty


def test_the_title_of_a_table_names_its_cases(tmp_path: Path) -> None:
    """It ends with its table. Words that all titles begin with name no case."""
    table = "| M | ours (us) |\n|---|---|\n| 1 | 5.5 |\n| 2 | 6.5 |\n"
    text = f"### N=512, K=4096\n\n{table}\n### N=256, K=4096\n\n{table}\n{table.replace('5.5', '7.5')}"
    found = cases(log_of(tmp_path, text, "run.log"))
    assert found["over"].tolist() == ["N x M", "M"]
    assert found["max_at"].tolist() == ["N 512, M 2", "M 1"]
    [row] = cases(log_of(tmp_path, f"Run of 1 node (1.5s):\n{table}\nRun of 2 nodes (2.5s):\n{table}")).to_dict(
        "records"
    )
    assert (row["over"], row["max_at"]) == ("table x M", "table 1 node (1.5s), M 2")
    [row] = cases(log_of(tmp_path, f"batch 8\n{table}\nbatch 16\n{table}", "run.log")).to_dict("records")
    assert (row["over"], row["max_at"]) == ("batch x M", "batch 8, M 2")
    text = f"World Size = 2\n\n{table}\nWorld Size = 4\n\n{table}"
    [row] = cases(log_of(tmp_path, text, "run.log")).to_dict("records")
    assert (row["over"], row["max_at"]) == ("World_Size x M", "World_Size 2, M 2")
    anchor = '<div id="x"></div>'
    [row] = cases(log_of(tmp_path, f"batch 8\n{anchor}\n\n{table}\nbatch 16\n{anchor}\n\n{table}")).to_dict("records")
    assert (row["over"], row["max_at"]) == ("batch x M", "batch 8, M 2")
    for line in ("Total time 3.5 s", "$ python bench.py", "Epoch 3", "10:00:00 Loaded. Now the table"):
        [row] = cases(log_of(tmp_path, f"{line}\n{table}")).to_dict("records")
        assert row["over"] == "M"


def test_lines_that_come_again_under_a_title_are_cases_of_their_own(tmp_path: Path) -> None:
    text = """\
=== flash ===
--- causal=True ---
Fwd time: 2.5 ms
Fwd time: 3.5 ms
--- causal=False ---
Fwd time: 5.5 ms
=== plain ===
--- causal=True ---
Fwd time: 7.5 ms
"""
    [row] = cases(log_of(tmp_path, text)).to_dict("records")
    assert (row["over"], row["cases"], row["min"]) == ("title x causal", 3, 0.003)  # the median of two readings
    assert (row["min_at"], row["max_at"]) == ("title flash, causal True", "title plain, causal True")


def test_words_that_name_what_was_timed_are_cases(tmp_path: Path) -> None:
    table = "| wall time | Median seconds |\n|---|---:|\n| Pause | 5.5 |\n| Broadcast | 15.5 |\n"
    [row] = cases(log_of(tmp_path, table)).to_dict("records")
    assert (row["over"], row["key"], row["unit"], row["min_at"]) == ("wall_time", "Median", "s", "wall_time Pause")


def test_what_is_saved_has_no_direction(tmp_path: Path) -> None:
    table = "| case | Less time | GPU QPS |\n|---|---:|---:|\n| a | 62.5% | 12,250 |\n| b | 85.5% | 13,500.5 |\n"
    found = cases(log_of(tmp_path, table)).set_index("key")["better"]
    assert found["GPU_QPS"] == "higher" and found.isna()["Less_time"]


def test_statistics_are_no_variants(tmp_path: Path) -> None:
    log = log_of(tmp_path, "turns,Count,P50,P99\n1,40,0.45,1.25\n2,38,0.5,1.5\n")
    assert list(cases(log)["key"]) == ["Count", "P50", "P99"]
    assert not len(case_pairs(log))


def test_no_case_is_the_headline(tmp_path: Path) -> None:
    overview = perflog.overview(log_of(tmp_path, IMPLEMENTATIONS, "run.jsonl"))
    assert not overview.figures
    assert overview.reasons[0].startswith(
        "4 cases over impl x seq_len: time best 0.02 (impl plain, seq_len 128), worst"
    )


SHARES = """\
| Replica | Segments | Size | Cluster(GB) | Avg(ns) |
| ------- | -------- | ---- | ----------- | ------- |
| 1       | 1        | 3KB  | 1024.0      | 1049    |
| 1       | 2        | 3KB  | 2048.0      | 1197    |
| 2       | 2        | 3KB  | 2048.0      | 1901    |
| 1       | 4        | 3KB  | 4096.0      | 1387    |
| 2       | 4        | 3KB  | 4096.0      | 2292    |
| 3       | 4        | 3KB  | 4096.0      | 2744    |
"""


def test_what_follows_from_a_parameter_is_no_figure(tmp_path: Path) -> None:
    log = log_of(tmp_path, SHARES, "run.md")
    assert set(cases(log)["key"]) == {"Avg"}
    assert perflog.overview(log).figures == []


SIMULATED = """
Test   Constraints  H mass (amu)  dt (fs)  Platform  ns/day
gbsa   HBonds       1.5           4        CUDA      2560.83
rf     HBonds       1.5           4        CUDA      1916.01
pme    HBonds       1.5           4        CUDA      1773.54
amoeba None         1             2        CUDA      53.1193
"""


def test_numbers_that_follow_from_a_parameter_are_no_variants(tmp_path: Path) -> None:
    log = log_of(tmp_path, SIMULATED.lstrip())
    assert list(cases(log)["key"]) == ["ns_day"]
    assert set(case_pairs(log)["key"]) == {"ns_day"}


def test_no_latency_of_a_server_is_better_than_another_one(tmp_path: Path) -> None:
    text = "| Part | Average | P90 |\n|---|---|---|\n| E2EL | 91.5 ms | 95.5 ms |\n| TTFT | 7.5 ms | 9.5 ms |\n"
    assert cases(log_of(tmp_path, text, "run.md"))["better"].isna().all()


@pytest.mark.parametrize(("jobs", "better"), [(("prefill", "decode"), None), (("1368214", "1364790"), "lower")])
def test_a_time_among_tasks_has_no_best(tmp_path: Path, jobs: tuple[str, str], better: str | None) -> None:
    rows = "".join(f"| {job} | {size} | {n + 1.5} ms |\n" for n, size in enumerate(("a", "b")) for job in jobs)
    (found,) = cases(log_of(tmp_path, f"| job | mode | Time |\n|---|---|---|\n{rows}", "run.md")).to_dict("records")
    assert found["better"] == better


def test_a_column_with_one_value_is_no_headline(tmp_path: Path) -> None:
    text = "| Metric | BASE | MID |\n|---|---|---|\n| CORE | 0.22 | - |\n| ARC | - | 0.29 |\n| GSM8K | - | 0.03 |\n"
    assert perflog.overview(log_of(tmp_path, text, "run.md")).figures == []


def test_the_last_row_of_a_table_is_no_headline(tmp_path: Path) -> None:
    text = "| M | Kind | Time |\n|---:|---|---|\n| 2048 | No | about 3 ms |\n| 32768 | Yes | about 49 ms |\n"
    assert perflog.overview(log_of(tmp_path, text, "run.md")).figures == []


def test_columns_that_name_what_is_measured_are_variants(tmp_path: Path) -> None:
    log = log_of(tmp_path, "M,N,cuBLAS,Triton\n256,256,4.5,5.625\n512,512,20.25,40.5\n")
    assert list(cases(log)["over"].unique()) == ["M = N"]
    [pair] = case_pairs(log).to_dict("records")
    assert (pair["base"], pair["variant"]) == ("cuBLAS", "Triton")
    assert (pair["min"], pair["max"], pair["max_at"]) == (1.25, 2.0, "M = N 512")


def test_sweeps_of_different_kinds_are_not_pooled(tmp_path: Path) -> None:
    """Both sweeps print the same names; a case is measured again in each."""
    lines = [f"{chunk},{sms},{rate}" for base in (10, 100) for chunk, sms, rate in ((4, 24, base), (8, 24, base + 1))]
    rows = cases(log_of(tmp_path, "\n".join(["chunk,sms,rate GB/s", *lines, ""]))).to_dict("records")
    assert [(row["table"], row["cases"], row["min"], row["max"]) for row in rows] == [(1, 2, 10, 11), (2, 2, 100, 101)]


def test_a_table_that_comes_back_to_its_first_case_is_one(tmp_path: Path) -> None:
    lines = ["a,1,1.5", "a,1,2.5", "b,1,3.5", "a,1,4.5", *(f"c,{n},{n}.5" for n in range(1, 8))]
    rows = cases(log_of(tmp_path, "\n".join(["model,gpus,throughput", *lines, ""]))).to_dict("records")
    assert [(row["cases"], row["min"], row["max"]) for row in rows] == [(9, 1.5, 7.5)]


def test_results_with_the_time_of_each_are_cases(tmp_path: Path) -> None:
    lines = ["2026-05-19 20:33:43,rfc,wine,0.5,1.5", "2026-05-19 20:39:13,rfc,credit,0.75,2.5"]
    rows = cases(log_of(tmp_path, "\n".join(["timestamp,model,dataset,f1,training_time_s", *lines, ""])))
    assert list(rows["over"].unique()) == ["dataset"]
    series = [f"2026-05-19 20:{k:02},{8 * k},{k}.5" for k in range(9)]
    assert not len(cases(log_of(tmp_path, "\n".join(["timestamp,queue_size,latency_ms", *series, ""]), "series.csv")))


def test_what_is_measured_is_named_beside_a_speedup(tmp_path: Path) -> None:
    table = (
        "| shape | nccl | ours | Speedup |\n|---|---|---|---|\n| 64 | 4.5 | 1.5 | 3.0 |\n| 128 | 5.5 | 2.5 | 2.2 |\n"
    )
    log = log_of(tmp_path, table)
    assert [*case_pairs(log)["variant"]] == ["ours"]
    text = perflog.overview(log).reasons[0]
    assert "Speedup best 3 (shape 64), worst 2.2 (shape 128); nccl 4.5 (shape 64) to 5.5 (shape 128); ours 1.5" in text


def test_counts_and_differences_are_no_variants(tmp_path: Path) -> None:
    text = "model,nrGPUshf,throughputhf\na,1,37.5\nb,8,1.5\nc,2,9.75\n"
    assert case_pairs(log_of(tmp_path, text, "counts.csv"))["parameter"].notna().all()
    text = "feature,rmsle,delta\na,0.475,-0.001\nb,0.5,0.002\nc,0.45,-0.5\n"
    assert case_pairs(log_of(tmp_path, text, "delta.csv"))["parameter"].notna().all()


def test_how_long_each_took_in_words_makes_no_series(tmp_path: Path) -> None:
    text = "training_file,time,energy(kWh)\na,40:02:47,14.0\nb,111:11:54,40.5\nc,57:05:03,13.5\n"
    [row] = cases(log_of(tmp_path, text)).to_dict("records")
    assert (row["over"], row["key"], row["min_at"]) == ("training_file", "energy", "training_file c")


def test_the_frame_of_the_trials_of_optuna(tmp_path: Path) -> None:
    """What it optimises is called `value`: no text beside it has this number, and it comes first."""
    text = (
        "number,value,datetime_start,duration,params_lr,params_depth,state\n"
        "0,0.475,2026-04-25 14:41:26,0 days 00:00:27,0.025,11,COMPLETE\n"
        "1,0.5,2026-04-25 14:41:53,0 days 00:00:05,0.05,7,COMPLETE\n"
        "2,,2026-04-25 14:42:53,0 days 00:00:01,0.5,7,FAIL\n"
    )
    log = log_of(tmp_path, text)
    values = log.table("values")
    assert not values["value"].where(values["text"].notna()).notna().any()
    [row] = [row for row in cases(log).to_dict("records") if row["key"] == "value"]
    assert (row["over"], row["cases"], row["failed"]) == ("params_lr x params_depth", 2, 1)
    assert (row["min"], row["max"], row["failed_at"]) == (0.475, 0.5, "params_lr 0.5, params_depth 7")


def test_a_column_of_units_is_that_of_the_values(tmp_path: Path) -> None:
    text = "| metric | value | unit |\n|---|---|---|\n| gpu | 0.5 | kWh |\n| rate | 12.5 | samples/kWh |\n"
    log = log_of(tmp_path, text, "run.md")
    rows = log.table("values")[["key", "value", "unit"]].to_dict("records")
    assert rows == [
        {"key": "gpu", "value": 1.8e6, "unit": "J"},
        {"key": "rate", "value": 12.5, "unit": "samples/kWh"},
    ]
    assert not len(cases(log))


def test_a_failed_case_is_no_value(tmp_path: Path) -> None:
    [row] = cases(log_of(tmp_path, "batch_size,throughput\n1,10.0\n2,nan\n4,30.0\n8,inf\n")).to_dict("records")
    assert (row["cases"], row["failed"], row["min"], row["max"]) == (2, 2, 10.0, 30.0)


def test_a_failed_case_is_neither_best_nor_worst(tmp_path: Path) -> None:
    """Sweeps print 0 as the rate of a case that failed, and a word as its time."""
    lines = ["128,4,0.25,500.5", "256,4,OOM,0.0", "256,8,inf,0.0", "64,8,0.75,166.25", "32,8,error,"]
    log = log_of(tmp_path, "\n".join(["block,warps,time_ms,tflops", *lines, ""]))
    rows = {row["key"]: row for row in cases(log).to_dict("records")}
    assert [rows[key]["failed"] for key in ("time", "tflops")] == [3, 2]
    assert (rows["tflops"]["min"], rows["tflops"]["min_at"]) == (166.25, "block 64, warps 8")
    assert (rows["time"]["max"], rows["time"]["max_at"]) == (0.00075, "block 64, warps 8")
    assert rows["time"]["failed_at"] == "block 256, warps 4; block 256, warps 8; block 32, warps 8"


RULE = "+-------------+------------+-----------------+--------------+----------+--------+------------------+---------+"
SEARCH = f"""\
{RULE}
| Trial name  | status     | loc             |   batch_size |       lr |   iter |   total time (s) |    loss |
|-------------+------------+-----------------+--------------+----------+--------+------------------+---------|
| train_00000 | RUNNING    | 10.0.0.4:21231  |           16 | 0.0011   |      1 |           21.301 | 3.23114 |
| train_00001 | RUNNING    | 10.0.0.4:21242  |           16 | 0.000213 |      1 |           14.125 | 3.10271 |
{RULE}
Training goes on.
{RULE}
| Trial name  | status     | loc             |   batch_size |       lr |   iter |   total time (s) |    loss |
|-------------+------------+-----------------+--------------+----------+--------+------------------+---------|
| train_00001 | TERMINATED | 10.0.0.4:21242  |           16 | 0.000213 |     10 |          148.125 | 1.10271 |
| train_00000 | TERMINATED | 10.0.0.4:21231  |           16 | 0.0011   |     10 |          212.301 | 1.23114 |
| train_00002 | ERROR      | 10.0.0.4:21255  |          128 | 0.0521   |        |                  |         |
{RULE}
"""


def test_of_each_trial_of_a_search_the_last_state_counts(tmp_path: Path) -> None:
    """Ray Tune prints all trials again and again. How far each came is no step of one run, and no figure."""
    log = log_of(tmp_path, SEARCH, "tune.log")
    assert not len(log.table("steps"))
    rows = {row["key"]: row for row in cases(log).to_dict("records")}
    assert rows.keys() == {"total_time", "loss"}
    time = rows["total_time"]
    assert (time["over"], time["cases"], time["min"], time["max"]) == ("batch_size x lr", 2, 148.125, 212.301)
    assert rows["loss"]["max_at"] == "batch_size 16, lr 0.0011"
    assert (time["failed"], time["failed_at"]) == (1, "batch_size 128, lr 0.0521")


def test_trials_in_a_box_without_bars_between_columns(tmp_path: Path) -> None:
    lines = [
        "│ Trial name          status         batch_size         lr     iter       loss │",
        "│ train_9a1c2_00000   TERMINATED             16   0.001100       10   1.231140 │",
        "│ train_9a1c2_00001   TERMINATED             32   0.000213       10   1.102710 │",
        "│ train_9a1c2_00002   TERMINATED             64   0.000213       10  15.1025   │",
    ]
    rule = "─" * (len(lines[0]) - 2)
    box = [f"╭{rule}╮", lines[0], f"├{rule}┤", *lines[1:], f"╰{rule}╯", ""]
    [row] = cases(log_of(tmp_path, "\n".join(box), "tune.log")).to_dict("records")
    assert (row["over"], row["key"], row["min"], row["max"]) == ("batch_size x lr", "loss", 1.10271, 15.1025)


def test_the_trials_of_optuna(tmp_path: Path) -> None:
    text = """\
[I 2026-04-01 10:02:11,310] Trial 0 finished with value: 0.8312 and parameters: {'lr': 0.00121, 'batch_size': 32}. Best is trial 0 with value: 0.8312.
[I 2026-04-01 10:04:20,915] Trial 1 finished with value: 0.791 and parameters: {'lr': 0.00021, 'batch_size': 64}. Best is trial 1 with value: 0.791.
[I 2026-04-01 10:05:02,001] Trial 2 pruned.
[W 2026-04-01 10:06:10,220] Trial 3 failed with parameters: {'lr': 0.05, 'batch_size': 128} because of the following error: RuntimeError('no').
[W 2026-04-01 10:06:10,221] Trial 3 failed with value None.
"""  # noqa: E501
    [row] = cases(log_of(tmp_path, text, "study.log")).to_dict("records")
    assert (row["over"], row["key"], row["cases"]) == ("lr x batch_size", "objective", 2)
    assert (row["min"], row["min_at"]) == (0.791, "lr 0.00021, batch_size 64")
    assert (row["failed"], row["failed_at"]) == (1, "lr 0.05, batch_size 128")


def test_names_of_requests_behind_what_is_measured_are_no_cases(tmp_path: Path) -> None:
    for name in ("id", "text"):
        lines = [f'{{"latency_ms": {100.5 + k}, "{name}": "request {k}"}}\n' for k in range(20)]
        assert not len(cases(log_of(tmp_path, "".join(lines), f"{name}.jsonl"))), name


TURNED = """\
| Metric | conc=4 | conc=8 | conc=64 |
|--------|-------:|-------:|--------:|
| **Output tput/GPU (tok/s)** | 59.5 | 104.0 | 312.5 |
| Mean TTFT (ms) | 199.5 | 197.25 | 5,719 |
| P99 TTFT (ms) | 341.25 | 491.0 | 73,198.5 |
"""


def test_statistics_in_columns_are_no_cases_of_which_one_is_best(tmp_path: Path) -> None:
    lines = "| Metric | Median | Worst |", "|---|---|---|", "| GPU Util | 14.0% | 0.5% |", "| Step | 6.25 ms | 8.5 ms |"
    rows = cases(log_of(tmp_path, "\n".join([*lines, ""]), "run.md"))
    assert {row["key"]: row["better"] for row in row_dicts(rows)} == {"GPU Util": None, "Step": None}


def test_a_table_with_a_quantity_a_row_has_a_case_a_column(tmp_path: Path) -> None:
    """No smallest value is taken over latencies and rates. A point elsewhere says what the comma is."""
    log = log_of(tmp_path, TURNED, "run.md")
    rows = {row["key"]: row for row in cases(log).to_dict("records")}
    assert not len(curves(log)), "a column of latencies and rates is no curve"
    assert list(rows) == ["Output tput/GPU", "Mean TTFT", "P99 TTFT"]
    rate, mean = rows["Output tput/GPU"], rows["Mean TTFT"]
    assert (rate["over"], rate["cases"], rate["unit"], rate["better"]) == ("conc", 3, "1/s", "higher")
    assert (rate["max"], rate["max_at"]) == (312.5, "conc 64")
    assert (mean["min"], mean["min_at"]) == (pytest.approx(0.19725), "conc 8")
    assert (mean["max"], mean["max_at"]) == (pytest.approx(5.719), "conc 64")


def test_a_cell_of_such_a_table_may_tell_that_its_case_failed(tmp_path: Path) -> None:
    lines = [
        "| Metric | tp=1 | tp=2 |",
        "|---|---|---|",
        "| Step (ms) | OOM | 12.5 |",
        "| Rate (tok/s) | 40.5 | 80.5 |",
        "",
    ]
    rows = cases(log_of(tmp_path, "\n".join(lines), "run.md")).to_dict("records")
    assert [(row["key"], row["cases"], row["failed"], row["failed_at"]) for row in rows] == [
        ("Step", 1, 1, "tp 1"),
        ("Rate", 2, 0, None),
    ]


QUANTITIES = """\
| Axis | FLA reference | Primus (this branch) | Δ |
|------|---------------|----------------------|---|
| Time per iteration | **1434.5 ms** | 1431.5 ms | −0.21 % (Primus faster) |
| Throughput | 182,729 tok/s/GPU | **183,213 tok/s/GPU** | **+0.27 %** |
| Wall time | 6840 s | 6822 s | -18s |
| Loss @ iter 1 | 11.9654 | 11.9652 | −0.00 % |
| Crossover | — | iter 2100 | — |
"""


def test_quantities_a_row_may_have_their_units_in_the_cells(tmp_path: Path) -> None:
    """The column with the change of each quantity is no case, and its units are not those of the quantities."""
    rows = cases(log_of(tmp_path, QUANTITIES, "run.md")).to_dict("records")
    assert [(row["key"], row["unit"] or "", row["cases"]) for row in rows] == [
        ("Time per iteration", "s", 2),
        ("Throughput", "1/s", 2),
        ("Wall time", "s", 2),
        ("Loss @ iter 1", "", 2),
    ]
    assert (rows[0]["min"], rows[0]["min_at"]) == (pytest.approx(1.4315), "column Primus_this_branch")
    assert (rows[1]["max"], rows[1]["max_at"]) == (183213, "column Primus_this_branch")


def test_a_column_of_units_parts_the_cases(tmp_path: Path) -> None:
    """Long tables of benchmarks have times and sizes in one column, and their units in another."""
    lines = [
        "provider,metric_name,metric_unit,x_value,y_value_50",
        "torch,speed,ms,1024,0.25",
        "torch,speed,ms,2048,0.5",
        "liger,speed,ms,1024,0.125",
        "torch,memory,MiB,1024,72.5",
        "torch,memory,MiB,2048,145.5",
        "",
    ]
    rows = cases(log_of(tmp_path, "\n".join(lines), "run.csv")).to_dict("records")
    assert [(row["key"], row["unit"], row["cases"]) for row in rows] == [("y_value_50", "s", 3), ("y_value_50", "B", 2)]
    assert (rows[0]["max"], rows[1]["min"]) == (pytest.approx(0.0005), 72.5 * 2**20)
    several = "model,unit,latency\na,ms,12.5\nb,us,1400.5\n"  # units of one quantity
    (row,) = cases(log_of(tmp_path, several, "units.csv")).to_dict("records")
    assert (row["unit"], row["cases"], row["max"], row["min_at"]) == ("s", 2, pytest.approx(0.0125), "model b")


def test_labels_of_rows_in_a_column_without_a_name_may_have_digits(tmp_path: Path) -> None:
    text = "  | time [s]| AUC\n-- | -- | --\nh2o | 520 | 0.775\nxgboost | 510 | 0.751\ncatboost | 3360 | 0.723\n"
    rows = cases(log_of(tmp_path, text, "run.md")).to_dict("records")
    assert (rows[0]["over"], rows[0]["key"], rows[0]["min_at"]) == ("row", "time", "row xgboost")


def test_words_with_one_unit_are_cases(tmp_path: Path) -> None:
    text = "| GPU | flash (ms) | plain (ms) |\n|---|---|---|\n| H (80GB) | 1.5 | 2.5 |\n| A (40GB) | 2.5 | 4.0 |\n"
    rows = cases(log_of(tmp_path, text, "run.md")).to_dict("records")
    assert [(row["over"], row["key"]) for row in rows] == [("GPU", "flash"), ("GPU", "plain")]


def test_without_a_point_elsewhere_a_comma_is_no_sign_of_thousands(tmp_path: Path) -> None:
    text = "| size | time |\n|---|---|\n| 8 | 1,250 |\n| 16 | 2,500 |\n"
    assert not len(cases(log_of(tmp_path, text, "run.md")))


@pytest.mark.parametrize(
    "text",
    [
        "epoch,accuracy\n1,0.5\n2,0.6\n3,0.7\n",
        "request_id,latency_ms\na1,10.5\nb2,11.5\n",
        "index,throughput\n0,10.5\n1,11.5\n",
        "throughput\n",
    ],
)
def test_series_are_no_cases(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(text, encoding="utf-8")
    try:
        log = perflog.read(path)
    except perflog.errors.InputError:
        return
    assert not len(cases(log))


def test_kernels_are_different_work(tmp_path: Path) -> None:
    """Each row is a piece of work: none is the best, and none a variant of another."""
    log = log_of(tmp_path, "name,throughput,mean_ms\nsoftmax,3.5,0.1\ngemm,4.5,2.0\n")
    assert cases(log)["better"].isna().all()
    assert not len(case_pairs(log))


@given(
    st.lists(st.tuples(st.sampled_from([64, 128, 256]), st.sampled_from(["a", "b"]), st.floats(0.5, 1e6)), min_size=2)
)
def test_ends_are_those_of_medians(
    tmp_path_factory: pytest.TempPathFactory, measured: list[tuple[int, str, float]]
) -> None:
    """Against medians by case computed with the standard library; sweeps that begin again are tables of their own, if
    they are over the same cases.
    """
    path = tmp_path_factory.mktemp("cases") / "run.csv"
    path.write_text("\n".join(["size,impl,throughput", *(f"{s},{i},{v!r}" for s, i, v in measured), ""]), "utf-8")
    tables: list[list[tuple[int, str, float]]] = [[measured[0]]]
    for before, row in pairwise(measured):
        if row[:2] == tables[-1][0][:2] != before[:2]:
            tables.append([])
        tables[-1].append(row)
    first, *others = ({row[:2] for row in table} for table in tables)
    if any(len(first & other) < max(len(first), len(other)) / 2 for other in others):
        tables = [[row for table in tables for row in table]]
    expected = []
    for table in tables:
        of_case: dict[tuple[int, str], list[float]] = {}
        for size, impl, value in table:
            of_case.setdefault((size, impl), []).append(value)
        medians = [statistics.median(values) for values in of_case.values()]
        expected.append((min(medians), max(medians)))
    found = cases(perflog.read(path))
    varies = len({row[0] for row in measured}) > 1 or len({row[1] for row in measured}) > 1
    ends = list(zip(found["min"], found["max"], strict=True))
    assert ends == [(pytest.approx(low), pytest.approx(high)) for low, high in expected] if varies else not ends


def test_a_comparison_matches_cases(tmp_path: Path) -> None:
    one = log_of(tmp_path, "size,throughput\n64,10.5\n128,20.5\n256,40.5\n", "one.csv")
    two = log_of(tmp_path, "size,throughput\n256,81.0\n64,10.5\n", "two.csv")
    changes = {row["metric"]: row["change"] for row in perflog.compare(one, two).to_dict()["rows"]}
    assert changes["throughput, size 256"] == pytest.approx(1.0)
    assert changes["throughput, size 64"] == pytest.approx(0.0)
    assert not any("128" in name for name in changes)


def test_an_amount_of_work_is_not_better(tmp_path: Path) -> None:
    """Rates of products have a direction; the bytes and FLOP that they take have none, nor the time of more work."""
    header = "Problem,Provider,OperationKind,Operation,m,n,k,Bytes,Flops,Runtime,GB/s,GFLOPs"
    rows = [f"1,CUTLASS,gemm,simt_{m},{m},64,64,{m * 512},{m * 8192},{m / 7},3.5,{m / 9}" for m in (64, 128, 256)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join([header, *rows, ""]))
    table = perflog.metrics.cases(perflog.read(path)).set_index("key")["better"]
    assert table[["bandwidth", "gflops"]].tolist() == ["higher", "higher"]
    assert table[["time", "bytes", "flops"]].isna().all()


SACCT = """\
       JobID    JobName    Elapsed     MaxRSS  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
2355542           train   01:10:12                    32    TIMEOUT      0:0
2355542.bat+      batch   01:10:15  18112344K         32  CANCELLED     0:15
2355542.ext+     extern   01:10:12          0         32  COMPLETED      0:0
2355542.0        python   01:10:13    181.50G         32  CANCELLED     0:15
"""


def test_jobs_are_no_variants_of_each_other(tmp_path: Path) -> None:
    """What became of a job is no parameter of it, and none of the jobs is the best; cells may be empty."""
    log = log_of(tmp_path, SACCT, "sacct.txt")
    rows = {row["key"]: row for row in cases(log).to_dict("records")}
    assert {(row["over"], row["better"]) for row in rows.values()} == {("job", None)}
    elapsed = rows["elapsed"]
    assert (elapsed["min"], elapsed["max"], elapsed["max_at"]) == (4212, 4215, "job 2355542.bat+")
    assert (rows["max_rss"]["min"], rows["max_rss"]["max"]) == (18112344 * 1024, 181.5 * 2**30)
    assert perflog.overview(log).reasons[0] == "Job state in the scheduler's accounting: TIMEOUT, CANCELLED, COMPLETED."


BLOCKS = """\
Autotune Choices Stats:
{"num_choices": 20, "num_triton_choices": 19, "best_kernel": "mm", "best_time": 0.04851200059056282, "best_triton_pos": 1}
AUTOTUNE mm(128x4096, 4096x12288)
strides: [4096, 1], [1, 4096]
dtypes: torch.float16, torch.float16
  mm 0.0485 ms 100.0%
  triton_mm_18 0.0492 ms 98.7% ACC_TYPE='tl.float32', BLOCK_K=64, BLOCK_M=128, BLOCK_N=128, EVEN_K=True, num_stages=5, num_warps=8
  triton_mm_12 0.0529 ms 91.7% ACC_TYPE='tl.float32', BLOCK_K=128, BLOCK_M=64, BLOCK_N=128, EVEN_K=True, num_stages=4, num_warps=4
  triton_mm_8 inf ms 0.0% ACC_TYPE='tl.float32', BLOCK_K=128, BLOCK_M=64, BLOCK_N=64, EVEN_K=True, num_stages=5, num_warps=4
SingleProcess AUTOTUNE benchmarking takes 0.3031 seconds and 0.3110 seconds precompiling for 20 choices
PRESCREENING CANDIDATE TIMINGS
  triton_mm_55 0.0385 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=64, BLOCK_M=128, BLOCK_N=128, EVEN_K=True, num_stages=3, num_warps=4
  triton_mm_49 0.0459 ms 83.9% ACC_TYPE='tl.float32', BLOCK_K=64, BLOCK_M=64, BLOCK_N=128, EVEN_K=True, num_stages=3, num_warps=4
AUTOTUNE mm(128x4096, 4096x12288)
strides: [4096, 1], [4096, 1]
dtypes: torch.float16, torch.float16
  triton_mm_49 0.0759 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=64, BLOCK_M=64, BLOCK_N=128, EVEN_K=True, num_stages=3, num_warps=4
  mm 0.0770 ms 98.6%
  triton_mm_55 0.0785 ms 96.7% ACC_TYPE='tl.float32', BLOCK_K=64, BLOCK_M=128, BLOCK_N=128, EVEN_K=True, num_stages=3, num_warps=4
SingleProcess AUTOTUNE benchmarking takes 0.4482 seconds and 0.1692 seconds precompiling for 20 choices
"""  # noqa: E501


def test_candidates_of_an_autotuned_operation_are_its_cases(tmp_path: Path) -> None:
    log = log_of(tmp_path, BLOCKS, "run.log")
    first, screened, second = cases(log).to_dict("records")
    assert [row["over"] for row in (first, screened, second)] == ["candidate"] * 3
    assert (first["key"], first["min_at"]) == ("mm_128x4096_4096x12288_4096_1_1_4096", "candidate mm")
    assert (first["min"], first["max"]) == (pytest.approx(48.5e-6), pytest.approx(52.9e-6))
    assert (first["cases"], first["failed"], first["failed_at"]) == (3, 1, "candidate triton_mm_8")
    assert (screened["key"], screened["min_at"]) == ("PRESCREENING", "candidate triton_mm_55")
    assert (second["key"], second["min_at"]) == ("mm_128x4096_4096x12288_4096_1_4096_1", "candidate triton_mm_49")
    times = log.table("phases").groupby("phase")["time_s"].sum()
    assert times.to_dict() == pytest.approx({"autotuning": 0.3031 + 0.4482, "precompiling": 0.3110 + 0.1692})


def test_ranks_that_autotune_the_same_operation_have_one_table(tmp_path: Path) -> None:
    """Two ranks print their blocks into one another: a candidate counts by its median."""
    lines = ["AUTOTUNE mm(8x8, 8x8)"] * 2
    times = {"mm": (1.0, 3.0), "triton_mm_0": (4.0, 5.0), "triton_mm_1": (6.0, 7.0)}
    lines += [f"  {name} {time:.4f} ms 50.0%" for name, both in times.items() for time in both]
    [row] = cases(log_of(tmp_path, "\n".join(lines) + "\n", "run.log")).to_dict("records")
    assert (row["cases"], row["min"], row["max"]) == (3, pytest.approx(2e-3), pytest.approx(6.5e-3))


SEARCHES = """\
Triton autotuning for function _attn_fwd finished after 161.22s; best config selected: BLOCK_M: 256, BLOCK_N: 32, num_warps: 32, num_ctas: 1, num_stages: 3, maxnreg: None;
Triton autotuning for function _attn_bwd finished after 23.41s; best config selected: BLOCK_M: 256, BLOCK_N: 64, num_warps: 16, num_ctas: 1, num_stages: 2, maxnreg: None;
(EngineCore pid=1866) Triton autotuning for function chunk_fwd_kernel_o,
(EngineCore pid=1866) with key as (48, 128, 128, 64, 'torch.bfloat16'),
(EngineCore pid=1866) finished after 9.19s,
(EngineCore pid=1866) best config selected: BK: 64, BV: 64, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None;
"""  # noqa: E501


def test_searches_of_triton(tmp_path: Path) -> None:
    log = log_of(tmp_path, SEARCHES, "run.log")
    [row] = cases(log).to_dict("records")
    assert (row["over"], row["key"], row["min_at"], row["better"]) == (
        "function",
        "autotuning_time",
        "function _attn_bwd",
        None,  # two functions are different work
    )
    assert log.table("phases")["time_s"].tolist() == [9.19]
    chosen = log.table("values").query("key == 'best_config'")["text"].tolist()
    assert [text.partition(", num_warps")[0] for text in chosen] == [
        "BLOCK_M: 256, BLOCK_N: 32",
        "BLOCK_M: 256, BLOCK_N: 64",
        "BK: 64, BV: 64",
    ]


def test_a_state_that_is_no_outcome_is_a_parameter(tmp_path: Path) -> None:
    """Cases of one size in FP32 and BF16 are two cases. Words that say what came of each case tell none apart."""
    head = "| Operation | State | Batch | Triton (us) | Helion (us) |\n|---|---|---|---|---|\n"
    rows = [("decode", "FP32", 1, 4.1, 2.3), ("decode", "BF16", 1, 3.3, 2.8), ("decode", "FP32", 4, 4.5, 2.7)]
    path = tmp_path / "table.md"
    path.write_text(head + "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows))
    table = cases(perflog.read(path))
    assert set(table["cases"]) == {3} and set(table["over"]) == {"State x Batch"}


def test_no_table_of_several_stands_for_the_others(tmp_path: Path) -> None:
    """A table of names and values for each phase: the screen has the ends of each name, not its last value."""
    path = tmp_path / "phases.md"
    phases = {"load": (0.1, 0.4), "prefill": (0.3, 2.5), "decode": (0.2, 1.5)}
    head = "\n| metric | value | unit |\n| :--- | ---: | ---: |\n"
    path.write_text(
        "".join(f"After {name}.\n{head}| cpu | {a} | kJ |\n| gpu | {b} | kJ |\n" for name, (a, b) in phases.items())
    )
    shown = perflog.overview(perflog.read(path))
    assert not shown.figures
    (text,) = (reason for reason in shown.reasons if "Measured" in reason)
    assert "cpu 100 J (line 5) to 300 J (line 11), 3 times; gpu 400 J (line 6) to 2500 J (line 12)" in text
    path.write_text(path.read_text().replace("After ", "# ").replace(".\n", "\n"))
    found = cases(perflog.read(path)).set_index("key")
    assert (found["over"]["cpu"], found["max_at"]["cpu"]) == ("table", "table prefill")


def test_no_group_of_lines_stands_for_the_others(tmp_path: Path) -> None:
    path = tmp_path / "pair.log"
    group = "{}\n\nTotal JIT time: {} s\nTotal time per step: {} ns\n"
    path.write_text(group.format("this pr", 0.27, 251.68) + group.format("main", 0.27, 258.27))
    shown = perflog.overview(perflog.read(path))
    assert not shown.figures
    assert shown.reasons[0].startswith("Measured: Total_JIT_time 270 ms (line 3), 2 times; ")
    assert shown.reasons[0].endswith("Total_time_per_step 251.7 ns (line 4) to 258.3 ns (line 8), 2 times.")


def test_a_case_above_the_first_title_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.log"
    case = "TGV average time: {} ms, {} TFLOPS, speedup: {}x\n"
    title = "--- llama, tp=8: M={}, bias=False ---\n"
    path.write_text(case.format(0.5, 60, 1.5) + title.format(64) + case.format(0.4, 70, 1.6))
    path.write_text(path.read_text() + "Testing with PDL...\n")  # what is done next with the same case
    assert set(cases(perflog.read(path))["max_at"]) == {"line 1", "subtitle llama, tp=8: M=64, bias=False"}


def test_words_at_the_end_tell_repeated_cases_apart(tmp_path: Path) -> None:
    """Else the median of two variants would be that of no case. What came of a case tells nothing apart."""
    text = "model,task,latency_ms,decoding\nq,a,10.5,\nq,a,4.5,draft\nq,b,8.5,\nq,b,20.5,draft\n"
    [row] = cases(log_of(tmp_path, text)).to_dict("records")
    assert (row["over"], row["cases"], row["min"]) == ("task x decoding", 4, pytest.approx(0.0045))
    text = "model,gpus,throughput,error\nq,1,10.5,ok\nq,1,,CUDA out of memory\nq,2,8.5,ok\n"
    [row] = cases(log_of(tmp_path, text, "failed.csv")).to_dict("records")
    assert (row["over"], row["cases"], row["failed"]) == ("gpus", 2, 0)
