"""Contents of a report: its title, its plots, and which columns and settings are worth showing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from perflog.metrics import MetricColumn
from perflog.output.report.data import (
    FigureSource,
    MetricTable,
    PlotSketch,
    ReportData,
    all_numbers,
    differing_settings,
    informative_columns,
    range_text,
)
from perflog.output.report.sections import sections
from perflog.output.sheets import Quantity


def report(**fields: Any) -> ReportData:
    empty: dict[str, Any] = dict.fromkeys(ReportData.__struct_fields__, ())
    return ReportData(**empty | {"comparison": None} | fields)


def plot(name: str, weight: int = 0, *heights: int, columns: int = 1) -> PlotSketch:
    sketch: Any = SimpleNamespace(weight=weight, columns=columns, axes=[SimpleNamespace(height=h) for h in heights])
    return PlotSketch(name, "", "", "", sketch)


def test_the_title_names_what_is_compared_or_read() -> None:
    runs, names = [{"run": "a"}, {"run": "b"}], {"a": "first", "b": "second"}
    overview = SimpleNamespace(names=["x/../logs/"])
    logs = [SimpleNamespace(name="x/a.txt"), SimpleNamespace(name="x/b.txt")]
    usual: dict[str, Any] = {"runs": runs, "names": names, "overview": overview, "logs": logs}
    assert report(**usual).title == "2 logs in logs"
    assert report(**usual | {"logs": logs[:1]}).title == "a.txt"
    assert report(**usual | {"runs": runs[:1], "names": {"a": "first"}}).title == "first"
    sides = SimpleNamespace(by=[], sides=["main", "pr", "other"])
    assert report(**usual | {"comparison": sides}).title == "pr, other against main"
    by = SimpleNamespace(by=["batch", "lr"], sides=["8", "16"])
    assert report(**usual | {"comparison": by}).title == "batch, lr: 16 against 8"


def test_rows_and_places_of_runs() -> None:
    table = MetricTable("steps", "", "", "", rows=[{"run": "a"}])
    data = report(metrics=[table], runs=[{"run": "b"}, {"run": "a"}])
    assert data.rows_of("steps") == [{"run": "a"}] and data.rows_of("other") == ()
    assert data.places == {"b": 1, "a": 2}
    sources = [(FigureSource("a", "1"),), (FigureSource("b", "1"), FigureSource("a", "2")), (FigureSource("b", "3"),)]
    assert MetricTable("", "", "", "", sources=sources).first_rows == {"a": 0, "b": 1}


def test_plots_that_are_too_heavy_are_left_out() -> None:
    """The first ones up to 300 kB together; a heavy one hides no light one after it."""
    plots = [plot("a", 200_000), plot("b", 300_001), plot("c", 100_000), plot("d", 1), plot("e")]
    assert [each.name for each in report(plots=plots).light_plots] == ["a", "c", "e"]


def test_the_height_of_a_plot_is_that_of_its_rows_of_panels() -> None:
    assert plot("a", 0, 100, 200, 300).height == 600 + 3 * 70
    assert plot("a", 0, 100, 200, 300, columns=2).height == 400 + 2 * 70


def test_settings_that_differ() -> None:
    settings = [{"a": 1, "b": [1], "c": 1}, {"b": [2], "a": 1, "d": None}]
    assert differing_settings(settings) == ["b", "c"] and differing_settings(settings[:1]) == []


def test_columns_that_have_a_value() -> None:
    columns = [MetricColumn(name, brief=name != "hidden") for name in ("run", "time", "none", "hidden", "line", "zero")]
    usual: dict[str, Any] = dict.fromkeys((c.name for c in columns), 1)
    rows = [usual | {"none": None, "zero": 0, "time": value} for value in (None, 2)]
    assert [column.name for column in informative_columns(columns, rows)] == ["time", "zero"]
    assert informative_columns(columns, []) == ()


def test_ranges_and_numbers() -> None:
    assert [range_text(*ends) for ends in ((5, 5), (5, 9), (5, None))] == ["5", "5–9", "from 5"]
    assert all_numbers([1, 2.5, None, Quantity(1.0, "s")]) and all_numbers([])
    assert not all_numbers([1, True]) and not all_numbers([1, "2"])


def test_sections_have_an_order_and_content() -> None:
    """A section without a writer, or without content, is left out."""
    writers = {"runs": lambda _: "r", "overview": lambda _: "o", "plots": lambda _: "", "findings": lambda _: "f"}
    found = [(section.anchor, section.seen, text) for section, text in sections(report(), writers)]
    assert found == [("overview", True, "o"), ("findings", False, "f"), ("runs", False, "r")]
    every = dict.fromkeys(
        "lines definitions metrics more-plots plots comparison job runs findings overview".split(), lambda _: "x"
    )
    shown = [section for section, _ in sections(report(), every)]
    assert [section.anchor for section in shown if section.seen] == ["overview", "job", "comparison", "plots"]
    assert [section.anchor for section in shown[4:]] == "findings more-plots metrics runs definitions lines".split()


def test_how_many_of_the_runs_something_is_about() -> None:
    """The logs of other hosts of a job are no runs of their own."""
    groups = [SimpleNamespace(hosts=("b", "c")), SimpleNamespace(hosts=())]
    runs = [{"run": run} for run in "abcd"]
    alone = report(runs=runs, overview=SimpleNamespace(groups=groups[1:]))
    assert [alone.in_words(number) for number in (1, 4)] == ["1 of 4 runs", "all runs"] and alone.hosts == set()
    hosts = report(runs=runs, overview=SimpleNamespace(groups=groups))
    assert [hosts.in_words(number) for number in (1, 4)] == ["1 of 4 logs", "all logs"] and hosts.hosts == {"b", "c"}
