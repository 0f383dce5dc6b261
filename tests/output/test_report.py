"""Reports: one file in which every figure leads to what it means and where it is from."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.jobs import Job, restarted
from support.paths import TESTS
from support.seeds import FILES, log, path

import perflog
from perflog import plots
from perflog.analysis.lint import findings
from perflog.cli.main import main
from perflog.metrics import METRICS, Options, Tables
from perflog.output.report import ReportData, collect, to_html, to_markdown
from perflog.output.report.bars import where_the_time_goes
from perflog.output.report.data import PlotSketch
from perflog.output.report.html.elements import breakable, tag, with_code
from perflog.output.report.html.metric_tables import rows_shown
from perflog.output.sheets import cell, escaped
from perflog.plots.drawing.sketch import Sketch

DATA = TESTS / "data"
NAMES = ("moe_layer", "moe_layer_early", "training_sweep", "nvprof", "pipeline_layers")
HOSTILE = "</script><script>alert('x')</script>|`<b onload=\"x\">"
WEIGHT = 600_000


@dataclass
class Element:
    """An element of a page, with the text inside it."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, name: str) -> Iterator[Element]:
        """Elements of that name, however deep inside."""
        for child in self.children:
            if child.name == name:
                yield child
            yield from child.all(name)

    def get(self, name: str) -> str:
        return self.attributes.get(name) or ""


class Page(HTMLParser):
    """A page as a tree; fails where elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Element("root", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in ("br", "img", "input", "meta", "wbr"):
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data


@cache
def subject(*names: str) -> ReportData:
    return collect(*(str(DATA / f"{name}.txt") for name in names))


@cache
def written(*names: str) -> str:
    return to_html(subject(*names))


@cache
def read(*names: str) -> Element:
    return Page(written(*names)).root


def check(text: str) -> Element:
    """What holds for every page."""
    root = Page(text).root
    ids = Counter(
        e.get("id")
        for name in ("section", "article", "aside", "div", "details", "h3", "tr", "dt", "path", "pattern")
        for e in root.all(name)
    )
    del ids[""]
    assert max(ids.values()) == 1
    links = [e.get("href") for e in root.all("a")]
    assert {href for href in links if not href.startswith("#") or href[1:] not in ids} == set()
    assert all(e.get("href").startswith("data:image/") for e in root.all("image"))
    assert not list(root.all("img"))
    assert not list(root.all("link")) and not list(root.all("iframe"))
    assert [e.get("type") for e in root.all("script") if e.get("type") != "application/json"] == ["", ""]
    assert all("<" not in e.text for e in root.all("script") if e.get("type"))
    assert len(list(root.all("style"))) == 1
    assert len(text.encode()) < WEIGHT
    return root


PAGES = [*((name,) for name in NAMES), ("moe_layer_early", "training_sweep"), ("moe_layer", "moe_layer_early")]


@pytest.mark.parametrize("names", PAGES, ids="+".join)
def test_a_page_needs_nothing_beside_it_and_its_links_lead_somewhere(names: tuple[str, ...]) -> None:
    check(written(*names))


@pytest.mark.parametrize("names", PAGES, ids="+".join)
def test_every_figure_leads_to_its_meaning_its_window_and_its_lines(names: tuple[str, ...]) -> None:
    root = read(*names)
    meanings = {e.get("id") for e in root.all("dt")}
    sections = [e for e in root.all("section") if "data-needs" in e.attributes]
    assert sections
    for section in sections:
        assert next(e.text for e in section.all("p") if e.get("class") == "formula").strip()
        windows = [e.text for e in section.all("td") if e.get("class") == "window"]
        assert any(windows) == bool(windows)
        assert windows or next(section.all("h3")).get("id") != "metric-steps"
        heads = list(next(section.all("thead")).all("th"))
        assert {e.get("data-of") for e in heads} - {""} <= meanings
        for row in next(section.all("tbody")).all("tr"):
            of_cells = zip(heads, row.all("td"), strict=True)
            assert all(head.get("data-of") for head, td in of_cells if "data-value" in td.attributes)
            assert any(e.get("data-value") for e in row.all("td"))
            assert [e for e in row.all("a") if e.get("class") == "lines"]


@pytest.mark.parametrize("name", NAMES)
def test_all_metrics_findings_and_pictures_are_in(name: str) -> None:
    one = perflog.read(DATA / f"{name}.txt")
    root, tables = read(name), Tables(one)
    anchors = {e.get("id") for e in root.all("h3")}
    assert anchors >= {f"metric-{m.name}" for m in METRICS.values() if len(m(tables))}
    found = {f"finding-{f.code}" for f in findings(tables)}
    assert {e.get("id") for e in root.all("article")} == found
    drawn = [next(figure.all("h3")).text for figure in root.all("figure")]
    possible = {plot.title: plot for plot in plots.possible(tables)}
    assert set(drawn) <= set(possible) and len(drawn) == len(set(drawn))
    for title in set(possible) - set(drawn):
        plot = possible[title]
        sketch = plot.sketched(plot.rows(tables, Options()), tables, Options())
        assert not sketch.is_informative


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_the_metrics_own_shown_as_everywhere(name: str) -> None:
    root = read(name)
    rows = {e.get("id"): e for e in root.all("tr")}
    heads = {}
    for section in (e for e in root.all("section") if "data-needs" in e.attributes):
        names = [e.get("data-of") for e in section.all("th")]
        heads[next(filter(None, names)).partition(".")[0]] = names
    for one in subject(name).metrics:
        for place, values in enumerate(one.rows[:3], 1):
            cells = zip(heads[one.name], rows[f"{one.name}-{place}"].all("td"), strict=True)
            shown = {head.rpartition(".")[2]: td.text for head, td in cells if td.get("data-value")}
            assert shown
            expected = {c.name: cell(values[c.name], c.unit) for c in one.columns if c.name in shown}
            assert shown == expected


def test_the_answers_come_first() -> None:
    """Bars whose shares are those of the metric, what holds the run up, three findings with links to their cards."""
    section = next(read("nvprof").all("section"))
    assert section.get("id") == "overview"
    parts = METRICS["breakdown"](perflog.read(DATA / "nvprof.txt"))["share"].tolist()
    bars = [float(bar.get("width")) / 100 for bar in section.all("rect")]
    assert bars == [pytest.approx(share, abs=1e-4) for share in parts if share >= 0.005]
    assert "Largest kernel: " in section.text
    links = [a.get("href").partition("-")[0] for a in section.all("a")]
    assert links == ["#run"] + ["#finding"] * 3 + ["#findings"]


def test_bars_of_the_waterfall_stand_end_to_end_and_are_those_of_the_metric() -> None:
    table = METRICS["waterfall"](perflog.read(DATA / "moe_layer.txt"))
    table = table[table["bar"] != "warm-up"]
    section = next(read("moe_layer").all("section"))
    page = next(e for e in section.all("table") if "unequal ranks" in e.text)
    lines = [list(row.all("td")) for row in page.all("tr")]
    cells = {line[0].text.removesuffix(" !"): line[1] for line in lines if line}
    reached = 0.0
    for bar, share, seconds in table[["bar", "of_steady", "time_s"]].itertuples(index=False, name=None):
        if bar in cells:
            (rect,) = cells[bar].all("rect")
            assert float(rect.get("x")) == pytest.approx(100 * reached, abs=0.01)
            assert float(rect.get("width")) == pytest.approx(100 * share, abs=0.01)
            assert cells[bar].get("data-value") == str(seconds)
        reached += share
    assert len(cells) > 5
    assert reached == pytest.approx(1)


def test_all_but_the_answers_is_folded() -> None:
    (body,) = read("moe_layer").all("main")
    ids = [child.get("id") for child in body.children]
    assert ids[:3] == ["overview", "plots", "details"]
    for section in body.children[3:-1]:
        (fold,) = section.children
        assert fold.name == "details" and "open" not in fold.attributes


def other(plot: PlotSketch, height: float = 300, bars: int = 3) -> PlotSketch:
    """The plot with bars of that height and number instead of what it shows."""
    sketch = Sketch(9, 4)
    panel = sketch.subplots()
    panel.barh(range(bars), [1.0] * bars)
    panel.height = height
    return PlotSketch(plot.name, plot.title, plot.caption, plot.metric, sketch)


def test_a_plot_is_seen_even_if_all_are_high() -> None:
    """The plot of a campaign, a matrix of nodes for each operation, is higher than a screen, and is the answer."""
    report = subject("moe_layer")
    high = replace(report, plots=[other(plot, height=3000) for plot in report.plots])
    plots_section = next(section for section in check(to_html(high)).all("section") if section.get("id") == "plots")
    assert [next(figure.all("h3")).text for figure in plots_section.all("figure")] == [report.plots[0].title]


def test_a_line_for_each_run_leads_to_its_details_and_counts_what_speaks_against_it() -> None:
    tables = Tables(perflog.read(DATA / "moe_layer.txt"))
    root = read("moe_layer")
    index = next(e for e in next(root.all("section")).all("table"))
    (*_, body) = index.children
    details = {e.get("id"): e for e in root.all("tr") if e.get("id").startswith("run-")}
    assert len(body.children) == len(details) == len(tables["runs"])
    for row, run in zip(body.children, tables["runs"]["run"], strict=True):
        (anchor,) = (a.get("href")[1:] for a in row.all("a"))
        codes = {f.code: f.severity for f in findings(tables) if run in (f.run, *f.lines)}
        assert run in details[anchor].text
        assert {code.text for code in details[anchor].all("code")} == {run, *codes}
        assert f"{list(codes.values()).count('warning')} warning" in row.text


def test_the_verdict_stands_above_all(tmp_path: Path) -> None:
    layer = DATA / "moe_layer.txt"
    one = collect(f"layer={layer}#1", f"early={DATA / 'moe_layer_early.txt'}", draw=False)
    first = next(Page(to_html(one)).root.all("section"))
    assert next(first.all("p")).text.startswith("Not the same work: backward / forward is ")
    times = re.compile(r"(moe forward duration: |forward:  |step_time = |foward_time = )([0-9.]+)")
    slower = times.sub(lambda m: f"{m[1]}{float(m[2]) * 1.5:.6f}", layer.read_text())
    (tmp_path / "new.txt").write_text(slower)
    two = collect(f"old={layer}", f"new={tmp_path / 'new.txt'}", draw=False)
    first = next(Page(to_html(two)).root.all("section"))
    verdict = "new against old: +50.0 % step time (+37.7 .. +63.4 %), slower: exploratory regression"
    assert next(first.all("p")).text.startswith(verdict)
    tree = next(e for e in first.all("table") if "moe_forward (untimed)" in e.text)
    (heads, body) = tree.children
    assert heads.text.startswith("where the difference went")
    assert [row.children[0].text for row in body.children][:4] == [
        "step_time",
        "forward",
        "moe_forward",
        "moe_forward (untimed)",
    ]


HEADINGS = re.compile(r"^(?:## |<details><summary>)(.+?)(?:</summary>)?$", re.MULTILINE)


@pytest.mark.parametrize("names", PAGES, ids="+".join)
def test_markdown_has_the_sections_and_the_answers_of_the_page_in_its_order(names: tuple[str, ...]) -> None:
    text, root = to_markdown(subject(*names)), read(*names)
    headings = [e.text for e in root.all("h2")]
    shown = [heading for heading in HEADINGS.findall(text) if heading in headings]
    assert shown == [heading for heading in headings if heading in shown]
    assert {"Findings", "Metrics", "Runs and logs"} <= set(shown)
    first = next(root.all("section"))
    plain = text.replace("\\", "")
    places = [plain.index(e.text) for e in first.all("p") if e.get("class") in ("verdict", "subject", "reason")]
    places += [plain.index(a.text) for a in first.all("a") if a.get("href").startswith("#finding-")]
    assert places == sorted(places) and places[-1] < plain.index("<details>")


def test_markdown_says_where_the_time_goes_before_the_details() -> None:
    text = to_markdown(subject("nvprof"))
    assert text.index("| gemm | ") < text.index("**Do not trust**") < text.index("<summary>Findings</summary>")


def test_several_findings_of_a_rule_are_one_card_with_a_row_for_each() -> None:
    made = subject("training_sweep")
    cards = {e.get("id"): e for e in read("training_sweep").all("article")}
    for doubt in made.overview.doubts:
        card = cards[f"finding-{doubt.code}"]
        rows = [row for body in card.all("tbody") for row in body.all("tr")]
        assert len(rows) == (len(doubt.findings) if len(doubt.findings) > 1 else 0)
        assert all(finding.message in row.text for finding, row in zip(doubt.findings, rows, strict=False))
    assert any(len(doubt.findings) > 1 for doubt in made.overview.doubts)


def test_each_run_shows_its_steady_step_first() -> None:
    made = subject("moe_layer")
    steps = next(one for one in made.metrics if one.name == "steps")
    steady = [r["median_s"] for r in steps.rows if (r["of"], r["part"]) == ("step_time", "steady")]
    table = written("moe_layer").split('aria-label="runs"')[1].split("</table>")[0]
    assert '<button type="button">step</button>' in table
    assert len(steady) == len(made.runs)
    assert all(f'data-value="{value}"' in table and cell(value, "s") in table for value in steady)


def test_raw_values_are_kept_for_sorting() -> None:
    table = METRICS["steps"](perflog.read(DATA / "moe_layer_early.txt"))
    raw = {e.get("data-value") for e in read("moe_layer_early").all("td")}
    assert {f"{v:.9g}" for v in table["median_s"]} <= raw


def test_findings_lead_to_their_lines_and_figures() -> None:
    for article in read("moe_layer").all("article"):
        links = [e for e in article.all("a") if e.get("class") == "lines"]
        assert links and all(re.fullmatch(r"\d+", e.text) for e in links)


def test_the_same_logs_give_the_same_page() -> None:
    assert to_html(collect(str(DATA / "moe_layer_early.txt"))) == written("moe_layer_early")


def test_nothing_may_be_fetched_and_only_this_script_may_run() -> None:
    policy = next(e.get("content") for e in read("nvprof").all("meta") if e.get("http-equiv"))
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy


# --- text from logs -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile in which a kernel and the program have names that are HTML and Markdown."""
    text = (DATA / "nvprof.txt").read_text()
    kernel = re.search(r"volta_\w+", text)
    assert kernel
    path = tmp_path_factory.mktemp("hostile") / "<img src=x>.txt"
    path.write_text(text.replace(kernel[0], HOSTILE).replace("./train_gpt2cu", f"./{HOSTILE}"))
    return path


def test_text_from_a_log_is_text(hostile: Path) -> None:
    text = to_html(collect(str(hostile)))
    root = check(text)
    assert HOSTILE in next(root.all("h1")).text
    assert any(e.text == HOSTILE for e in root.all("td"))
    assert "alert(" not in next(root.all("script")).text
    assert not any(name.startswith("on") for e in root.all("td") for name in e.attributes)


def test_text_from_a_log_is_text_in_markdown_too(hostile: Path) -> None:
    text = to_markdown(collect(str(hostile), draw=False))
    assert escaped(HOSTILE) in text
    assert "<script" not in text.replace("\\<script", "")
    assert set(re.findall(r"(?<!\\)</?(\w+)", text)) <= {"details", "summary"}


@given(st.text(alphabet=st.characters(exclude_categories=["C"]).filter(str.isprintable)))
def test_any_text_comes_back_from_text_and_attribute(text: str) -> None:
    (made,) = Page(tag("p", text, title=text)).root.children
    assert (made.text, made.get("title"), made.children) == (text, text, [])


def test_names_break_between_their_parts_and_numbers_do_not() -> None:
    assert breakable("num_experts=8: step 21.37 ms") == "num_<wbr>experts=8: step 21.37 ms"
    assert breakable("a/b_2&c.txt") == "a/<wbr>b_2&amp;c.<wbr>txt"


def test_prose_has_code_between_backticks() -> None:
    assert with_code("see `a < b`.") == "see <code>a &lt; b</code>."


@given(st.text(alphabet="ab_*<>|`[]~\\& "))
def test_markdown_has_no_markup_of_a_text(text: str) -> None:
    shown = escaped(text)
    assert re.sub(r"\\(.)", r"\1", shown) == text
    assert not re.search(r"[*<|`\[\]~&]", re.sub(r"\\.", "", shown))


# --- several runs -------------------------------------------------------------------------------------------------


def test_two_sides_are_compared() -> None:
    one = collect(f"layer={DATA / 'moe_layer.txt'}#1", f"early={DATA / 'moe_layer_early.txt'}", draw=False)
    root = check(to_html(one))
    assert next(root.all("h1")).text == "early against layer"
    assert {"metric-comparison", "metric-averages"} <= {e.get("id") for e in root.all("h3")}
    assert "early against layer" in to_markdown(one)


def test_runs_that_cannot_be_compared_are_reported_and_the_reason_told() -> None:
    one = collect(str(DATA / "nvprof.txt"), str(DATA / "pipeline_layers.txt"), draw=False)
    root = check(to_html(one))
    section = next(e for e in root.all("section") if e.get("id") == "comparison")
    assert section.text.startswith("ComparisonNot compared: ")
    assert len(one.runs) == 2
    assert "\nNot compared: " in to_markdown(one)


def test_runs_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    text = (DATA / "moe_layer_early.txt").read_text()
    path = tmp_path / "two.txt"
    path.write_text(text + text.replace("num_local_experts = 8", "num_local_experts = 16"))
    one = collect(str(path), draw=False)
    assert list(one.names.values()) == ["num_local_experts=8", "num_local_experts=16"]
    assert collect(str(path), by="num_local_experts", draw=False).title == "num_local_experts: 16 against 8"
    assert list(subject("moe_layer_early").names.values()) == ["moe_layer_early.txt"]
    assert next(iter(subject("training_sweep").names.values())) == "naive gpt2 16"
    (tmp_path / "other").mkdir()
    for name in ("moe_layer_early.txt", "csv.txt"):
        (tmp_path / "other" / name).write_text((DATA / name).read_text())
    report = collect(str(tmp_path / "other"), draw=False)
    table = where_the_time_goes(report)
    assert table is not None and len(report.runs) == 2
    (head,) = table.heads[1:]
    assert head.name.startswith(tuple(f"{name}: step" for name in report.names.values()))


def test_of_a_sweep_the_best_configuration_and_what_each_setting_does_come_first(tmp_path: Path) -> None:
    text = (DATA / "moe_layer_early.txt").read_text()

    def log(experts: int, top_k: int) -> str:
        of_run = text.replace("num_local_experts = 8", f"num_local_experts = {experts}")
        slower = 1 + 0.01 * experts + (0.1 if top_k == 4 else 0.0)
        of_run = of_run.replace("topK = 2", f"topK = {top_k}")
        return re.sub(r"step_time = ([0-9.]+)", lambda m: f"step_time = {float(m[1]) * slower:.3f}", of_run)

    for experts in range(1, 7):
        for top_k in (2, 4):
            (tmp_path / f"{experts}_{top_k}.txt").write_text(log(experts, top_k))
    error = "torch.OutOfMemoryError: CUDA out of memory."
    head = log(9, 2).splitlines()[0]
    (tmp_path / "9_2.txt").write_text(f"{head}\nTraceback (most recent call last):\n{error}\n")
    one = collect(str(tmp_path), draw=False)
    section = next(check(to_html(one)).all("section"))
    best = next(e.text for e in section.all("p") if e.get("class") == "reason")
    assert best.startswith("Best of 13 configurations: num_local_experts 1, top_k 2, ")
    configurations, settings, _ = section.all("table")
    rows = [[td.text for td in row.all("td")] for row in configurations.all("tr")][1:]
    assert [row[0] for row in rows[:2]] == ["num_local_experts 1, top_k 2", "num_local_experts 2, top_k 2"]
    assert rows[1][4] == "-0.98 %"  # 1.01 / 1.02 - 1
    assert rows[-1][:4] == ["num_local_experts 9, top_k 2", "0", "1", "-"]
    of_top_k = [[td.text for td in row.all("td")] for row in settings.all("tr") if "top_k" in row.text]
    assert [(row[1], row[3]) for row in of_top_k] == [("2", "base"), ("4", "-8.8 %")]
    assert (
        "Failed, without a figure: num_local_experts=9, top_k=2 (Ended by CUDA out of memory, line 2)." in section.text
    )
    assert "| what each setting does | value |" in to_markdown(one)
    (tmp_path / "other.txt").write_text(
        "".join(f"iter {i}: loss {9 - i}.5, time 20.00ms, mfu 1.00%\n" for i in range(9))
    )
    assert "Best of" not in to_markdown(collect(str(tmp_path), draw=False))  # runs of several programs
    configurations_only = [table for table in one.metrics if table.name != "factors"]
    assert "what each setting does" not in to_markdown(replace(one, metrics=configurations_only))


def test_tables_take_what_plots_leave_of_the_page() -> None:
    one = subject("moe_layer_early")
    heavy = [other(plot, bars=1300) for plot in one.plots]
    light, full = (rows_shown(replace(one, plots=plots)) for plots in ([], heavy))
    cells = {table.name: len(table.columns) + 3 for table in (*one.comparison_tables, *one.metrics)}
    assert all(full[name] <= light[name] for name in light)
    assert sum(rows * cells[name] for name, rows in light.items()) <= 6000


def test_heavy_pictures_are_left_out_and_the_rest_told() -> None:
    one = subject("moe_layer_early")
    heavy = [other(plot, bars=1500) for plot in one.plots]
    root = check(to_html(replace(one, plots=heavy)))
    assert len(list(root.all("figure"))) == 1
    assert f"{len(heavy) - 1} more: perflog plot RUN lists them" in {e.text for e in root.all("p")}


# --- the function -------------------------------------------------------------------------------------------------


def test_the_function_writes_what_it_returns(tmp_path: Path) -> None:
    log = perflog.read(DATA / "moe_layer_early.txt")
    page = perflog.report(log, output=tmp_path / "report.md", format="md")
    assert (tmp_path / "report.md").read_text("utf-8") == page == to_markdown(subject("moe_layer_early"))
    assert perflog.report(log, format="md", warmup=2) != page


def test_lines_are_whole_numbers_where_a_row_has_none(tmp_path: Path) -> None:
    line = ':::MLLOG {"namespace": "", "time_ms": %d, "event_type": "%s", "key": "%s", "value": null, "metadata": %s}\n'
    for name in "ab":
        start, stop = (
            (1000, "INTERVAL_START", "run_start", "{}"),
            (3000, "INTERVAL_END", "run_stop", '{"status": "success"}'),
        )
        (tmp_path / name).write_text(f"{line % start}{line % stop}{name}\n")
    one = collect(str(tmp_path), draw=False)
    times = next(table for table in one.metrics if table.name == "time_to_train")
    assert [[source.lines for source in sources] for sources in times.sources] == [["1–2"], ["1–2"], []]


def test_a_target_leads_the_verdict(tmp_path: Path) -> None:
    for name, slower in (("old", 1.0), ("new", 1.2)):
        lines = [{"step": s, "loss": 5 - 0.3 * s, "elapsed": 10 * s * slower} for s in range(1, 11)]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    one = collect(str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl"), options=Options(targets={"loss": 3.5}))
    first = next(e.text for e in next(Page(to_html(one)).root.all("section")).all("p"))
    assert " to loss 3.5" in first


def test_the_function_is_named_once() -> None:
    assert perflog.report is importlib.import_module("perflog.output.report").report  # no module of that name hides it
    assert {"output", "format", "by", "store", *Options.__dataclass_fields__} <= set(
        inspect.signature(perflog.report).parameters
    )


def test_warnings_about_logs_are_passed_on_and_told() -> None:
    log = perflog.read(DATA / "moe_layer_early.txt")
    log.warnings.append("the end is cut off")
    texts: list[str] = []
    page = perflog.report(log, format="md", on_warning=texts.append)
    assert texts == log.warnings
    assert "**Do not trust**\n\n- the end is cut off\n" in page
    with pytest.warns(UserWarning, match="the end is cut off"):
        perflog.report(log, format="md")


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path


def run(*args: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["report", *map(str, args)], prog_name="perflog")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def test_the_page_is_written(work: Path) -> None:
    assert run(DATA / "moe_layer_early.txt").stdout == "report.html\n"
    assert (work / "report.html").read_text() == written("moe_layer_early")
    assert run(DATA / "moe_layer_early.txt", "-o", "-").stdout == written("moe_layer_early")


def test_markdown_goes_to_standard_output(work: Path) -> None:
    text = run(DATA / "moe_layer_early.txt", "--format", "md").stdout
    assert text == to_markdown(subject("moe_layer_early"))
    assert text.startswith("# moe_layer_early.txt\n")
    assert list(work.iterdir()) == []


def test_options_of_metrics_are_heard(work: Path) -> None:
    run(DATA / "moe_layer_early.txt", "--warmup", "2", "-o", "two.html")
    assert (work / "two.html").read_text() != written("moe_layer_early")


def test_values_of_a_setting_are_compared(work: Path) -> None:
    run(DATA / "training_sweep.txt", "--by", "system", "-o", "by.html")
    assert "against naive" in next(Page((work / "by.html").read_text()).root.all("h1")).text


def test_errors_are_clear(work: Path) -> None:
    assert "no-such.txt" in run("no-such.txt", code=3).stderr
    assert "cannot be written" in run(DATA / "moe_layer_early.txt", "-o", "no/such/folder.html", code=3).stderr


# --- the five logs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_the_five_logs(name: str) -> None:
    one = collect(log(name), draw=False)
    check(to_html(one))
    assert sum(sum(x.lines.values()) for x in one.logs) == log(name).line_account["total"]


def test_printed_averages_of_other_windows_are_the_first_thing_told() -> None:
    sides = (f"{path('moe_layer')}#1", str(path("moe_layer_early")))
    text = next(e.text for e in check(to_html(collect(*sides, draw=False))).all("article"))
    assert "21.34 ms" in text and "22.85 ms" in text and "different steps" in text


def test_what_happened_to_the_job_has_a_section(tmp_path: Path) -> None:
    """The diagnosis, the failures by kind, the seconds by kind, and the strips of the timeline."""
    job = restarted()
    (tmp_path / "log.txt").write_text(job.text)
    report = collect(str(tmp_path / "log.txt"))
    markdown = to_markdown(report)
    section = markdown.partition("## What happened to the job")[2].partition("<details>")[0]
    assert (
        "| Verdict | The job recovered and went on to step 80 of 1,000; attempt 1 of 2 ended by a collective that "
        "timed out (ALLREDUCE after 300 s), line 65 |"
    ) in section
    assert "| a collective that timed out | #1 | 3 | 0, 1, 2 | 65–67 |" in section
    rows = dict(re.findall(r"^\| ([a-z]+) \| .* ([\d.]+) s \| [\d.]+ % \|$", section, re.MULTILINE))
    assert {kind: float(seconds) for kind, seconds in rows.items()} == pytest.approx(job.seconds, abs=2)
    page = Page(to_html(report))
    (place,) = [each for each in page.root.all("section") if each.get("id") == "job"]
    assert [next(figure.all("h3")).text for figure in place.all("figure")] == ["Timeline"]
    assert [next(figure.all("h3")).text for figure in page.root.all("figure")].count("Timeline") == 1


def test_a_job_that_goes_on_as_planned_has_no_section(tmp_path: Path) -> None:
    job = Job()
    job.start(10)
    job.steps(1, 60, 2.0)
    (tmp_path / "log.txt").write_text(job.text)
    report = collect(str(tmp_path / "log.txt"))
    assert 'id="job"' not in to_html(report)
    assert "What happened to the job" not in to_markdown(report)
