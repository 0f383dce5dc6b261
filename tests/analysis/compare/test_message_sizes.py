"""Which sizes of messages make the change of a mean, on rows by hand and on logs of nccl-tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import perflog
from perflog.analysis.compare.explanations.message_sizes import SizesThatChange, sizes_that_change
from perflog.output.presenters.compare_screen import answer_sentences

SIZES = ["8 B", "1 KiB", "1 MiB", "2 MiB", "4 MiB", "1 GiB"]


def found(changes: Mapping[str, float], headline: float = -0.1, whole: str = ", mean of 12, 8 B to 1 GiB") -> list[Any]:
    def row(metric: str, change: float) -> Any:
        return SimpleNamespace(kind="collective", case="", side="B", metric=metric, change=change)

    rows = [
        row(f"AllReduce busbw, {size}, {place}", changes.get(size, 0.001 * k))
        for k, size in enumerate(SIZES)
        for place in ("out of place", "in place")
    ]
    others = [row("Broadcast busbw, 8 B, in place", -0.9), row("AllReduce busbw, 1 MiB of a pair", -0.9)]
    return list(sizes_that_change([row(f"AllReduce busbw{whole}", headline)], [*rows, *others]))


def test_neighbouring_sizes_that_make_the_change() -> None:
    (only,) = found({"1 MiB": -0.3, "2 MiB": -0.32})
    assert only == SizesThatChange("1 MiB", "2 MiB", only.change, 4, 0.0025)
    assert only.change == pytest.approx(-0.31)
    assert found({"8 B": -0.5, "2 MiB": -0.3, "4 MiB": -0.3})[0].first == "2 MiB"  # the longest stretch


def test_a_change_of_all_sizes_or_of_none_is_at_none_of_them() -> None:
    assert found(dict.fromkeys(SIZES, -0.1)) == []
    assert found(dict.fromkeys(SIZES[:4], -0.15)) == []  # most of them
    assert found({"1 MiB": -0.3}, headline=-0.01) == []  # may be chance
    assert found({"1 MiB": 0.3}) == []  # the other way
    assert found({"1 MiB": -0.3}, whole="") == []
    assert found(dict.fromkeys(SIZES, -0.08) | {"1 MiB": -0.3}) == []  # the others change too


def test_the_screen_names_them(tmp_path: Path) -> None:
    columns = "     time   algbw   busbw #wrong" * 2
    head = f"# nThread 1 nGpus 8 minBytes 8 maxBytes 536870912 step: 2(factor) warmup iters: 5 iters: 20\n#{columns}\n"
    for side, slow in (("a", 1.0), ("b", 2.0)):
        rows = []
        for size in (1 << k for k in range(20, 30)):
            time = (100 + size / 1e5) * (slow if 1 << 22 <= size <= 1 << 24 else 1)
            cells = f" {time:7.1f} {size / time / 1e3:7.2f} {size / time / 1e3:7.2f}      0"
            rows.append(f"{size:12}{size // 4:14}     float     sum      -1{cells}{cells}\n")
        (tmp_path / f"{side}.log").write_text(head + "".join(rows))
    sentences = answer_sentences(perflog.compare(str(tmp_path / "a.log"), str(tmp_path / "b.log")))
    assert "The change is at messages of 4 MiB to 16 MiB: -50.0 %; the other 7 sizes 0.00 % (medians)" in sentences
