"""Whether runs reach the values that the reader asks for, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.analysis.overview.facts import targets as module
from perflog.errors import UsageError
from perflog.metrics import Options, Tables

ROW: dict[str, Any] = {
    "run": "r", "key": "loss", "target": 3.2797, "reached": True, "better": "lower", "best": 3.27961, "best_step": 2000,
    "value": 3.2796, "step": 1000, "time_s": None, "samples": None,
}  # fmt: skip


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The sentences on these rows of metric `time_to_target`, of groups of so many runs."""

    def sentences(*rows: dict[str, Any], groups: tuple[int, ...] = (1,)) -> list[str]:
        runs = iter([f"r{n}" for n in range(9)])
        of = [SimpleNamespace(mark="AB"[n], runs=[next(runs) for _ in range(size)]) for n, size in enumerate(groups)]
        made = [ROW | {"run": f"r{at}"} | row for at, row in enumerate(rows)]
        monkeypatch.setattr(module, "time_to_target", SimpleNamespace(table=lambda *_: made))
        monkeypatch.setattr(module, "records", lambda table: table)
        tables: Any = None
        return list(module.targets_reached(tables, of, Options(targets={"loss": 3.2797})))  # type: ignore[arg-type]

    return sentences


def test_when_a_run_reaches_its_target(said: Any) -> None:
    assert said({}) == ["loss reaches 3.2797 at step 1,000, with 3.2796."]
    assert said({"time_s": 90.0}) == ["loss reaches 3.2797 at step 1,000 after 90 s, with 3.2796."]
    assert said({"time_s": 90.0, "samples": 3000.0})[0].endswith("at step 1,000 after 90 s, with 3.2796.")
    of_samples = {"step": None, "samples": 3000.0}
    assert said(of_samples) == ["loss reaches 3.2797 after 3,000 samples, with 3.2796."]
    assert said(of_samples | {"time_s": 90.0}) == [
        "loss reaches 3.2797 after 3,000 samples and after 90 s, with 3.2796."
    ]


def test_a_run_that_does_not_reach_it(said: Any) -> None:
    begin = "loss does not reach 3.2797: the best value is 3.27961"
    assert said({"reached": False}) == [f"{begin} at step 2,000."]
    assert said({"reached": False, "best_step": None}) == [f"{begin}."]
    assert said({"key": "other"}) == ["no two values of loss."]


def test_repeats_that_reach_it_are_counted(said: Any) -> None:
    no = {"reached": False, "best": 3.5}
    assert said({}, {}, groups=(2,)) == ["all 2 runs reach loss 3.2797."]
    assert said({}, no, groups=(3,)) == ["1 of 3 runs reaches loss 3.2797."]
    assert said({"time_s": 1.0}, {"time_s": 3.0}, no | {"time_s": 9.0}, groups=(3,)) == [
        "2 of 3 runs reach loss 3.2797, after 2 s on average."
    ]
    assert said({"time_s": 1.0}, {}, groups=(2,)) == ["all 2 runs reach loss 3.2797."]
    for better, best in (("lower", 3.5), ("higher", 4)):
        rows = [no | {"better": better}, no | {"better": better, "best": 4.0}]
        assert said(*rows, groups=(2,)) == [f"none of 2 runs reaches loss 3.2797; the best value is {best}."]
    assert said(groups=(2,)) == ["none of 2 runs reaches loss 3.2797."]


def test_groups_have_their_marks(said: Any) -> None:
    assert said({}, {}, {}, groups=(1, 2)) == [
        "A: loss reaches 3.2797 at step 1,000, with 3.2796.", "B: all 2 runs reach loss 3.2797."
    ]  # fmt: skip


def test_a_series_that_no_run_prints(said: Any) -> None:
    tables = Tables(by_hand("steps", [{"step": step, "loss": 1.0} for step in range(3)]))
    assert list(module.targets_reached(tables, [], Options())) == []
    with pytest.raises(UsageError, match="no run prints a series `vall_loss`"):
        list(module.targets_reached(tables, [], Options(targets={"vall_loss": 3.0})))
