"""Work of the experts beside plain products of their shapes: a log made by hand, its figures computed here."""

from __future__ import annotations

from typing import Any

import pytest
from support.metrics_logs import by_hand, row, rows

import perflog
from perflog.formats.expressions import Expression
from perflog.formats.model import Rate
from perflog.metrics import Options, Tables, matmul_efficiency, phases
from perflog.metrics.step_time import matmul_efficiency as module
from perflog.metrics.step_time.phases import rows_with_wholes

HEAD = """\
perflog trainer: recipe moe-layer, variant padded, run 1 of 1
setup: world_size 2, device cpu, dtype float32, seed 0, steps 12, warm-up 1 steps
model: moe-layer, layers 2, model_dim 64, hidden_size 128, heads 4 of 16, vocabulary 100, matmul parameters 1000
experts: strategy padded, experts per rank 2, top_k 2, capacity factor 1.25, shadows 0
batch: tokens per rank 1000, sequence length 100, data ranks 2, stages 1, micro-batches 1
"""
PLAIN = (
    "[rank {0}] plain products of 2 experts, 1000 rows each: gemm1 {1:.6f} ms, gemm2 {2:.6f} ms, backward {3:.6f} ms, \
{4:.6f} TFLOP/s, medians of 5 after 2 of warm-up\n"
)
NAMES = "attention cast gate count exchange prepare wait dispatch sort gemm1 gemm2 combine sum head".split()
BACK = ["attention_backward", "experts_backward", "head_backward"]
FORWARD, BACKWARD, STEP = 30.0, 40.0, 80.0  # milliseconds
GEMM = {0: (4.0, 5.0), 1: (6.0, 7.0)}  # of each rank
PLAINS: dict[int, tuple[float, ...]] = {0: (1.0, 1.5, 5.0), 1: (2.0, 2.5, 9.0)}
W = 1000 * 2 * 64 * 128  # rows of a rank times the size of an expert's matrix, in one layer
LAYERS = 2
MS = 1e-3


def plain_rate(ranks: list[int], part: slice, products: int) -> float:
    """TFLOP/s of 2 W FLOP each, over the ranks: the harmonic mean."""
    rates = [2 * products * W / (1.25 * sum(PLAINS[rank][part]) * MS) / 1e12 for rank in ranks]  # mean of the two times
    return len(rates) / sum(1 / rate for rate in rates)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> perflog.Log:
    lines = [HEAD]
    for rank, times in PLAINS.items():
        lines.append(PLAIN.format(rank, *times, 12 * W / (sum(times) * MS) / 1e12))
    for step in range(12):
        for rank in (0, 1):
            phases = dict.fromkeys(NAMES, 1.0) | dict(zip(("gemm1", "gemm2"), GEMM[rank], strict=True))
            lines.append(
                f"[rank {rank}] step {step}: " + ", ".join(f"{k} {v:.6f} ms" for k, v in phases.items()) + "\n"
                f"[rank {rank}] step {step}: attention backward 1.000000 ms, experts backward {20 + rank:.6f} ms, "
                "head backward 1.000000 ms\n"
                f"[rank {rank}] step {step}: data 1.000000 ms, forward {FORWARD:.6f} ms, backward {BACKWARD:.6f} ms, "
                "optimizer 2.000000 ms\n"
            )
        lines.append(
            f"[rank 0] step {step}: time {STEP:.6f} ms, forward {FORWARD:.6f} ms, backward {BACKWARD:.6f} ms, "
            "loss 1.000000, 1.000000 TFLOP/s per rank, 1.0 tok/s, peak memory 1 B\n"
        )
    for rank, first in PLAINS.items():  # measured again, slower
        times = tuple(1.5 * time for time in first)
        lines.append(PLAIN.format(rank, *times, 12 * W / (sum(times) * MS) / 1e12))
    path = tmp_path_factory.mktemp("products") / "log.txt"
    path.write_text("".join(lines))
    found = perflog.read(path)
    assert found.line_account["unread"] == 0
    return found


def test_the_rate_of_each_rank_and_of_all_beside_the_plain_products(log: perflog.Log) -> None:
    found = matmul_efficiency(log)
    for rank, time in ((0, 9.0), (1, 13.0), (None, 11.0)):
        one = row(found, what="expert products, forward", rank=rank)
        assert one["work_flop"] == 4 * W * LAYERS
        assert one["time_s"] == pytest.approx(time * MS)
        assert one["tflops"] == pytest.approx(4 * W * LAYERS / (time * MS) / 1e12)
        plain = plain_rate([0, 1] if rank is None else [rank], slice(0, 2), 2)
        assert one["plain_tflops"] == pytest.approx(plain)
        assert one["ratio"] == pytest.approx(one["tflops"] / plain)
        assert one["share"] == pytest.approx(time / STEP)
        assert (one["last_step"], one["last_step"] - one["first_step"] + 1) == (11, one["n"])
    back = row(found, what="expert products, backward", rank=None)
    assert back["tflops"] == pytest.approx(8 * W * LAYERS / (20.5 * MS) / 1e12)
    assert back["plain_tflops"] == pytest.approx(plain_rate([0, 1], slice(2, 3), 4))


def test_the_layer_takes_the_time_of_all_its_phases_and_the_step_is_the_whole(log: perflog.Log) -> None:
    found = matmul_efficiency(log)
    layer = row(found, what="expert layer, forward", rank=None)
    assert layer["time_s"] == pytest.approx((10 + 11.0) * MS)  # ten phases of 1 ms, and the products
    whole = row(found, what="experts in the whole step", rank=None)
    assert whole["time_s"] == pytest.approx(STEP * MS)
    assert whole["plain_tflops"] == pytest.approx(plain_rate([0, 1], slice(0, 3), 6))


def test_the_split_has_every_phase_once_and_adds_up_to_the_step(log: perflog.Log) -> None:
    split = [r for r in rows(matmul_efficiency(log)) if r["part"] != "work"]
    assert sum(r["time_s"] for r in split) == pytest.approx(STEP * MS)
    assert sum(r["share"] for r in split) == pytest.approx(1.0)
    named = sorted(r["what"] for r in split if r["part"] == "phase")
    assert named == sorted(["data", *NAMES, *BACK, "optimizer"])
    rests = {r["what"]: r["time_s"] / MS for r in split if r["part"] == "rest"}
    assert rests == pytest.approx({"forward": 30 - 12 - 11, "backward": 40 - 22.5, "step": 80 - 73})


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({0: {"plain": 2.0}, 1: {"plain": 6.0}}, {None: 3.0, 0: 2.0, 1: 6.0}),  # harmonic mean
        ({0: {"plain": 2.0}, 1: {"other": 6.0}}, {None: 2.0, 0: 2.0, 1: None}),  # rank 1 does not measure it
        ({0: {"plain": 2.0}, 1: {"plain": 0.0}}, {None: 2.0, 0: 2.0, 1: None}),
        ({0: {"plain": -2.0}}, {None: None, 0: None, 1: None}),
    ],
)
def test_plain_rates_of_the_ranks_that_measure_them(
    monkeypatch: pytest.MonkeyPatch, measured: dict[int, dict[str, float]], expected: dict[int | None, float | None]
) -> None:
    """Phase `a` takes 1 s on rank 0 and 3 s on rank 1 for 12 FLOP, of steps of 4 s."""
    rate = Rate("products", ("a",), (Expression("12"),), (Expression("plain"),))
    both = [(step, rank) for step in (1, 2) for rank in (0, 1)]
    times = [{"phase": "a", "step": s, "rank": r, "occurrence": 1, "time_s": 1.0 + 2 * r} for s, r in both]
    steps = [{"table": "steps", "step": step, "step_time_s": 4.0} for step in (1, 2)]
    (table,) = rows_with_wholes(Tables(by_hand("phases", [*times, *steps], world=2)), 0)
    found = list(module._rate_rows(rate, table.runs[0], table, measured))
    names = ("time_s", "share", "tflops", "plain_tflops", "ratio", "n", "first_step", "last_step")
    assert {row["rank"]: tuple(row.get(name) for name in names) for row in found} == {
        rank: (
            time, time / 4, 12e-12 / time, plain and plain / 1e12, plain and pytest.approx(12 / time / plain), 2, 1, 2,
        )
        for (rank, plain), time in zip(expected.items(), (2.0, 1.0, 3.0), strict=True)
    }  # fmt: skip


def test_values_of_ranks_are_those_that_they_print_outside_of_steps() -> None:
    """Of a key that a rank prints again the mean."""
    values: list[dict[str, Any]] = [
        {"rank": rank, "key": key, "value": value, "step": step}
        for rank, key, value, step in (
            (0, "a", 2.0, None), (0, "a", 4.0, None), (1, "a", 5.0, None), (0, "b", 7.0, None), (0, "b", 9.0, 3),
            (None, "a", 9.0, None), (1, "b", None, None),
        )
    ]  # fmt: skip
    found = module._values_of_ranks(Tables(by_hand("values", values)).rows("values"))
    assert found == {0: {"a": 3.0, "b": 7.0}, 1: {"a": 5.0}}


def test_shares_of_the_split_are_of_the_mean_over_the_ranks() -> None:
    """Three ranks wait 1 s, one 5 s: 2 s of steps of 8 s in the mean, though the median rank waits 1 s.

    Which rank the forward of 3 s is of is not known, so nor is what it does beside the wait.
    """
    times = [{"phase": "wait", "step": s, "rank": r, "occurrence": 1, "time_s": 5.0 if r == 3 else 1.0}
             for s in (1, 2) for r in range(4)]  # fmt: skip
    steps = [{"table": "steps", "step": step, "step_time_s": 8.0, "forward_s": 3.0} for step in (1, 2)]
    frames = by_hand("phases", [*times, *steps], world=4)
    frames["runs"]["format"] = "moe_layer"
    split = module._split(phases.table(Tables(frames), Options(warmup=0)), 8.0)
    assert [(row["part"], row["what"], row["rank"], row["time_s"], row["share"]) for row in split] == [
        ("phase", "wait", None, 2.0, 0.25),
        ("rest", "step", None, 5.0, 0.625),
    ]


def test_a_run_without_plain_products_has_no_rows(log: perflog.Log) -> None:
    assert not len(matmul_efficiency(by_hand("phases", [{"phase": "a", "step": 1, "time_s": 1.0}])))


def test_plain_products_are_of_no_step(log: perflog.Log) -> None:
    plain = [r for r in log.arrow("values").to_pylist() if r["key"].startswith("plain_")]
    assert {(r["rank"], r["step"]) for r in plain} == {(0, None), (1, None)}
    assert {r["unit"] for r in plain} == {"s", "TFLOP/s", None}  # numbers of tries have none
