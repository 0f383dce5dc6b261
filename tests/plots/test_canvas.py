"""What all plots share: names of runs, panels, thinned curves, units and texts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from perflog.metrics import Options, Tables
from perflog.plots.drawing import canvas as module
from perflog.plots.drawing.canvas import (
    Canvas,
    axis_label,
    envelope,
    extremes,
    integer_ticks,
    is_null,
    legend,
    mark_beyond,
    plain,
    shade_warmup,
    shown_note,
    unit_of,
)
from perflog.plots.drawing.sketch import Sketch
from perflog.tables.schema import TABLES


def canvas(*runs: tuple[str, str | None], **fields: Any) -> Canvas:
    """A canvas for runs of these logs and labels."""
    usual = {c.name: None for c in TABLES["runs"]}
    logs = [log for log, _ in runs]
    rows = [
        usual | {"run": f"r{n}", "log": log, "log_sha256": log, "index": 1 + logs[:n].count(log), "label": label}
        for n, (log, label) in enumerate(runs)
    ]
    return Canvas("Title", Tables({"runs": pd.DataFrame(rows)}), Options(), **{"sketched": True, **fields})


def test_names_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The label, with the number of the run if several share it; without a label the number and the settings."""
    sweep = pd.DataFrame({"run": ["r1", "r1", "r0"], "factor": ["batch", None, "lr"], "value": ["8", "9", "1"]})
    monkeypatch.setattr(module, "get", lambda _: SimpleNamespace(table=lambda *_: sweep))
    three = canvas(("a.txt", "one"), ("a.txt", None), ("a.txt", "two"))
    assert [three.run_name(run) for run in ("r0", "r1", "r2")] == ["one", "#2, batch 8", "two"]
    assert canvas(("a.txt", "one"), ("b.txt", "one")).run_name("r1") == "one (b.txt)"
    assert canvas(("a.txt", "x" * 60)).run_name("r0") == "x" * 31 + "…" + "x" * 16


def test_names_of_logs() -> None:
    assert canvas(("x/a.txt", None), ("x/a.txt", None), ("y/b.txt", None)).logs == "a.txt, b.txt"
    assert canvas(*((f"x/{n}.txt", None) for n in range(3))).logs == "0.txt, 1.txt, 2.txt"
    assert canvas(*((f"x/y/{n}.txt", None) for n in range(4))).logs == "4 logs in y"
    assert canvas(*((f"/{n}.txt", None) for n in range(4))).logs == "4 logs"


@pytest.mark.parametrize(
    ("panels", "columns", "rows"), [(1, 1, 1), (2, 2, 1), (3, 2, 2), (8, 2, 4), (9, 3, 3), (12, 3, 4), (14, 3, 4)]
)
def test_panels_are_in_rows(panels: int, columns: int, rows: int) -> None:
    figure: Any
    figure, shown = canvas(("a", "a")).panels([str(n) for n in range(panels)], ["note"], panel_height=2.0)
    assert [title for title, _ in shown] == [str(n) for n in range(min(panels, 12))]
    assert len(figure.axes) == len(shown) and figure.columns == columns
    assert figure.width == pytest.approx(max(4.2 * columns, 7.5) + 1.2)
    assert figure.height == pytest.approx(2.0 * rows * (1.4 if rows == 1 else 1) + 1.0)
    assert figure.notes == ["note", *["12 of 14 panels are shown."] * (panels == 14)]
    column: Any
    below: Any
    column, below = canvas(("a", "a")).column_of_panels(8, 6, [1, 2])
    assert (len(below), column.columns) == (2, 1) and below[1].height > below[0].height


def test_a_figure_has_a_title_and_notes() -> None:
    drawn: Any = canvas(("a.txt", None), sketched=False, size=(4, 3)).figure(9, 9, ["note", "", "other"])
    assert drawn.get_suptitle() == "Title · a.txt" and drawn.get_supxlabel() == "note\nother"
    assert drawn.get_size_inches().tolist() == [4, 3]
    plain_figure: Any = canvas(("a.txt", None), sketched=False).figure(9, 8)
    assert plain_figure.get_size_inches().tolist() == [9, 8] and plain_figure.get_supxlabel() == ""


def test_how_many_points_a_line_may_have() -> None:
    page, figure = canvas(("a", "a")), canvas(("a", "a"), sketched=False)
    assert [page.most_points(lines) for lines in (0, 1, 2, 3, 250, 1000)] == [1500, 1500, 1500, 1000, 12, 12]
    assert figure.most_points(1000) == 1500


def test_a_thinned_curve_keeps_its_extremes() -> None:
    """Up to twice as many points all are kept; else the minimum and the maximum of each k."""
    y = np.array([3.0, 1.0, 2.0, 9.0, 5.0, 5.0, 7.0, 0.0, 4.0])
    assert (extremes(y, 5)[0].tolist(), extremes(y, 5)[1]) == (list(range(9)), 1)
    keep, k = extremes(y, 3)
    assert (keep.tolist(), k) == ([0, 1, 3, 4, 6, 7], 3)
    x, low_and_high, every = envelope(np.arange(0.0, 90.0, 10.0), y, 3)
    assert (x.tolist(), low_and_high.tolist(), every) == ([0, 10, 30, 40, 60, 70], [3, 1, 9, 5, 7, 0], 3)
    assert extremes(y[:6], 3)[1] == 1 and extremes(y[:7], 3)[1] == 3


def test_a_window_of_a_long_curve_is_in_detail() -> None:
    """The points inside, and one on each side."""
    x, y = np.arange(100.0), np.arange(100.0)
    for window, most, shown in (
        ((40.0, 42.0), 3, [39, 40, 41, 42, 43]), ((0.0, 1.0), 3, [0, 1, 2]), ((98.0, 120.0), 3, [97, 98, 99]),
        ((40.0, 42.0), 50, list(range(100))),
    ):  # fmt: skip
        keep, k = canvas(("a", "a"), window=window).thinned(x, y, most)
        assert (keep.tolist(), k) == (shown, 1)
    assert len(canvas(("a", "a")).thinned(x, y, 3)[0]) == 6
    assert len(canvas(("a", "a"), window=(200.0, 300.0)).thinned(x, y, 3)[0]) == 6
    keep, k = canvas(("a", "a"), window=(10.0, 20.0)).thinned(x, y, 3)
    assert (keep.tolist(), k) == ([9, 13, 14, 18, 19, 21], 5)


def test_units_and_labels() -> None:
    assert unit_of([0.001, -0.02, np.nan, np.inf], "s") == ("ms", 1e-3) == unit_of(np.array([[0.02]]), "s")
    assert unit_of([], "s")[0] == unit_of([np.nan], "s")[0] == unit_of([0.0], "s")[0]
    assert (axis_label("step time", "ms"), axis_label("loss", "")) == ("step time (ms)", "loss")
    assert (shown_note(2, 3, "runs"), shown_note(3, 3, "runs")) == ("2 of 3 runs are shown.", "")
    assert [is_null(value) for value in (None, np.nan, pd.NA, 0, "")] == [True, True, True, False, False]


def test_texts_of_logs_are_plain() -> None:
    assert plain(" a\n b\t$x$ ") == r"a b \$x\$"
    assert plain("µs\x1b\u4e2d") == "µs\ufffd\ufffd"
    assert plain("abcdefghij", 10) == "abcdefghij" and plain("abcdefghijk", 10) == "abcdef…ijk"
    assert plain("$" * 12, 10) == r"\$" * 6 + "…" + r"\$" * 3


def panel(columns: int = 1) -> Any:
    return Sketch(8, 4).subplots(1, columns)


def test_warm_up_is_shaded_once() -> None:
    axes, handles = panel(), dict[str, Any]()
    x = np.array([5.0, 6.0, 8.0])
    shade_warmup(axes, x, 0, handles)
    assert handles == {} and axes.marks == []
    shade_warmup(axes, x, 2, handles)
    shade_warmup(axes, x, 1, handles)
    (span,) = axes.marks
    assert (span.low, span.high, span.gid, handles) == (4.5, 7.0, "warmup", {"warmup": span})
    other = panel()
    shade_warmup(other, x, 3, handles)
    assert (other.marks[0].low, other.marks[0].high) == (4.5, 8.5) and handles["warmup"] is span


def test_points_above_the_axis_are_marked() -> None:
    """Up to two with their values, of more the largest; the value is on the side with room."""
    x, handles = np.arange(5.0), dict[str, Any]()
    axes = panel()
    mark_beyond(axes, x, np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 5.0, handles)
    assert axes.marks == [] and handles == {}
    mark_beyond(axes, x, np.array([1.0, 6.12345, 3.0, 4.0, 7.0]), 5.0, handles)
    points, *texts = axes.marks
    assert points.x.tolist() == [1.0, 4.0] and set(points.y.tolist()) == {0.97} and handles == {"beyond": points}
    assert [(text.text, text.x, text.across) for text in texts] == [("6.123", 1.0, "left"), ("7", 4.0, "right")]
    many = panel()
    mark_beyond(many, x, np.array([6.0, np.nan, 9.0, 7.0, 1.0]), 5.0, handles)
    assert [text.text for text in many.marks[1:]] == ["9"] and handles["beyond"] is points


def test_a_legend_needs_entries_and_ticks_are_integers() -> None:
    figure, axes = Sketch(8, 4), panel()
    legend(figure, [])  # type: ignore[arg-type]
    assert figure.handles == []
    integer_ticks(axes.xaxis)
    assert axes.xaxis.integer and not axes.yaxis.integer
