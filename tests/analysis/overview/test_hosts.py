"""Jobs with a log for each host, in an overview."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perflog.analysis.lint import Finding
from perflog.analysis.overview import hosts as module
from perflog.analysis.overview.doubts import ENDED
from perflog.analysis.overview.run_figures import RunFigure
from perflog.log import RunKey

RUNS = {"a1": "a", "b1": "b", "b2": "b", "c1": "c", "d1": "d", "e1": "e"}
LOG: Any = SimpleNamespace(run_keys=[RunKey(run, run.upper(), f"{log}.txt", log, 1) for run, log in RUNS.items()])
HOSTS = {"b1": "a1", "b2": "a1", "d1": "c1"}


def figure(name: str, **values: float) -> RunFigure:
    return RunFigure(name, "s", "lower", values)


def test_how_far_the_hosts_of_a_job_are_apart() -> None:
    """A host counts for its own job; figures within 1 % agree, and a loss depends on when a host ended."""
    begin = "3 logs of one job (equal losses or times): A1, B1, B2. The figures are from A1"
    other = "2 logs of one job (equal losses or times): C1, D1. The figures are from C1."
    figures = [
        figure("step", a1=1.0, b1=1.0101, b2=0.9999, e1=9.0),
        figure("near", a1=1.0, b1=1.0099),
        figure("loss", a1=1.0, b2=3.0),
    ]
    figures += [figure("minus", a1=-2.0, b1=-1.0), figure("none", e1=1.0)]
    assert list(module.hosts_apart(LOG, figures, HOSTS)) == [
        f"{begin}; over all of them step 999.9 ms (B2) to 1.01 s (B1), minus -2 s (A1) to -1 s (B1).", other
    ]  # fmt: skip
    assert list(module.hosts_apart(LOG, [figure("x", a1=1.0, c1=1.0, d1=2.0)], HOSTS)) == [
        f"{begin}.", f"{other[:-1]}; over all of them x 1 s (C1) to 2 s (D1)."
    ]  # fmt: skip
    (many,) = module.hosts_apart(
        LOG, [figure(name, a1=1.0, b1=2.0) for name in "vwxyz"], dict.fromkeys(list(RUNS)[1:], "a1")
    )
    assert many == (
        "6 logs of one job (equal losses or times): A1, B1, B2, C1 and 2 more. The figures are from A1; over all "
        "of them v 1 s (A1) to 2 s (B1), w 1 s (A1) to 2 s (B1), x 1 s (A1) to 2 s (B1)."
    )
    assert list(module.hosts_apart(LOG, [], {})) == []


def found(code: str, run: str, message: str = "m") -> Finding:
    return Finding(run, message, {run: [7]}, {}, "warning", code)


def ending(run: str, text: str, proven: bool = True, goes_on: bool = False) -> Any:
    return SimpleNamespace(
        run=run, line=5, is_proven=proven, goes_on=goes_on, sentence_in=lambda log: f"{text} in {log}"
    )


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rule, run and message of the findings that remain."""

    def findings(*given: Finding, endings: tuple[Any, ...] = ()) -> list[tuple[str, str, str]]:
        monkeypatch.setattr(module, "endings", lambda _: endings)
        tables: Any = None
        return [(each.code, each.run, each.message) for each in module.findings_of_hosts(LOG, tables, given, HOSTS)]

    return findings


def test_a_finding_is_shown_once_for_a_job(shown: Any) -> None:
    """The run of the row has its own; another host is named if it alone has it, and only the first one."""
    assert shown(found("x", "a1"), found("x", "b1")) == [("x", "a1", "m")]
    assert shown(found("x", "b1"), found("x", "a1")) == [("x", "a1", "m")]
    assert shown(found("x", "b1"), found("x", "b2"), found("x", "d1"), found("y", "b2")) == [
        ("x", "b1", "B1: m"), ("x", "d1", "D1: m"), ("y", "b2", "B2: m")
    ]  # fmt: skip


def test_the_failures_of_all_hosts_ended_their_job(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "joined", lambda final: final[-1])
    ends = [ending("e1", "of no job"), ending("b1", "first"), ending("b2", "last"), ending("d1", "maybe", proven=False)]
    ends.append(ending("c1", "caught", goes_on=True))
    given = [found(ENDED, run) for run in ("a1", "b1", "b2", "d1", "e1")]
    assert shown(*given, endings=tuple(ends)) == [
        (ENDED, "b2", "Ended by last in B2"), (ENDED, "e1", "m"), (ENDED, "d1", "D1: m"),
    ]  # fmt: skip
    (found_of_host, *_) = module.findings_of_hosts(LOG, None, [], HOSTS)  # type: ignore[arg-type]
    assert found_of_host.lines == {"b2": [5]} and found_of_host.severity == "warning"
