"""Properties of any log: nothing crashes, every line is accounted for, and chunks, rank labels, interleaving, threads
and compression do not change what is read.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cost import call_growth, calls, cpu_growth
from support.examples import examples
from support.patience import PATIENCE_S
from support.reading import (
    LABELS,
    NAMES,
    Reading,
    differences,
    labelled,
    physical_lines,
    read,
    sample,
    sample_lines,
    write,
)

from perflog.errors import PerflogError
from perflog.ingestion import pipeline as ingest
from perflog.parsing.assemble.runs.run_state import SHAPES
from perflog.parsing.assemble.steps import pending_records
from perflog.tables.sink import MemorySink

QUICK = examples(40)
RUN = (
    b"[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, "
    b"num_local_experts = 8, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`\n"
)
PLACE = ("line", "part", "first_line", "last_line", "log_sha256", "run")


@cache
def alone(name: str) -> Reading:
    """A sample as it is read by itself."""
    return read(sample(name))


def step(number: int) -> bytes:
    return b"STEP-%d: step_time = 1.5 ms, foward_time = 1.25, backward_time = 0.25, perf = 1.00 tflops.\n" % number


def joined(lines: Any) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def attempt(data: bytes, **options: Any) -> Reading | str:
    """What is read, or the one error that gives the reason why nothing is."""
    try:
        return read(data, **options)
    except PerflogError as error:
        return str(error)


def same(one: Reading | str, two: Reading | str) -> None:
    if isinstance(one, str) or isinstance(two, str):
        assert one == two
        return
    assert differences(one.tables(), two.tables()) == []
    assert one.done == two.done


# --- any bytes ------------------------------------------------------------------------------------------------------


def holds(data: bytes) -> Reading | str:
    """Reading gives one clear error or a log; the account of lines adds up. Return it."""
    found = attempt(data)
    if isinstance(found, str):
        assert found.startswith("log: ")
    else:
        assert found.balances()
        assert found.done.lines["total"] == physical_lines(data)
    return found


@examples(50)  # each is two ingests
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    holds(data)
    holds(RUN + data)


PIECES = [RUN, *(x + b"\n" for n in NAMES for x in (*sample_lines(n)[:60], *sample_lines(n)[-60:]))]
ODD = [b"\r", b"\0", b"\x1b[31m", b"\x1b", b"\n", b"\r\n", b" ", b"\xff", b"\xe2", b"x" * 70]
ODD += [b"9", b"-", b".", b"e400", b"9" * 19, b"9" * 25, b"nan", b"[rank5000000000]:", b"[rank" + b"9" * 25 + b"]:"]
ODD += [label % 3 for label in LABELS]


@st.composite
def edited(draw: st.DrawFn) -> bytes:
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=25))))
    for at, bits, over in draw(
        st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(ODD), st.integers(0, 12)), max_size=8)
    ):
        at %= len(data) + 1
        data[at : at + over] = bits
    return bytes(data)


@examples(100)  # each is the ingest of a log of its own: 50 ms
@given(edited())
def test_any_edit_of_a_log(data: bytes) -> None:
    holds(data)


@pytest.mark.parametrize("name", NAMES)
def test_a_log_cut_anywhere(name: str) -> None:
    data = sample(name)
    for size in range(len(data) // 10, len(data), len(data) // 4):  # each is two ingests
        holds(data[:size])
        holds(data[size:])


WIDE = [0, -1, 7, 2**31 - 1, 2**31, 2**32 + 3, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("number", WIDE)
@pytest.mark.parametrize(
    "line",
    [
        "{} wait time: 2.5",
        "cuda:{} process time:4.0, a: 1.0, b: 1.0, c: 1.0, d: 1.0",
        "[rank:{} stage:1] transformer-block(module) forward time (no send/recv) - step 1",
        "[rank:1 stage:{}] transformer-block(module) forward time (no send/recv) - step 1",
        "[rank:1 stage:1] transformer-block(module) forward time (no send/recv) - step {}",
        "| epoch   1 | {}/  323 batches | lr 0.00 | ms/batch 7289.55 | loss 21.49 | ppl 2152814925.50",
        "STEP-{}: step_time = 1.5 ms, foward_time = 1.25, backward_time = 0.25, perf = 1.00 tflops.",
        "[rank{}]:block_info 1 1",
        "world_size {}",
    ],
)
def test_an_integer_is_kept_as_printed_or_not_at_all(line: str, number: int) -> None:
    """A rank of 64 bits does not fit a column of 32; it must not become another rank."""
    data = (
        b"> World size: 8\n" + RUN + line.format(number).encode() + b"\n  layer[0]: total=1.5ms, ops=1, avg/op=1.5ms\n"
    )
    found = holds(data)
    assert isinstance(found, Reading)
    for table in ("steps", "phases", "loads", "layers"):
        for row in found.rows(table):
            assert row["step"] in (None, 1, number, number + 1)
            assert row["rank"] in (None, 1, number)
            assert (row["rank"] is None) == (row["rank_by"] is None)
            assert row.get("stage") in (None, 1, number)


def test_nothing_recognised_names_the_nearest_template() -> None:
    message = attempt(b"some words that were printed long ago\nSTEP-0: step_tine = 5 ms\n")
    assert isinstance(message, str)
    assert "The nearest template is `step` of " in message
    assert "STEP-0: step_tine = 5 ms\n               ^ expected `me = `" in message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the log is empty"),
        (bytes(range(32)) * 100, "it looks binary"),
        (b"\n\n\n", "nothing in it is recognised"),
    ],
)
def test_nothing_to_read_is_an_error(data: bytes, said: str) -> None:
    assert said in str(attempt(data))


# --- how a log is cut into chunks -----------------------------------------------------------------------------------

SECONDS = b"STEP-1: loss = 6.5, step_time = 0.05 sec, perf = 1.00 tflops.\n"
MIXED = {
    "labels": labelled(sample("moe_layer"), b"%d: ", range(4)),
    "two formats": sample("moe_layer_early") + sample("pipeline_layers"),
    "two formats, turned": sample("pipeline_layers") + sample("moe_layer_early"),
    "sweep behind another": sample("nvprof") + sample("training_sweep"),
    "carriage returns": sample("moe_layer_early").replace(b"forward\n", b"forward\r"),
    "two starts at once": joined(sample_lines("moe_layer")[:40]) * 2,
    "cut": sample("moe_layer")[: len(sample("moe_layer")) * 2 // 3],
    "steps of two kinds": RUN + step(1) + SECONDS * 2 + step(1) + step(2),
}
"""Each sample is in one of them."""
BEGINS = {name: MIXED[name][:4200] for name in ("labels", "carriage returns", "steps of two kinds")}
BEGINS |= {name: sample(name)[:4200] for name in NAMES}


@cache
def unchanged(name: str) -> Reading | str:
    """What one of these logs gives, read in the usual way."""
    return attempt(MIXED[name])


@pytest.mark.parametrize("chunk", [400, 5000])  # some lines and a part of one, and many lines
@pytest.mark.parametrize("name", MIXED)
def test_chunks_make_no_difference(name: str, chunk: int) -> None:
    same(unchanged(name), attempt(MIXED[name], chunk=chunk))


@pytest.mark.parametrize("name", BEGINS)
def test_chunks_of_a_byte_make_no_difference(name: str) -> None:
    """Each line is a chunk."""
    same(attempt(BEGINS[name]), attempt(BEGINS[name], chunk=1))


@examples(25)
@given(edited(), st.integers(1, 400))
def test_chunks_make_no_difference_to_an_edited_log(data: bytes, chunk: int) -> None:
    same(attempt(data), attempt(data, chunk=chunk))


@pytest.mark.parametrize("chunk", [1, 300])
def test_the_config_of_a_run_is_in_one_order(chunk: int) -> None:
    data = sample("pipeline_layers")[:6000]
    (one,), (two,) = read(data).rows("runs"), read(data, chunk=chunk).rows("runs")
    assert one["config"] == two["config"]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_make_no_difference(threads: int) -> None:
    data = sample("moe_layer") + sample("training_sweep")
    same(read(data), read(data, threads=threads, chunk=700))


def test_a_printout_is_kept_wherever_chunks_end() -> None:
    """Also if the next run begins inside it."""
    lines = [
        RUN,
        step(1),
        b"cuda:0\nDistributedDataParallel(\n",
        RUN,
        step(1),
        RUN,
        b"  (module): M()\n",
        step(2),
        b")\n",
    ]
    data = b"".join(lines)
    for chunk in (1, 100, 1000):
        same(read(data), read(data, chunk=chunk))


def test_a_printout_cut_short_is_kept() -> None:
    (run,) = read(RUN + step(0) + b"Model(\n  (a): B()\n").rows("runs")
    assert run["printout"] == "Model(\n  (a): B()"


# --- labels ---------------------------------------------------------------------------------------------------------

UNLABELLED = (*PLACE, "rank", "rank_by", "occurrence", "sample", "shape", "printout")


@pytest.mark.parametrize("label", [*LABELS, b"[1,%d]<stderr>:"], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_rank_label_in_front_of_every_line(name: str, label: bytes) -> None:
    bare, read_labelled = alone(name), read(labelled(sample(name), label))
    assert differences(bare.tables(*UNLABELLED), read_labelled.tables(*UNLABELLED)) == []
    assert bare.done.lines == read_labelled.done.lines
    for table in ("steps", "phases", "loads", "layers", "values"):
        before, behind = bare.rows(table), read_labelled.rows(table)
        printed = Counter(r["rank"] for r in before if r["rank_by"] == "printed")
        assert Counter(r["rank"] for r in behind if r["rank_by"] == "printed") == printed
        assert {(r["rank"], r["rank_by"]) for r in behind if r["rank_by"] != "printed"} <= {(5, "label")}


@pytest.mark.parametrize("label", LABELS, ids=str)
@pytest.mark.parametrize("name", ["moe_layer", "training_sweep"])
def test_a_printout_is_kept_without_its_labels(name: str, label: bytes) -> None:
    printed = [r["printout"] for r in alone(name).rows("runs")]
    assert [r["printout"] for r in read(labelled(sample(name), label)).rows("runs")] == printed


@pytest.mark.parametrize("inner", [b"[rank2]:", b"[default2]:"])
def test_the_label_nearest_to_the_line_counts(inner: bytes) -> None:
    """Both srun and torchrun put a label in front of what the program printed."""
    found = read(b"".join(b"7: " + inner + x + b"\n" for x in (RUN[:-1], b"block_info 1 1", step(0)[:-1])))
    assert found.done.lines["unread"] == 0
    assert [(r["rank"], r["rank_by"]) for r in found.rows("loads")] == [(2, "label")]


@pytest.mark.parametrize("chunk", [1000, 20_000, 100_000])
def test_each_labelled_rank_closes_its_own_steps(chunk: int) -> None:
    """A step line of one rank does not end the steps of the others, wherever a chunk ends."""
    rng, out = random.Random(0), [b"0: " + RUN[:-1]]
    for number in range(300):
        of = [[b"%d: %d wait time: 1.5" % (r, r)] * 3 + [b"%d: " % r + step(number)[:-1]] for r in range(4)]
        out += interleaved(rng, of)
    found = read(joined(out), chunk=chunk)
    counts = Counter((r["step"], r["rank"]) for r in found.rows("phases"))
    assert counts == dict.fromkeys(itertools.product(range(300), range(4)), 3)
    assert Counter((r["step"], r["rank"], r["copy"]) for r in found.rows("steps")) == dict.fromkeys(
        itertools.product(range(300), range(4), [1]), 1
    )


# --- several formats in one log ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", list(itertools.permutations(NAMES, 2)), ids="+".join)
def test_one_log_after_another(names: tuple[str, ...]) -> None:
    together = read(b"".join(sample(n) for n in names))
    lines: Counter[str] = Counter()
    for n in names:
        lines.update(alone(n).done.lines)
    assert together.done.lines == lines
    assert together.done.lines["unread"] == 0
    runs = [(r["format"], r["label"]) for n in names for r in alone(n).rows("runs")]
    assert [(r["format"], r["label"]) for r in together.rows("runs")] == runs
    for table in ("steps", "kernels", "layers", "summaries", "phases", "loads"):
        rows = sum(len(alone(n).rows(table)) for n in names)
        assert len(together.rows(table)) == rows
        assert [r.get("copy") for n in names for r in alone(n).rows(table)] == [
            r.get("copy") for r in together.rows(table)
        ]


@pytest.mark.parametrize(
    ("name", "chunk"), [("training_sweep", 1 << 16), ("nvprof", 1 << 20), ("pipeline_layers", 8 << 20)]
)
def test_a_second_format_that_begins_late(name: str, chunk: int) -> None:
    """The first MiB of a log decides which formats read it, until a line proves another format."""
    first = sample("moe_layer") * (1_100_000 // len(sample("moe_layer")) + 1)
    found = read(first + sample(name), chunk=chunk)
    assert found.done.lines["unread"] == 0
    assert set(found.done.formats) == {"moe_layer", name}
    tail = [(r["format"], r["label"]) for r in alone(name).rows("runs")]
    assert [(r["format"], r["label"]) for r in found.rows("runs")][-len(tail) :] == tail


# --- interleaved output of several ranks ------------------------------------------------------------------------------

Layer = tuple[int, int, str, float]  # step, rank, layer, time in ms


def stage_lines(rank: int, ranks: int, number: int) -> tuple[list[bytes], list[Layer]]:
    """The lines that a rank of pipeline_layers prints in a step. No time occurs twice in a log."""
    if rank == 0:
        layers = [("embed", 32), ("0", 256), ("1", 224)]
    else:
        layers = [(str(2 * rank - 1), 32), (str(2 * rank), 256), (str(2 * rank + 1), 224)]
        layers += [("lm_head", 32)] if rank == ranks - 1 else []
    head = b"[rank:%d stage:%d] transformer-block(module) forward time (no send/recv) - step %d" % (rank, rank, number)
    rows: list[Layer] = [(number, rank, name, number * 1000 + rank * 10 + i) for i, (name, _) in enumerate(layers)]
    text = [
        b"  layer[%s]: total=%d.000ms, ops=%d, avg/op=0.001ms" % (name.encode(), row[3], calls)
        for row, (name, calls) in zip(rows, layers, strict=True)
    ]
    return [head, *text], rows


def interleaved(rng: random.Random, blocks: list[list[bytes]]) -> Iterator[bytes]:
    """Interleave the lines of several blocks; each block keeps its order."""
    left = [list(b) for b in blocks]
    while any(left):
        yield rng.choice([b for b in left if b]).pop(0)


def pipeline(
    rng: random.Random, steps: int, often: float, together: int = 2, ranks: int = 8
) -> tuple[bytes, set[Layer]]:
    out, truth = [b"> World size: %d" % ranks], set()
    for number in range(1, steps + 1):
        order = rng.sample(range(ranks), ranks)
        for at in range(0, ranks, together):
            blocks = []
            for rank in order[at : at + together]:
                text, rows = stage_lines(rank, ranks, number)
                blocks.append(text)
                truth |= set(rows)
            out += interleaved(rng, blocks) if rng.random() < often else itertools.chain(*blocks)
    return joined(out), truth


@pytest.mark.parametrize("together", [2, 3, 8])
@pytest.mark.parametrize("often", [0.0, 0.05, 0.2, 0.5, 1.0])
def test_layers_of_interleaved_ranks(together: int, often: float) -> None:
    """Every layer is read with its time. Its rank and step are those that printed it, or null, never wrong ones."""
    data, truth = pipeline(random.Random(f"{together} {often}"), 40, often, together)
    rows = [(r["step"], r["rank"], r["layer"], round(r["time_s"] * 1000, 6)) for r in read(data).rows("layers")]
    owner = {(layer, time): (number, rank) for number, rank, layer, time in truth}
    assert Counter((layer, time) for *_, layer, time in rows) == Counter(list(owner))
    wrong = [r for r in rows if r[1] is not None and r[1] != owner[r[2:]][1]]
    assert wrong == []
    assert [r for r in rows if r[0] is not None and r[0] != owner[r[2:]][0]] == []
    known = sum(r[1] is not None for r in rows)
    assert known == len(rows) if often == 0 else known > 0 or often > 0.2


BLOCKS = {0: (228, 16), 1: (248, 33), 2: (312, 83), 3: (256, 37)}


def moe_rank(rank: int, blocks: tuple[int, int], scale: int) -> list[bytes]:
    """Some lines that a rank of moe_layer prints in a step, in order. Times encode the rank: 0.25 ms x (rank + 1)."""
    amount, remote = blocks
    share = np.float32(remote) / np.float32(amount)
    time = (rank + 1) * 0.25 + scale
    return [
        b"start",
        b"block_info %d %d" % blocks,
        f"{rank} wait time: {time}".encode(),
        b"%d" % amount,
        f"AG, {share:.6f}, {time:.6f}, 0 ".encode(),
        f"perpare first forward gemm: {time},  fisrt gemm forward duration: {time}".encode(),
        f"GA, {share:.6f}, {time:.6f}, 0 ".encode(),
    ]


def moe_log(rng: random.Random, steps: int, blocks: Any, chaos: float) -> bytes:
    """A log of four ranks that print `blocks(step, rank)`; with probability `chaos` a step's ranks interleave."""
    out = [RUN[:-1]]
    for number in range(steps):
        texts = [moe_rank(rank, blocks(number, rank), number % 7) for rank in rng.sample(range(4), 4)]
        out += interleaved(rng, texts) if rng.random() < chaos else itertools.chain(*texts)
        out.append(step(number)[:-1])
    return joined(out)


def wrong_ranks(found: Reading, blocks: Any) -> list[dict[str, Any]]:
    """Rows whose rank is not the rank that printed them."""
    rows = []
    for r in found.rows("phases"):
        rank = round((r["time_s"] * 1000 % 1.0 or 1.0) / 0.25) - 1
        rows += [r] if r["rank"] not in (None, rank) else []
    for r in found.rows("loads"):
        mine = {k for k in range(4) if blocks(r["step"], k) == (r["amount"], r["remote"])}
        rows += [r] if r["rank"] is not None and r["rank"] not in mine else []
    return rows


def constant(number: int, rank: int) -> tuple[int, int]:
    return BLOCKS[rank]


@pytest.mark.parametrize("chaos", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_phases_of_interleaved_ranks(chaos: float, seed: int) -> None:
    data = moe_log(random.Random(seed), 40, constant, chaos)
    found, calm = read(data), read(moe_log(random.Random(seed), 40, constant, 0.0))
    without = (*PLACE, "rank", "rank_by", "occurrence", "sample", "log_sha256", "remote_share")
    assert differences(found.tables(*without), calm.tables(*without)) == []
    assert wrong_ranks(found, constant) == []
    if chaos < 1:
        assert all(r["rank"] is not None for r in found.rows("loads"))


# --- votes ------------------------------------------------------------------------------------------------------------


def all_changing(number: int, rank: int) -> tuple[int, int]:
    """Blocks go round the ranks, so a number of blocks identifies no rank."""
    return BLOCKS[(rank + number) % 4]


def swapped_late(number: int, rank: int) -> tuple[int, int]:
    return BLOCKS[rank if number < 40 else 3 - rank]


def drifting(number: int, rank: int) -> tuple[int, int]:
    return 200 + 10 * rank + number % 3, 5 + rank


def twins(number: int, rank: int) -> tuple[int, int]:
    return BLOCKS[min(rank, 2)]


@pytest.mark.parametrize("blocks", [all_changing, swapped_late, drifting, twins])
@pytest.mark.parametrize("chaos", [0.0, 0.3])
def test_a_number_that_identifies_no_rank_gives_none(blocks: Any, chaos: float) -> None:
    found = read(moe_log(random.Random(1), 80, blocks, chaos))
    assert wrong_ranks(found, blocks) == []
    loads = Counter(r["rank"] for r in found.rows("loads"))
    assert loads[None] if blocks is not twins else set(loads) >= {0, 1, None}


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_give_few_ranks_but_no_wrong_ones(steps: int) -> None:
    for seed in range(5):
        found = read(moe_log(random.Random(seed), steps, constant, 0.5))
        assert wrong_ranks(found, constant) == []
        assert steps > 1 or all(r["rank"] is None for r in found.rows("loads"))


@pytest.mark.parametrize("chunk", [3000, 20_000])
def test_a_run_that_contradicts_its_beginning_is_read_again(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Ranks are decided before a long run ends; if its later part contradicts them, the whole run is read again."""
    data = moe_log(random.Random(2), 80, swapped_late, 0.0)
    whole = read(data)
    monkeypatch.setattr(pending_records, "ENOUGH_TO_VOTE", 64)
    sinks = []

    def sink() -> MemorySink:
        sinks.append(MemorySink())
        return sinks[-1]

    done = ingest.ingest(write(data), sink, chunk=chunk)
    assert len(sinks) == 2
    same(whole, Reading(done, sinks[-1]))


@pytest.mark.parametrize("name", MIXED)
def test_deciding_early_makes_no_difference(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole = unchanged(name)
    monkeypatch.setattr(pending_records, "ENOUGH_TO_VOTE", 1)
    same(whole, attempt(MIXED[name], chunk=500))


# --- sizes ----------------------------------------------------------------------------------------------------------


def balanced(data: bytes, **options: Any) -> Reading:
    found = read(data, **options)
    assert found.balances()
    return found


def test_a_line_of_100_megabytes() -> None:
    def data(size: int) -> bytes:
        return RUN + b"x" * size + b"\n" + step(0)

    found = balanced(data(100_000_000))
    assert found.done.lines == {"total": 3, "read": 2, "context": 0, "unread": 1}
    assert cpu_growth(lambda n: read(data(n)), 2_000_000, 20_000_000) < 40


def test_blank_lines_cost_no_call_each() -> None:
    def data(lines: int) -> bytes:
        return RUN + b"\n" * lines + step(0)

    assert balanced(data(1_000_000)).done.lines["context"] == 1_000_000
    # In the first 64 KiB, which are searched for rank labels, each line costs a call.
    assert call_growth(lambda n: read(data(n)), 100_000, 1_000_000) < 1.1


def test_unread_lines_of_2000_shapes() -> None:
    shapes = ["".join(x) for x in itertools.islice(itertools.product("abcdefghijklm", repeat=3), 2000)]

    def data(lines: int) -> bytes:
        return RUN + step(0) + joined(f"{s} {i}".encode() for i, s in enumerate(shapes[:lines]))

    found = balanced(data(2000))
    assert found.done.lines["unread"] == 2000
    unread = [r for r in found.rows("lines") if r["status"] == "unread"]
    assert len(unread) <= SHAPES + 1
    assert sum(r["count"] for r in unread) == 2000
    assert call_growth(lambda n: read(data(n)), 200, 2000) < 5


def test_unread_lines_of_one_shape_cost_few_calls() -> None:
    def data(lines: int) -> bytes:
        return RUN + step(0) + b"[2024-01-01 10:00:00,123] [INFO] some message of 17 words\n" * lines

    assert balanced(data(8000)).done.lines["unread"] == 8000
    assert calls(lambda: read(data(8000))) - calls(lambda: read(data(2000))) < 5 * 6000


@pytest.mark.parametrize("chunk", [8000, 8 << 20])
def test_more_runs_than_are_written_at_once(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_RUNS_AT_ONCE", 200)
    found = balanced((RUN + step(0)) * 500, chunk=chunk)
    assert len(found.done.runs) == len(found.rows("runs")) == 500
    assert {r["copy"] for r in found.rows("steps")} == {1}


def test_runs_cost_the_same_however_many_there_are() -> None:
    assert call_growth(lambda n: read((RUN + step(0)) * n), 50, 500) < 20


@pytest.mark.parametrize(
    "between", [b"", b"setup: world_size 4, device cpu, dtype float32, seed 0, steps 1, warm-up 0 steps\n"]
)
def test_the_begin_of_another_node_begins_no_run_of_its_own(between: bytes) -> None:
    """In the log of all nodes it precedes that of rank 0, or follows it directly."""
    node = b"[rank 2] node 1 takes part: recipe r, variant v, run %d of 2\n"
    begin = b"perflog trainer: recipe r, variant v, run %d of 2\n"
    step = b"[rank 0] step 0: copy backward 1.500000 ms\n"
    one = node % 1 + begin % 1 + between + step + b"end of run 1 of 2\n"
    two = begin % 2 + node % 2 + between + step + b"end of run 2 of 2\n"
    found = read(one + two)
    assert [(r["index"], json.loads(r["config"])["place"]) for r in found.rows("runs")] == [(1, 1), (2, 2)]
    alone = read(node % 1 + between + step + node % 2 + between + step)
    assert [(r["index"], json.loads(r["config"])["place"]) for r in alone.rows("runs")] == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)], ids=["gz", "zst"]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_compressed_log_is_the_same_log(name: str, pack: Any) -> None:
    same(alone(name), read(pack(sample(name))))


# --- a process that scans ahead ---------------------------------------------------------------------------------------

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
LONG = {name: data * (3 if len(data) < 60_000 else 1) for name, data in MIXED.items()}


def no_child_is_left() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return True


@forks
@pytest.mark.parametrize("name", LONG)
def test_scanning_in_a_process_makes_no_difference(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """More chunks than slots: memory is reused while tables made from it still exist."""
    monkeypatch.setattr(ingest, "_LONG", 0)
    same(attempt(LONG[name], chunk=6_000), attempt(LONG[name], chunk=6_000, processes=True))
    assert no_child_is_left()


@forks
@pytest.mark.parametrize(
    "data", [b"", b"nothing\n" * 3, gzip.compress(sample("moe_layer"))[:-60]], ids=["empty", "unknown", "damaged"]
)
def test_the_process_reports_errors_too(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(ingest, "_LONG", 0)
    same(attempt(data, chunk=2000), attempt(data, chunk=2000, processes=True))


KILLED = """
import os, signal, sys
from perflog.ingestion import pipeline as ingest
from perflog.errors import PerflogError
from perflog.tables.sink import MemorySink
from perflog.parsing.input.source import Source

children, fork = [], os.fork
def forked():
    children.append(fork())
    return children[-1]
os.fork = forked
ingest._LONG, ingest._ROWS_AT_ONCE = 0, 1000

class Sink(MemorySink):
    def add(self, table, data):
        os.kill(children[-1], signal.SIGKILL)

try:
    ingest.ingest(Source("log", sys.argv[1]), Sink, chunk=20000, processes=True)
except PerflogError as error:
    print(error)
try:
    os.waitpid(-1, os.WNOHANG)
    print("a process is left")
except ChildProcessError:
    pass
"""


@forks
def test_a_process_that_is_killed_is_one_error(tmp_path: Any) -> None:
    log = tmp_path / "log"
    log.write_bytes(sample("moe_layer") * 100)
    done = subprocess.run([sys.executable, "-c", KILLED, str(log)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stderr == ""
    assert done.returncode == 0
    assert re.search("process .*(killed|died|ended)", done.stdout)
    assert "a process is left" not in done.stdout


@forks
def test_a_sink_that_fails_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_LONG", 0)

    class Full(MemorySink):
        def add(self, table: str, data: pa.Table) -> None:
            raise PerflogError("the disk is full")

    with pytest.raises(PerflogError, match="the disk is full"):
        ingest.ingest(write(LONG["labels"]), Full, chunk=20_000, processes=True)
    assert no_child_is_left()


def test_a_counter_that_starts_anew_covers_what_its_first_line_did() -> None:
    """A pipeline log prints no line for batch 0 of an epoch, so the first line of each epoch covers two steps."""
    line = b"| epoch %3d | %5d/  323 batches | lr 0.00 | ms/batch 1000.00 | loss  6.84 | ppl   933.51\n"
    data = b"> World size: 8\n" + b"".join(line % (e, b) for e in (1, 2) for b in (1, 2, 3))
    assert [r["steps_averaged"] for r in read(data).rows("steps")] == [2, 1, 1, 2, 1, 1]
