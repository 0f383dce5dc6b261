"""The tree of ranges: what FACTS.md says of the profile (003), and made-up profiles."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.metrics_logs import rows as rows_of
from support.profiles import WHERE, nvprof_profile, profile_of
from support.seeds import MS, rows

from perflog.metrics import ranges
from perflog.metrics.profiles.ranges import RangeWork

if TYPE_CHECKING:
    import pandas as pd

LAYERS = ", ".join(f"Layer {k}" for k in range(12))


@pytest.fixture(scope="module", params=WHERE)
def tree(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    return {r["range"]: r for r in rows_of(ranges(nvprof_profile(request.param)))}


def test_every_range_has_its_place(tree: dict[str, dict[str, Any]]) -> None:
    assert len(tree) == 35
    seen: list[str] = []
    for name, row in tree.items():
        parent = row["parent"]
        assert row["depth"] == (0 if parent is None else tree[parent]["depth"] + 1)
        assert parent is None or parent in seen
        seen.append(name)


def test_nesting(tree: dict[str, dict[str, Any]]) -> None:
    parents = {name: row["parent"] for name, row in tree.items() if row["parent"]}
    forward, backward = "gpt2_forward", "gpt2_backward_and_reduce"
    assert parents == {
        "validation": "Train step 0",
        "encoder_forward": forward, "attention_forward": forward, "layernorm_forward": forward,
        "fused_classifier": "classifier_and_loss",
        "attention_backward": backward, "matmul_backward": backward, "layernorm_backward": backward,
        "encoder_backward": backward, "ncclAllReduce": backward, "gelu_backward_inplace": "matmul_backward",
    }  # fmt: skip


def test_a_range_in_many_places_has_no_one_parent(tree: dict[str, dict[str, Any]]) -> None:
    partly = {name: row["partly_in"] for name, row in tree.items()}
    for name in ("attention_forward", "attention_backward", "matmul_backward", "gelu_forward"):
        assert partly[name] == LAYERS
    assert {tree[f"Layer {k}"]["parent"] for k in range(12)} == {None}
    assert {partly[f"Layer {k}"] for k in range(12)} == {"classifier_and_loss, gpt2_forward"}
    assert partly["matmul_cublaslt"] == "attention_backward, attention_forward, matmul_backward"
    assert partly["gpt2_forward"] == "Train step 1, Train step 2, validation"
    assert partly["gpt2_update"] == "Train step 0, Train step 1, Train step 2"
    assert all(
        row["places"] == len((row["partly_in"] or "").split(", ")) - (not row["partly_in"]) for row in tree.values()
    )


def test_a_range_that_holds_more_than_its_name_says(tree: dict[str, dict[str, Any]]) -> None:
    """The classifier's range is closed where the backward's is: the same work, but for the classifier's other calls."""
    wide, backward = tree["classifier_and_loss"], tree["gpt2_backward_and_reduce"]
    assert {n: row["same_as"] for n, row in tree.items() if row["same_as"]} == {
        "classifier_and_loss": "gpt2_backward_and_reduce",
        "gpt2_backward_and_reduce": "classifier_and_loss",
    }
    assert (round(wide["gpu_s"], 3), round(tree["fused_classifier"]["gpu_s"], 4)) == (2.737, 0.2153)
    assert wide["exclusive_s"] < 0.001  # and next to nothing is its own
    # Its longest entry is the shorter by 70 us: it is inside of the backward, and 20 of its entries are in validation.
    assert wide["partly_in"] == "gpt2_backward_and_reduce, validation"
    assert (wide["entered"], backward["entered"]) == (24, 4)


def test_host_time_that_says_something(tree: dict[str, dict[str, Any]]) -> None:
    assert (round(tree["Layer 5"]["host_s"] / MS, 2), round(tree["Layer 5"]["gpu_s"] / MS, 1)) == (3.53, 703.8)
    assert (round(tree["gpt2_forward"]["host_s"], 3), round(tree["gpt2_forward"]["gpu_s"], 3)) == (8.343, 8.298)
    clocks = {name: row["clock"] for name, row in tree.items()}
    assert {clocks[f"Layer {k}"] for k in range(12)} | {clocks["attention_forward"]} == {"asynchronous"}
    steps = {f"Train step {k}" for k in range(3)}
    assert {n for n, c in clocks.items() if c == "synchronous"} == steps | {
        "gpt2_forward", "validation", "classifier_and_loss", "gpt2_backward_and_reduce", "gpt2_update",
        "gpt2_calculate_grad_norm",
    }  # fmt: skip
    assert clocks["ncclAllReduce"] == "host"  # 630 ms of set-up for 68 us of work


def test_arithmetic_of_the_steps(tree: dict[str, dict[str, Any]]) -> None:
    gpu = {name: row["gpu_s"] for name, row in tree.items()}
    assert [round(gpu[f"Train step {k}"], 3) for k in range(3)] == [8.104, 0.999, 1.012]
    assert round(gpu["validation"], 3) == 7.092
    assert round(gpu["Train step 0"] - gpu["validation"], 4) == 1.0116
    assert tree["Train step 0"]["entered"] == 1
    assert round(gpu["matmul_cublaslt"] / gpu["Train step 0"] * tree["Train step 0"]["share"], 3) == 0.885


def test_exclusive_time_is_what_the_range_itself_launches(tree: dict[str, dict[str, Any]]) -> None:
    """Attention's own kernels beside its GEMMs: softmax and the permutations, summed from the whole profile."""
    own = ("softmax_forward", "permute_kernel(", "unpermute_kernel(")
    want = sum(r["time_s"] for r in rows("nvprof", "kernels", section=1) if r["name"].startswith(own))
    assert tree["attention_forward"]["exclusive_s"] == pytest.approx(want)
    assert all(row["exclusive_least_s"] <= row["exclusive_s"] <= row["gpu_s"] * (1 + 1e-9) for row in tree.values())
    assert tree["gelu_forward"]["exclusive_least_s"] == pytest.approx(tree["gelu_forward"]["gpu_s"])


class Program:
    """A made-up program of nested ranges, its profile as a profiler tabulates it, and what is really inside what."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.calls: dict[tuple[str | None, str], int] = Counter()
        self.time: dict[tuple[str | None, str], int] = Counter()
        self.entered: dict[str, list[int]] = defaultdict(list)
        self.own: dict[str, int] = Counter()
        self.inside: set[tuple[str, str]] = set()
        for _ in range(self._random.randint(1, 4)):
            self._enter(())

    def _enter(self, open: tuple[str, ...]) -> int:
        """Enter a range; its host time is one more than all that happens inside."""
        name = f"{'abcd'[len(open)]}{self._random.randint(0, 2)}"
        open, host = (*open, name), 1
        for _ in range(self._random.randint(0, 4)):
            if len(open) < 4 and self._random.random() < 0.6:
                host += self._enter(open)
            else:
                host += self._launch(open)
        self.entered[name].append(host)
        self.inside |= {(name, outer) for outer in open[:-1]}
        return host

    def _launch(self, open: tuple[str, ...]) -> int:
        time, kernel = self._random.randint(1, 900), f"k{self._random.randint(0, 5)}"
        for range_ in (None, *open):
            self.calls[range_, kernel] += 1
            self.time[range_, kernel] += time
        self.own[open[-1]] += time
        return self._random.randint(1, 900)

    def tables(self) -> dict[str, pd.DataFrame]:
        rows: list[dict[str, Any]] = [
            {"kind": "kernel", "range": r, "name": k, "calls": n, "time_s": float(self.time[r, k])}
            for (r, k), n in self.calls.items()
        ]
        for name, hosts in self.entered.items():
            host = {"calls": len(hosts), "time_s": float(sum(hosts)), "min_s": min(hosts), "max_s": float(max(hosts))}
            rows.append({"kind": "range", "range": name, "name": name} | host)
        return profile_of(rows)


@examples(60)
@given(st.integers(0, 10**9))
def test_ranges_claim_nothing_that_is_not_so(seed: int) -> None:
    program = Program(seed)
    found = {r["range"]: r for r in rows_of(ranges(program.tables()))}
    assert set(found) == set(program.entered)
    for name, row in found.items():
        assert row["gpu_s"] == sum(t for (r, _), t in program.time.items() if r == name)
        partly = [x for x in (row["partly_in"] or "").split(", ") if x]
        for other in [row["parent"], *partly]:
            assert other is None or (name, other) in program.inside or (other, name) in program.inside
        assert row["exclusive_least_s"] <= row["exclusive_s"] <= row["gpu_s"]
        assert row["depth"] == (0 if row["parent"] is None else found[row["parent"]]["depth"] + 1)


@examples(60)
@given(st.integers(0, 10**9))
def test_exclusive_time_is_at_most_what_is_said(seed: int) -> None:
    """True of every range whose inner ranges have less GPU time per entry: what the tree takes for granted."""
    program = Program(seed)
    found = {r["range"]: r for r in rows_of(ranges(program.tables()))}
    per_entry = {name: row["gpu_s"] / row["entered"] for name, row in found.items()}
    for name, row in found.items():
        outer = [o for i, o in program.inside if i == name]
        if all(per_entry[o] > per_entry[name] for o in outer):
            assert program.own[name] <= row["exclusive_s"]


def test_one_range_inside_another() -> None:
    """A step of two forwards and something else; the forward's kernel is launched nowhere else."""
    given = [
        {"kind": "kernel", "name": "a", "calls": 4, "time_s": 4.0},
        {"kind": "kernel", "name": "b", "calls": 3, "time_s": 9.0},
        {"kind": "range", "range": "step", "name": "step", "calls": 2, "time_s": 11.0, "max_s": 6.0},
        {"kind": "kernel", "range": "step", "name": "a", "calls": 4, "time_s": 4.0},
        {"kind": "kernel", "range": "step", "name": "b", "calls": 2, "time_s": 6.0},
        {"kind": "range", "range": "forward", "name": "forward", "calls": 4, "time_s": 1.0, "max_s": 0.5},
        {"kind": "kernel", "range": "forward", "name": "a", "calls": 4, "time_s": 4.0},
    ]
    step, forward = rows_of(ranges(profile_of(given)))
    assert (step["range"], step["parent"], step["gpu_s"], step["exclusive_s"]) == ("step", None, 10.0, 6.0)
    assert (forward["range"], forward["parent"], forward["depth"]) == ("forward", "step", 1)
    assert (forward["share"], step["exclusive_least_s"]) == (4 / 13, 6.0)
    assert (step["clock"], forward["clock"]) == ("synchronous", "asynchronous")


@pytest.mark.parametrize(
    ("calls", "time", "host", "longest", "holds"),
    [
        ([4, 2], [4.0, 6.0], 11.0, 6.0, True),
        ([3, 2], [4.0, 6.0], 11.0, 6.0, False),  # fewer calls of the first kernel
        ([4, 2], [3.9, 6.0], 11.0, 6.0, False),  # less time of it
        ([4, 2], [4.0, 6.0], 0.9, 6.0, False),  # shorter on the host
        ([4, 2], [4.0, 6.0], 11.0, 0.4, False),  # no entry is long enough
    ],
)
def test_a_range_holds_another_one_if_it_has_all_its_calls_and_time(
    calls: list[float], time: list[float], host: float, longest: float, holds: bool
) -> None:
    """The other one has all four calls of the first kernel, which takes 4 s, and 1 s on the host."""
    work = RangeWork(
        ("inner", "outer"), (None, None), (1, 2), np.array([[4, 0], calls]), np.array([[4.0, 0.0], time]),
        np.array([4, 3]), np.array([4.0, 9.0]), np.array([4.0, 2.0]), np.array([1.0, host]), np.array([0.5, longest]),
    )  # fmt: skip
    assert work.holds().tolist() == [[False, holds], [False, False]]


@pytest.mark.parametrize(
    ("own", "other", "same"),
    [
        (([4, 2], [0.25, 0.5]), ([4, 2], [0.25, 0.5]), True),
        (([4, 2], [0.25, 0.5]), ([4, 3], [0.25, 0.5]), False),  # a third of the time is equal
        (([4, 2], [0.25, 0.5]), ([4, 2], [0.25, 0.75]), False),
        (([4, 2], [0.9, 0.1]), ([4, 3], [0.9, 0.1]), True),  # nine tenths are
        (([4, 2], [0.89, 0.11]), ([4, 3], [0.89, 0.11]), False),
        (([0, 0], [0.0, 0.0]), ([0, 0], [0.0, 0.0]), False),  # neither launches any
    ],
)
def test_ranges_that_are_the_same_work(own: tuple[Any, Any], other: tuple[Any, Any], same: bool) -> None:
    """Calls and seconds of two activities in each of two ranges."""
    calls, times = (np.array(both, np.float64) for both in zip(own, other, strict=True))
    endless, unknown = np.full(2, np.inf), np.full(2, np.nan)
    work = RangeWork(("a", "b"), (None, None), (1, 2), calls, times, endless, endless, unknown, unknown, unknown)
    assert (work.same(0).tolist(), work.same(1).tolist()) == ([False, same], [same, False])


def test_the_same_name_in_two_domains() -> None:
    given = [
        {"kind": "kernel", "domain": d, "range": "step", "name": "a", "calls": 1, "time_s": t}
        for d, t in (("A", 1.0), (None, 2.0))
    ]
    assert [(r["range"], r["gpu_s"]) for r in rows_of(ranges(profile_of(given)))] == [
        ("step", 2.0),
        ("A/step", 1.0),
    ]
