"""What a notebook shows of an overview and of a comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.figure_rows import figure_row

from perflog.output.report.html.notebook_answers import comparison_html, overview_html


def overview(groups: int = 2, **fields: Any) -> str:
    class Shown(SimpleNamespace):
        def __repr__(self) -> str:
            return "<overview>"

    made = [
        SimpleNamespace(mark=f"M{n}", name="long M0" if n == 0 else "b", settings={"batch": f"{n}"})
        for n in range(groups)
    ]
    usual: dict[str, Any] = dict.fromkeys(("parts", "reasons", "doubts", "outcome", "next"), ()) | {
        "groups": made, "figures": [1], "base": {}, "differing_settings": ["batch"],
        "figure_column": lambda figure: ["step", *(f"{figure + n} s" for n in range(groups))],
        "change_column": lambda: ["change", *["+1 %"] * groups], "in_words": lambda doubt: f"told {doubt.code}",
    }  # fmt: skip
    shown: Any = Shown(**usual | fields)
    return overview_html(shown)


def test_an_overview() -> None:
    head = "<tr><td></td><td>batch</td><td>step</td></tr>"
    rows = "<tr><td>M0</td><td>0</td><td>1 s</td></tr><tr><td>M1 b</td><td>1</td><td>2 s</td></tr>"
    assert overview() == f"<p>&lt;overview&gt;</p><table>{head}{rows}</table>"
    with_changes = overview(base={1: 0})
    assert "<td>step</td><td>change</td></tr>" in with_changes and "<td>1 s</td><td>+1 %</td></tr>" in with_changes
    assert "<td>1 s</td><td>+1 %</td><td>2 s</td></tr>" in overview(base={1: 0}, figures=[1, 2])  # after the first
    assert overview(figures=[]) == "<p>&lt;overview&gt;</p>"
    assert overview(40).count("<tr>") == 41 and "more rows" not in overview(40)
    assert overview(42).count("<tr>") == 41 and "<p>and 2 more rows</p>" in overview(42)


def test_the_lists_of_an_overview() -> None:
    doubts = [SimpleNamespace(code="a", is_outcome=False), SimpleNamespace(code="b", is_outcome=True)]
    part = SimpleNamespace(name="forward", share=0.255, seconds=0.50649)
    text = overview(figures=[], outcome=["ended"], parts=[part], reasons=["r1", "r<2"], doubts=doubts, next=["do"])
    assert text.removeprefix("<p>&lt;overview&gt;</p>") == (
        "<p>First</p><ul><li>ended</li></ul><p>Where the time goes</p><ul><li>forward: 26 %, 506 ms</li></ul>"
        "<p>Reasons</p><ul><li>r1</li><li>r&lt;2</li></ul><p>Do not trust</p><ul><li>told a</li></ul>"
        "<p>Next</p><ul><li>do</li></ul>"
    )


def part(name: str, difference_s: float, depth: int = 0, kind: str = "phase") -> Any:
    return SimpleNamespace(
        part=name, kind=kind, depth=depth, base_s=1.0, side_s=1.0 + difference_s, difference_s=difference_s,
        share=difference_s, side="b", case="",
    )  # fmt: skip


def compared(**fields: Any) -> str:
    usual: dict[str, Any] = {
        "sides": ["a", "b"], "cases": [SimpleNamespace(name="")], "headlines": [], "attribution_records": [],
        "doubts": {}, "conclusion": "done", "by": [],
    }  # fmt: skip
    comparison: Any = SimpleNamespace(**usual | fields)
    return comparison_html(comparison)


def test_the_headlines_of_a_comparison() -> None:
    head = "".join(
        f"<th>{name}</th>"
        for name in ("case", "side", "metric", "figure", "base", "value", "change", "interval", "verdict")
    )
    row = figure_row(base_value=1.0, side_value=1.5, change=0.5, verdict="regression")
    text = compared(headlines=[row, figure_row(case="c")])
    assert text.startswith("<p>") and ": done</p>" in text
    assert f"<table><tr>{head}</tr><tr><td>-</td><td>side</td><td>step_time</td><td>median</td>" in text
    assert "<td>1 s</td><td>1.5 s</td><td>+50.0 %</td><td>-</td><td>regression</td></tr>" in text
    assert "<tr><td>c</td>" in text and "Where the difference went" not in text


def test_where_a_difference_went() -> None:
    """The whole first, then the parts that differ; not of one part alone, of several cases or of three sides."""
    parts = [part("step", 0.5), part("forward", 0.4, 1), part("alone", 0.3, kind="operator")]
    text = compared(attribution_records=parts)
    assert "<tr><td>step</td><td>1 s</td><td>1.5 s</td><td>500 ms</td><td>50 %</td></tr>" in text
    assert (
        "<tr><td>. forward</td><td>1 s</td><td>1.4 s</td><td>400 ms</td><td>40 %</td></tr>" in text
        and "alone" not in text
    )
    for more in ({"sides": ["a", "b", "c"]}, {"cases": [1, 2]}, {"attribution_records": parts[:1]}):
        assert "Where the difference" not in compared(**{"attribution_records": parts, **more})


def test_what_not_to_trust_names_its_sides() -> None:
    text = compared(doubts={1: ("few runs", ["a", "b"]), 2: ("slow", [])})
    assert text.endswith("<p>Do not trust</p><ul><li>few runs (a, b)</li><li>slow</li></ul>")
