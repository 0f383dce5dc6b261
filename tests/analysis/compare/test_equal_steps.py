"""Series of runs of different length: compared at the last step that all print, beside their last values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import perflog
from perflog.analysis.compare import Comparison, Gate, failures


def json_lines(path: Path, steps: Iterable[dict[str, float]]) -> Path:
    path.write_text("".join(json.dumps(step) + "\n" for step in steps))
    return path


def losses(path: Path, last: int, every: int = 10, shift: float = 0.0, **more: float) -> Path:
    """A log whose loss at step n is 4 - n / 1000 + shift."""
    steps = range(0, last + 1, every)
    return json_lines(path, ({"step": n, "loss": 4 - n / 1000 + shift, **more} for n in steps))


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., Comparison]:
    def compare(base: list[Path], side: list[Path]) -> Comparison:
        return perflog.compare(*(f"a={path}" for path in base), *(f"b={path}" for path in side))

    return compare


def metrics(comparison: Comparison) -> dict[str, tuple[float, float]]:
    return {row.metric: (row.base_value, row.side_value) for row in comparison.row_records}


def test_a_loss_is_compared_at_the_last_shared_step(tmp_path: Path, compared: Callable[..., Comparison]) -> None:
    rows = metrics(compared([losses(tmp_path / "long", 2000)], [losses(tmp_path / "short", 1000, shift=0.5)]))
    assert list(rows) == ["loss at step 1000", "loss"]
    assert rows["loss at step 1000"] == pytest.approx((3.0, 3.5))
    assert rows["loss"] == pytest.approx((2.0, 3.5))


def test_runs_of_one_length_are_compared_by_their_last_values(
    tmp_path: Path, compared: Callable[..., Comparison]
) -> None:
    rows = metrics(compared([losses(tmp_path / "a", 500)], [losses(tmp_path / "b", 500, shift=0.1)]))
    assert list(rows) == ["loss"]
    assert rows["loss"] == pytest.approx((3.5, 3.6))


def test_figures_with_a_unit_have_no_value_at_a_step(tmp_path: Path, compared: Callable[..., Comparison]) -> None:
    """The clock of a speed run, and its mean step time."""
    line = "step:{0}/100 val_loss:{1:.4f} train_time:{0}000ms step_avg:1000.00ms\n"
    for name, last in (("long", 90), ("short", 50)):
        (tmp_path / name).write_text("".join(line.format(n, 4 - n / 100) for n in range(10, last + 1, 10)))
    rows = metrics(compared([tmp_path / "long"], [tmp_path / "short"]))
    assert [name for name in rows if "at step" in name] == ["val_loss at step 50"]
    assert {"train_time", "step_avg"} < rows.keys()


def test_the_shared_step_is_one_that_all_runs_print(tmp_path: Path, compared: Callable[..., Comparison]) -> None:
    rows = metrics(compared([losses(tmp_path / "a", 990, every=30)], [losses(tmp_path / "b", 1000, every=20)]))
    assert rows["loss at step 960"] == pytest.approx((3.04, 3.04))
    rows = metrics(compared([losses(tmp_path / "c", 990)], [json_lines(tmp_path / "d", [{"step": 7, "loss": 3.0}])]))
    assert list(rows) == ["loss"]  # no step in common


def test_a_run_that_stopped_early_shortens_no_other(tmp_path: Path, compared: Callable[..., Comparison]) -> None:
    base = [losses(tmp_path / f"a{i}", last, shift=i / 1e3) for i, last in enumerate((1000, 1000, 30))]
    side = [losses(tmp_path / f"b{i}", 2000, shift=0.5 + i / 1e3) for i in range(3)]
    comparison = compared(base, side)
    (row,) = (row for row in comparison.row_records if row.metric == "loss at step 1000")
    assert (row.base_runs, row.side_runs) == (2, 3)


def test_losses_alone_can_lead_and_be_gated(tmp_path: Path, compared: Callable[..., Comparison]) -> None:
    """Five runs a side, 1000 and 2000 steps: the last values differ by a third, those at the shared step by 10 %."""
    base = [losses(tmp_path / f"a{i}", 1000, shift=i / 1e3) for i in range(5)]
    side = [losses(tmp_path / f"b{i}", 2000, shift=0.3 + i / 1e3) for i in range(5)]
    comparison = compared(base, side)
    (headline,) = comparison.headlines
    assert headline.metric == "loss at step 1000" and headline.verdict == "regression"
    assert headline.change == pytest.approx(0.1, abs=1e-3)
    (failure,) = failures(comparison, [Gate(threshold=0.05)])
    assert failure.kind == "change"


def test_losses_do_not_lead_where_a_side_has_step_times(tmp_path: Path, compared: Callable[..., Comparison]) -> None:
    """A side that lost its step times must not pass the gate by its losses."""
    base = [losses(tmp_path / f"a{i}", 500, shift=i / 1e3, step_time_s=0.1) for i in range(5)]
    side = [losses(tmp_path / f"b{i}", 500, shift=i / 1e3) for i in range(5)]
    comparison = compared(base, side)
    assert not comparison.headlines
    (failure,) = failures(comparison, [Gate(threshold=0.05)])
    assert failure.kind == "cannot judge"


def test_sides_without_a_common_step_are_a_finding(tmp_path: Path, compared: Callable[..., Comparison]) -> None:
    """The later half of a run against the earlier one."""
    for name, first in (("a", 0), ("b", 50)):
        json_lines(tmp_path / name, ({"step": n, "loss": 3.0, "step_time_s": 0.1} for n in range(first, first + 50)))
    found = [row for row in compared([tmp_path / "a"], [tmp_path / "b"]).finding_records if row.side is None]
    assert [row.code for row in found] == ["comparison-other-steps"]
    assert found[0].message.startswith("no step is on both sides (a 0..49; b 50..99)")
    assert json.loads(found[0].evidence) == {"a": [0, 49], "b": [50, 99]}


def test_an_ignored_setting_that_no_run_has_is_told(tmp_path: Path) -> None:
    sides = [losses(tmp_path / name, 50, shift=shift) for name, shift in (("a", 0.0), ("b", 0.1))]
    assert any("no run has a setting `sede`" in text for text in perflog.compare(*sides, ignore=["sede"]).warnings)
