"""Losses and gradient norms that become NaN or infinite: where, on which ranks, and whether to the end."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.format_files import given_file
from support.metrics_logs import by_hand

import perflog
from perflog.metrics import Tables
from perflog.metrics.series.divergence import Divergence, divergences, rises_before

FORMAT = """
title = "losses of ranks"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} with loss {loss:r}"
sample = "finished step 3 with loss 2.5"
[[line]]
name = "value"
table = "values"
text = "metric {key:S} at step {step:d} is {value:r}"
sample = "metric a at step 3 is 2.5"
"""


def found(folder: Path, lines: list[str]) -> list[Divergence]:
    path = folder / "run.txt"
    path.write_text("".join(f"{line}\n" for line in ["program with 8 sequences", *lines]))
    return divergences(Tables(perflog.read(path, format=str(given_file(folder, FORMAT)))))


def losses(*values: Any, rank: int | None = None) -> list[str]:
    label = "" if rank is None else f"[rank{rank}]:"
    return [f"{label}finished step {step} with loss {value}" for step, value in enumerate(values)]


def series(key: str, *values: Any) -> list[str]:
    return ["finished step 0 with loss 1.5", *(f"metric {key} at step {k} is {v}" for k, v in enumerate(values))]


def test_finite_losses_do_not_diverge(tmp_path: Path) -> None:
    assert found(tmp_path, losses(2.5, 1.5)) == []


@pytest.mark.parametrize(
    ("values", "step", "last_finite", "lasts", "lost"),
    [
        ((2.5, 1.5, "nan", "nan"), 2, (1.5, 1), True, True),
        ((2.5, "inf", "nan"), 1, (2.5, 0), True, True),
        ((2.5, "-inf"), 1, (2.5, 0), True, True),
        ((2.5, "nan", 1.5), 1, (2.5, 0), False, False),  # it recovers
        (("nan", "nan"), 0, (None, None), True, True),  # a loss that never was finite
        ((2.5, "nan", 1.5, "nan", "nan", "nan", "nan"), 3, (1.5, 2), True, True),  # longer than the gap before
        ((2.5, "nan", 1.5, "nan", "nan", "nan"), 1, (2.5, 0), False, False),  # it may recover again
    ],
)
def test_where_a_loss_diverges(
    tmp_path: Path, values: tuple[Any, ...], step: int, last_finite: tuple[Any, Any], lasts: bool, lost: bool
) -> None:
    (one,) = found(tmp_path, losses(*values))
    assert (one.name, one.ranks, one.step, one.line) == ("loss", (), step, step + 2)
    assert ((one.last_finite, one.last_finite_step), one.lasts, one.is_lost) == (last_finite, lasts, lost)
    odd = [k + 2 for k, value in enumerate(values) if isinstance(value, str)]
    assert (list(one.lines), one.total) == (odd, len(values))


def test_ranks_that_print_the_same_are_one_divergence(tmp_path: Path) -> None:
    """All of them: no rank is named."""
    both = [line for pair in zip(losses(2.5, "nan", rank=0), losses(2.5, "nan", rank=1), strict=True) for line in pair]
    (one,) = found(tmp_path, both)
    assert (one.ranks, one.step, one.lines, one.total) == ((), 1, (4, 5), 4)


def test_a_rank_by_itself_is_named(tmp_path: Path) -> None:
    three = [losses(2.5, "nan", rank=0), losses(2.5, 1.5, rank=1), losses(2.5, "nan", rank=2)]
    (one,) = found(tmp_path, [line for lines in zip(*three, strict=True) for line in lines])
    assert (one.ranks, one.step, one.total) == ((0, 2), 1, 4)
    two = [losses(2.5, "nan", "nan", rank=0), losses(2.5, 1.5, "nan", rank=1)]
    apart = found(tmp_path, [line for lines in zip(*two, strict=True) for line in lines])
    assert [(each.ranks, each.step) for each in apart] == [((0,), 1), ((1,), 2)]


@pytest.mark.parametrize(
    ("key", "values", "count"),
    [
        ("val_loss", (2.5, "nan"), 1),
        ("grad_norm", (2.5, "inf"), 1),
        ("gradient-norm/total", (2.5, "inf"), 1),
        ("loss_scale", (2.5, "inf"), 0),  # a factor
        ("best_loss", ("inf", 2.5), 0),  # known later
        ("val_loss", ("nan", 2.5), 0),  # so is this
        ("accuracy", (2.5, "nan"), 0),
        ("norm", (2.5, "nan"), 0),
        ("val_loss", (2.5, "nan", 2.5, "nan", 2.5, "nan", 2.5), 0),  # a value of some lines only
        ("val_loss", (2.5, "nan", 2.5, "nan", 2.5), 1),
    ],
)
def test_series_that_are_watched(tmp_path: Path, key: str, values: tuple[Any, ...], count: int) -> None:
    assert [each.name for each in found(tmp_path, series(key, *values))] == [
        key.replace("-", "_").replace("/", "_")
    ] * count


def test_each_run_has_its_own(tmp_path: Path) -> None:
    both = [
        *losses(2.5, "nan"),
        "program with 8 sequences",
        *losses(2.5, 1.5),
        "program with 8 sequences",
        *losses("nan", 1.5),
    ]
    assert [(each.run[-1], each.step, each.lasts) for each in found(tmp_path, both)] == [
        ("1", 1, True),
        ("3", 0, False),
    ]


@pytest.mark.parametrize(
    ("values", "rise"),
    [
        ([2.5, 2.4] * 20 + [7.5, 9.5], ("loss", 40, 7.5, 2.5)),
        ([2.5, 2.4] * 20 + [7.5, 2.5], None),  # it falls again
        ([2.5, 2.4] * 20 + [2.6], None),
        ([2.5, 9.5], None),  # too few to know what is usual
    ],
)
def test_what_rises_before_a_loss_is_not_finite(
    tmp_path: Path, values: list[float], rise: tuple[str, int, float, float] | None
) -> None:
    (lost,) = found(tmp_path, losses(*values, "nan"))
    rises = list(rises_before(Tables(perflog.read(tmp_path / "run.txt", format=str(tmp_path / "own.toml"))), lost))
    assert [(each.name, each.step, each.value, each.usual) for each in rises] == ([rise] if rise else [])


Rise = tuple[str, int | None, int, float, float]


@pytest.mark.parametrize(
    ("line", "ranks", "change", "expected"),
    [
        # 24 losses are too few; of 60 norms the last three are far above the median.
        (61, (), {}, [("grad_norm", 58, 58, 9.0, 1.0)]),
        (61, (), {60: {"loss": 9.0}}, [("grad_norm", 58, 58, 9.0, 1.0)]),
        (61, (), {60: {"loss": 9.0}, 36: {"loss": 2.0}}, [("loss", 60, 60, 9.0, 2.0), ("grad_norm", 58, 58, 9.0, 1.0)]),
        (60, (), {60: {"loss": None}}, [("grad_norm", 58, 58, 9.0, 1.0)]),  # the line itself is not before it
        (58, (), {}, []),
        (59, (), {}, [("grad_norm", 58, 58, 9.0, 1.0)]),
        (61, (), {58: {"grad_norm": 1.5}}, [("grad_norm", 59, 59, 9.0, 1.0)]),  # a half more is not far
        (61, (), {58: {"grad_norm": 1.51}}, [("grad_norm", 58, 58, 1.51, 1.0)]),
        (61, (), {60: {"grad_norm": 1.0}}, []),  # it falls again
        (61, (), {59: {"grad_norm": math.inf}}, [("grad_norm", 58, 58, 9.0, 1.0)]),
        (61, (), {58: {"step": None}}, [("grad_norm", None, 58, 9.0, 1.0)]),
        (61, (0,), {60: {"rank": 1, "grad_norm": 1.0}}, [("grad_norm", 58, 58, 9.0, 1.0)]),  # another rank
        (61, (1,), {60: {"rank": 1}}, []),
    ],
)  # fmt: skip
def test_what_rises_before_a_line(
    line: int, ranks: tuple[int, ...], change: dict[int, dict[str, Any]], expected: list[Rise]
) -> None:
    rows = [
        {"step": n, "line": n, "rank": 0, "loss": 2.0 if n > 36 else None, "grad_norm": 9.0 if n > 57 else 1.0}
        | change.get(n, {})
        for n in range(1, 61)
    ]
    lost: Any = SimpleNamespace(run="r", line=line, ranks=ranks)
    found = rises_before(Tables(by_hand("steps", rows[::-1])), lost)
    assert [(rise.name, rise.step, rise.line, rise.value, rise.usual) for rise in found] == expected
