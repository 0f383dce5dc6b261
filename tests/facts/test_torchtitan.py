"""torchtitan: the figures of a real log, and what its other versions print."""

from __future__ import annotations

import csv
import json
import statistics
from typing import Any

import pytest
from support.field_logs import CORPUS, needs_corpus
from support.reading import Reading, read

from perflog.errors import InputError
from perflog.metrics.semantics import run_semantics

KIND = "torchtitan"

# Cut from logs of several versions: colours, prefixes, a rank's label, rates in words, a rate that is not known.
TITAN = b"[titan] 2026-02-24 19:46:17,508 - root - INFO - "
LOG = b"".join(b" ".join(row) + b"\n" for row in (
    (TITAN + b"Training starts at step 1",),
    (TITAN + b"\x1b[31mstep:  4  \x1b[32mloss:  7.62585  \x1b[38;2;180;60;0mgrad_norm: 26.6250 ",
     b"\x1b[33mmemory: 66.91GiB(37.51%)  \x1b[34mtps: 10,050  \x1b[36mtflops: 1,314.71  \x1b[35mmfu: 13.99%\x1b[39m"),
    (b"[rank0]:" + TITAN + b"step: 10  loss:  8.0023  memory: 20.04GiB(21.10%)  tps: 7,189  mfu: N/A",),
    (b"1: 2024-06-01 10:00:00,001 - root - INFO - step: 10  loss:  8.0021 ",
     b"memory: 20.04GiB(21.10%)  wps: 7,190  mfu: 31.05%"),
    (b"[2025-09-11 14:09:47,568581][I][components/metrics:437:log] step:  2  loss: nan  grad_norm: inf ",
     b"memory:  8.44GiB(13.20%)  tps: 6,697  tflops: 62.15  mfu: 20.84%  end_to_end(s): 1.25  note: warm up"),
    (TITAN + b"validate step: 20  loss:  6.0125  memory: 10.32GiB(10.86%)  tps: 25,110",),
    (b" step: 7 of nothing",),
))  # fmt: skip


def steps(got: Reading) -> dict[int, dict[str, Any]]:
    return {r["line"]: r for r in got.rows("steps")}


def test_versions_prefixes_colours_and_ranks() -> None:
    got = read(LOG)
    assert got.done.formats == ["torchtitan"]
    assert got.done.lines == {"total": 7, "read": 6, "context": 0, "unread": 1}
    columns = ("step", "rank", "loss", "grad_norm", "tokens_per_s", "tflops", "mfu")
    told = {line: tuple(repr(row[c]) for c in columns) for line, row in steps(got).items()}
    assert told == {
        2: ("4", "None", "7.62585", "26.625", "10050.0", "1314.71", "0.1399"),
        3: ("10", "0", "8.0023", "None", "7189.0", "None", "None"),
        4: ("10", "1", "8.0021", "None", "7190.0", "None", "0.3105"),
        5: ("2", "None", "nan", "inf", "6697.0", "62.15", "0.2084"),
    }
    assert steps(got)[2]["memory_bytes"] == 66.91 * 2**30
    rows = {(r["line"], r["key"]): r["value"] if r["text"] is None else r["text"] for r in got.rows("values")}
    assert rows == {
        (2, "memory_share"): 37.51 * 0.01, (3, "memory_share"): 21.1 * 0.01, (4, "memory_share"): 21.1 * 0.01,
        (5, "memory_share"): 13.2 * 0.01, (5, "end_to_end_s"): 1.25, (5, "note"): "warm up",
        (6, "validation_loss"): 6.0125, (6, "validation_memory"): 10.32 * 2**30,
        (6, "validation_memory_share"): 10.86 * 0.01, (6, "validation_tokens_per_s"): 25110.0,
    }  # fmt: skip


@needs_corpus
def test_the_real_log() -> None:
    with (CORPUS / "index.tsv").open(encoding="utf-8") as file:
        found = [r for r in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if r["kind"] == KIND]
    assert found
    for row in found:
        want = json.loads(row["expected"])
        got = read((CORPUS / row["local"]).read_bytes())
        lines = steps(got)
        assert len(lines) == want["parsed"]
        ((count, first, last, mean),) = want["runs"]
        numbers = [lines[n]["step"] for n in sorted(lines)]
        assert (len(numbers), numbers[0], numbers[-1]) == (count, int(first), int(last))
        rates = [lines[n]["tokens_per_s"] for n in sorted(lines)]
        assert round(statistics.mean(rates[1:]), 2) == mean
        assert rates[0] == 149
        assert got.balances()


def test_a_line_that_is_not_quite_one_shows_where_it_stops() -> None:
    with pytest.raises(InputError) as error:
        read(b"step:  4  los:  7.62585\n")
    assert "The nearest template is `step` of torchtitan:\nstep:  4  los:  7.62585\n" in error.value.help
    assert "expected `s: `" in error.value.help


NEW = """
torchtitan version: 0.2.2 (0.0.0 means __version__ is not defined correctly).
Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=2
Trainer is initialized with 32768 tokens per DP rank, 131072 tokens per train step, gradient accumulation steps 1, \
maximum context length 8192, total steps 40 (warmup 2)
10:00:11,300 step:  1  loss: 11.90000  grad_norm:  1.5  memory: 60.50GiB(63.69%)  tps: 1,638  tflops: 95.85  mfu: N/A
10:00:29,300 step: 10  loss: 11.00000  grad_norm:  1.5  memory: 60.50GiB(63.69%)  tps: 8,192  tflops: 479.23  mfu: N/A
10:00:52,300 validate step: 10  loss:  9.9000  memory: 40.00GiB(42.11%)  tps: 20,000
10:01:12,300 step: 20  loss: 10.00000  grad_norm:  1.5  memory: 60.50GiB(63.69%)  tps: 8,192  tflops: 479.23  mfu: N/A
10:01:12,320 Saving the checkpoint.
10:01:20,300 Finished saving the checkpoint in 7.98 seconds.
10:01:40,300 step: 30  loss:  9.00000  grad_norm:  1.5  memory: 60.50GiB(63.69%)  tps: 5,851  tflops: 342.31  mfu: N/A
10:02:00,300 step: 40  loss:  8.00000  grad_norm:  1.5  memory: 60.50GiB(63.69%)  tps: 8,192  tflops: 479.23  mfu: N/A
"""


def test_the_start_of_2026_and_steps_with_a_pause_before_them() -> None:
    """Time stamps count validation, a checkpoint and a trace, which are no steps."""
    lines = [line if line[2] == ":" else f"10:00:00,000 {line}" for line in NEW.strip().splitlines()]
    got = read("\n".join(f"[titan] 2026-08-21 {line[:12]} - root - INFO - {line[13:]}" for line in lines).encode())
    (run,) = got.rows("runs")
    assert (run["world_size"], got.done.lines["unread"]) == (8, 0)
    assert run_semantics(run["format"], run["config"]).quantities["tokens"] == 131072
    assert [row["step_time_s"] for row in got.rows("steps")] == [None, 2.0, None, None, 2.0]
    assert [row["duration_s"] for row in got.rows("milestones") if row["edge"] == "end"][:1] == [7.98]
