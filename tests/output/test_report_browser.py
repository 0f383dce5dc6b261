"""Reports in a real browser: they load in silence, tables sort, findings and figures lead to their proof."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import FOUND, Browser, browser
from support.paths import TESTS

import perflog
from perflog.output.report import collect, to_html
from perflog.units import show

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOUND is None, reason="needs Chromium on the PATH"),
]

DATA = TESTS / "data"
REPORTS = {
    "moe_layer": ("moe_layer.txt",),
    "training_sweep": ("training_sweep.txt",),
    "nvprof": ("nvprof.txt",),
    "pipeline_layers": ("pipeline_layers.txt",),
    "comparison": ("moe_layer.txt#1", "moe_layer_early.txt"),
}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("reports")
    for name, logs in REPORTS.items():
        written = to_html(collect(*(str(DATA / log) for log in logs)))
        (home / f"{name}.html").write_text(written, encoding="utf-8")
    return {name: home / f"{name}.html" for name in REPORTS}


UNFOLD = "document.querySelectorAll('details').forEach((fold) => { fold.open = true; })"

PLOTS = "[...document.querySelectorAll('svg.plot')]"
STEPS = "[...document.querySelectorAll('figure')].find((one) => one.querySelector('h3').textContent === 'Step times')"

WIDE = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1)"


@pytest.mark.parametrize("name", REPORTS)
def test_the_answers_take_at_most_six_screens_and_no_table_is_wider_than_the_page(
    tab: Browser, reports: dict[str, Path], name: str
) -> None:
    tab.open(reports[name], 1280, 800)
    assert tab.run("document.getElementById('details').getBoundingClientRect().top") <= 6 * 800
    tab.run(UNFOLD)
    assert tab.run(f"{WIDE}.map((box) => box.getAttribute('aria-label'))") == []


def test_no_table_of_traces_is_wider_than_the_page(tab: Browser, tmp_path: Path) -> None:
    """Names of kernels have up to 480 characters."""
    traces = sorted(map(str, (TESTS / "traces" / "excerpts").glob("*.json")))
    page = tmp_path / "traces.html"
    page.write_text(to_html(collect(*traces, draw=False)), encoding="utf-8")
    tab.open(page, 1280, 800)
    tab.run(UNFOLD)
    assert tab.run(f"{WIDE}.map((box) => box.getAttribute('aria-label'))") == []


def test_bars_of_the_waterfall_stand_above_their_figures_on_a_narrow_page(
    tab: Browser, reports: dict[str, Path]
) -> None:
    tab.open(reports["moe_layer"], 390)
    cells = "[...document.querySelectorAll('td.step')]"
    box = "getBoundingClientRect()"
    above = f"cell.querySelector('svg').{box}.bottom <= cell.querySelector('span').{box}.top + 1"
    assert tab.run(f"{cells}.length") > 5
    assert tab.run(f"{cells}.every((cell) => {above})")


def test_verdict_waterfall_and_findings_are_on_the_first_screen(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"], 1280, 800)
    assert tab.run("document.querySelectorAll('.doubts li').length") >= 3
    assert tab.run("document.querySelectorAll('.doubts li')[2].getBoundingClientRect().top") < 800


def test_the_filter_leaves_what_holds_its_text(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"])
    ask = "(filter.value = {!r}, filter.dispatchEvent(new Event('input')))"
    seen = "[...document.querySelectorAll('#details ~ section tbody tr')].filter((row) => row.checkVisibility())"
    assert tab.run(f"{seen}.length") == 0
    tab.run(ask.format("Gather_GEMM"))
    assert tab.run(f"{seen}.length") > 0
    assert tab.run(f"{seen}.every((row) => row.textContent.toLowerCase().includes('gather_gemm'))")
    tab.run(ask.format('"series"'))  # a word of the data of plots, which nobody reads
    assert not tab.run(
        "[...document.querySelectorAll('#details ~ section figure')].some((one) => one.checkVisibility())"
    )
    tab.run(ask.format("nothing has this text"))
    assert tab.run("[...document.querySelectorAll('#details ~ section')].every((part) => !part.checkVisibility())")
    tab.run(ask.format(""))
    assert tab.run(f"{seen}.length") == 0
    assert tab.run("document.getElementById('findings').checkVisibility()")
    tab.open(reports["training_sweep"])
    tab.run(ask.format("naive gpt2 16"))
    of_findings = "[...document.querySelectorAll('.finding tbody tr')].filter((row) => row.checkVisibility())"
    assert tab.run(f"{of_findings}.length") > 0
    assert tab.run(f"{of_findings}.every((row) => row.textContent.includes('naive gpt2 16'))")


def test_links_open_the_folded_part_that_they_lead_into(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"])
    tab.run("[...document.querySelectorAll('#overview a')].find((link) => link.hash === '#run-1').click()")
    seen = "document.getElementById('run-1').checkVisibility()"
    assert tab.run(f"new Promise((done) => setTimeout(() => done({seen}), 50))")


def test_pictures_fit_a_narrow_page_and_a_dark_screen_and_heads_print_as_words(
    tab: Browser, reports: dict[str, Path]
) -> None:
    tab.open(reports["moe_layer"], 390)
    tab.run(UNFOLD)
    assert tab.run("[...document.querySelectorAll('figure')].every((one) => one.scrollWidth <= innerWidth)")
    assert tab.run(f"{PLOTS}.every((plot) => plot.getBoundingClientRect().width > 120)")
    ink = "getComputedStyle(document.querySelector('svg.plot text')).fill"
    light = tab.run(ink)
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert tab.run(ink) != light
    tab.ask("Emulation.setEmulatedMedia", media="print", features=[])
    tab.open(reports["moe_layer"], 720)
    assert not tab.run("document.querySelector('#metrics > details').checkVisibility()")
    assert tab.run(f"{PLOTS}[0].checkVisibility()")
    assert not tab.run("document.querySelector('.tools').checkVisibility()")
    heads = "[...document.querySelectorAll('th')].filter((head) => head.checkVisibility())"
    words = f"{heads}.every((head) => head.offsetHeight < 20 * (1 + head.textContent.split(/\\s/).length))"
    assert tab.run(words)
    tab.ask("Emulation.setEmulatedMedia", media="", features=[])


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", REPORTS)
def test_it_loads_in_silence_and_fits(tab: Browser, reports: dict[str, Path], name: str, width: int) -> None:
    tab.open(reports[name], width)
    assert tab.told("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    asked = [told["request"]["url"] for told in tab.told("Network.requestWillBeSent")]
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    assert [url for url in asked if url.startswith("file:")] == [reports[name].as_uri()]
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.run("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")


def test_it_cannot_reach_the_network(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["nvprof"])
    assert tab.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    said = tab.told("Log.entryAdded")[0]
    assert "Content Security Policy" in said["entry"]["text"]


COLUMN = """(() => {
  const table = document.querySelector('[data-needs~=steps] table.sortable');
  const at = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === 'median');
  return [...table.tBodies[0].rows].map((row) => Number(row.cells[at].dataset.value));
})()"""
HEAD = "[...document.querySelectorAll('[data-needs~=steps] th')].find((head) => head.textContent === 'median')"


def test_tables_sort_by_value(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"])
    printed = tab.run(COLUMN)
    tab.run(f"{HEAD}.querySelector('button').click()")
    assert tab.run(COLUMN) == sorted(printed) != printed
    assert tab.run(f"{HEAD}.getAttribute('aria-sort')") == "ascending"
    tab.run(f"{HEAD}.querySelector('button').click()")
    assert tab.run(COLUMN) == sorted(printed, reverse=True)
    assert tab.run(f"{HEAD}.getAttribute('aria-sort')") == "descending"


def test_tables_sort_from_the_keyboard(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"])
    tab.run(UNFOLD)
    tab.run(f"{HEAD}.querySelector('button').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    assert tab.run(COLUMN) == sorted(tab.run(COLUMN))
    assert tab.run(f"{HEAD}.getAttribute('aria-sort')") == "ascending"


def test_every_column_of_every_table_sorts_with_what_is_missing_last(tab: Browser, reports: dict[str, Path]) -> None:
    code = """[...document.querySelectorAll('table.sortable')].flatMap((table) =>
      [...table.tHead.rows[0].cells].flatMap((head, at) => [1, -1].map((way) => {
        head.firstChild.click();
        const all = [...table.tBodies[0].rows].map((row) => row.cells[at].dataset.value);
        const shown = all.filter((v) => v !== undefined && v !== '').map(Number);
        return all.slice(shown.length).every((v) => v === undefined || v === '')
          && shown.every((v, i) => i === 0 || way * (v - shown[i - 1]) >= 0);
      })))"""
    for name in ("nvprof", "comparison"):
        tab.open(reports[name])
        done = tab.run(code)
        assert len(done) > 20 and all(done)


@pytest.mark.parametrize("name", REPORTS)
def test_findings_lead_to_what_proves_them(tab: Browser, reports: dict[str, Path], name: str) -> None:
    tab.open(reports[name])
    links = "[...document.querySelectorAll('.finding a')]"
    assert tab.run(f"{links}.length") > 0
    assert tab.run(f"{links}.filter((a) => !document.getElementById(a.hash.slice(1))).length") == 0
    tab.run(f"{links}[0].click()")
    assert tab.run("document.querySelector(':target') !== null")


def test_a_figure_tells_its_formula_window_and_lines(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"])
    tab.run(UNFOLD)
    tab.run("new Promise((done) => setTimeout(done, 50))")  # the parts tell that they are open
    tab.run("document.querySelector('[data-needs~=steps] tbody td[data-value]:not([data-value=\"\"])').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    told = tab.run("document.getElementById('source').innerText")
    for word in ("formula", "window", "lines", "example", "STEP-", "meaning"):
        assert word in told
    assert tab.run("document.querySelector('#source a.lines').hash.startsWith('#lines-steps')")
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key="Escape", code="Escape", windowsVirtualKeyCode=27)
    assert tab.run("document.getElementById('source').hidden")
    assert tab.run("document.activeElement.matches('td[data-value]')")


# --- plots ----------------------------------------------------------------------------------------------------------


def box(tab: Browser, element: str) -> tuple[float, float, float, float]:
    """Left, top, width and height of an element, which is brought into view."""
    code = f"(() => {{ const one = {element}; one.scrollIntoView({{ block: 'center' }}); return one; }})()"
    rectangle = f"(({{ x, y, width, height }}) => [x, y, width, height])({code}.getBoundingClientRect())"
    left, top, width, height = tab.run(rectangle)
    return left, top, width, height


def mouse(tab: Browser, x: float, y: float, kind: str = "mouseMoved", **more: Any) -> None:
    tab.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def press(tab: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if len(key) == 1 else {}))


TIP = "document.getElementById('tip').innerText"
PLOT = f"{STEPS}.querySelectorAll('svg.plot')"


def test_what_stands_under_the_pointer_is_the_value_of_the_table_with_its_line(
    tab: Browser, reports: dict[str, Path]
) -> None:
    steps = perflog.read(DATA / "moe_layer.txt").table("steps")
    tab.open(reports["moe_layer"])
    left, top, width, _ = box(tab, f"{PLOT}[0]")
    told = set()
    for part in np.linspace(0.02, 0.98, 12):
        mouse(tab, left + part * width, top + 60)
        step, value = re.findall(r"step (\d+)\nstep: ([\d.]+ \w+, line \d+)", tab.run(TIP))[0]
        told.add((int(step), value))
    first = steps[steps["run"] == steps["run"].iloc[0]]
    table = {(row["step"], f"{show(row['step_time_s'], 's')}, line {row['line']}") for row in first.to_dict("records")}
    assert len(told) > 2 and told <= table
    mouse(tab, 5, 5)
    assert tab.run("document.getElementById('tip').hidden")


def test_a_dragged_range_is_shown_on_all_plots_over_steps_and_a_button_shows_all(
    tab: Browser, reports: dict[str, Path]
) -> None:
    tab.open(reports["training_sweep"])
    ends = f"{PLOTS}.map((plot) => plot.querySelector('.curves').getAttribute('viewBox').split(' ').map(Number)[2])"
    whole = tab.run(ends)
    left, top, width, _ = box(tab, f"{PLOT}[0]")
    mouse(tab, left + 0.25 * width, top + 60, "mousePressed", button="left", clickCount=1)
    mouse(tab, left + 0.75 * width, top + 60, button="left", buttons=1)
    mouse(tab, left + 0.75 * width, top + 60, "mouseReleased", button="left", clickCount=1)
    zoomed = tab.run(ends)
    changed = [a != b for a, b in zip(whole, zoomed, strict=True)]
    over_steps = "plot.closest('.panel').querySelector('.x-name')?.textContent === 'step'"
    assert sum(changed) == tab.run(f"{PLOTS}.filter((plot) => {over_steps}).length")
    assert sum(changed) >= 2
    tab.run(f"[...{STEPS}.querySelectorAll('.tools button')].find((one) => one.textContent === 'Show all').click()")
    assert tab.run(ends) == whole


def test_plots_are_read_zoomed_and_switched_from_the_keyboard(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"])
    tab.run(f"{PLOT}[0].focus()")
    press(tab, "ArrowRight")
    first = tab.run(TIP)
    press(tab, "ArrowRight")
    assert "line" in first and tab.run(TIP) != first
    press(tab, "+")
    width = f"Number({PLOT}[0].querySelector('.curves').getAttribute('viewBox').split(' ')[2])"
    assert tab.run(width) == 5000
    press(tab, "0")
    assert tab.run(width) == 10000
    entry = f"[...{STEPS}.querySelectorAll('.legend button')].find((one) => one.textContent === 'step')"
    line = f"getComputedStyle({PLOT}[0].querySelector('.series')).display !== 'none'"
    assert tab.run(line)
    tab.run(f"{entry}.click()")
    assert not tab.run(line) and tab.run(f"{entry}.getAttribute('aria-pressed')") == "false"
    assert tab.run("document.getElementById('tip').getAttribute('role')") == "status"


def test_a_logarithmic_axis_has_the_values_where_they_belong(tab: Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["moe_layer"])
    path = f"{PLOT}[0].querySelector('.series path').getAttribute('d')"
    printed = tab.run(path)
    log = f"[...{STEPS}.querySelectorAll('.tools button')].find((one) => one.textContent === 'Log scale')"
    tab.run(f"{log}.click()")
    heights = [int(y) for y in re.findall(r"[ML]-?[\d.]+ (-?\d+)", tab.run(path))]
    data = json.loads(tab.run(f"{STEPS}.querySelector('script').textContent"))[0]
    values = np.log(next(iter(data["series"].values()))["y"])
    part = (values - values.min() + np.log(1.1)) / (values.max() - values.min() + 2 * np.log(1.1))
    assert heights == pytest.approx(list((1 - part) * data["height"] * 10), abs=1)
    tab.run(f"{log}.click()")
    assert tab.run(path) == printed


def test_plots_are_there_without_scripts(tab: Browser, reports: dict[str, Path]) -> None:
    tab.ask("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(reports["moe_layer"])
    tab.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.run(f"{PLOTS}.length") > 3
    assert tab.run("document.querySelector('.tools')") is None
    assert tab.run(f"{PLOT}[0].querySelectorAll('path').length") > 2
    assert tab.run("document.querySelector('svg.plot title').textContent")


def test_names_in_plots_are_text(tab: Browser, tmp_path: Path) -> None:
    text = (DATA / "nvprof.txt").read_text()
    kernel = re.search(r"volta_\w+", text)
    assert kernel
    hostile = "</script><img src=x onerror=document.title='hit'>"
    (tmp_path / "log.txt").write_text(text.replace(kernel[0], hostile))
    page = tmp_path / "page.html"
    page.write_text(to_html(collect(str(tmp_path / "log.txt"))), encoding="utf-8")
    tab.open(page)
    tab.run(UNFOLD)
    for k in range(tab.run(f"{PLOTS}.length")):
        left, top, width, height = box(tab, f"{PLOTS}[{k}]")
        for down in range(5, int(height) - 20, 20):
            mouse(tab, left + 0.02 * width, top + down)
    assert tab.told("Runtime.exceptionThrown", "Log.entryAdded") == []
    assert tab.run("document.title") != "hit" and tab.run("document.images.length") == 0


# --- notebooks --------------------------------------------------------------------------------------------------------

CELLS = """
<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>.output svg { max-width: 100%; height: auto } .output p { margin: 9px } h3 { color: red }</style>
<main></main>
<script>
  // As JupyterLab shows the HTML of a cell: its scripts are made anew, so that they run.
  function show(text) {
    const output = document.createElement("div");
    output.className = "output";
    output.innerHTML = text;
    for (const script of output.querySelectorAll("script")) {
      const made = document.createElement("script");
      for (const { name, value } of script.attributes) made.setAttribute(name, value);
      made.textContent = script.textContent;
      script.replaceWith(made);
    }
    document.querySelector("main").append(output);
  }
</script>
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("notebook") / "cells.html"
    page.write_text(CELLS, encoding="utf-8")
    return page


@pytest.mark.parametrize("width", [1280, 390])
def test_plots_of_a_notebook_answer_in_every_cell_over_one_range(tab: Browser, notebook: Path, width: int) -> None:
    log = perflog.read(DATA / "training_sweep.txt")
    tab.open(notebook, width)
    for shown in (log.select(1).plot.steps(), log.select(2).plot.steps(), log.select(1).plot.breakdown()):
        tab.run(f"show({json.dumps(shown._repr_html_())})")
    assert tab.told("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    assert tab.run("document.querySelectorAll('#tip').length") == 1
    heights = f"{PLOTS}.map((plot) => [plot.getBoundingClientRect().height, Number(plot.getAttribute('height'))])"
    assert all(seen == pytest.approx(printed) for seen, printed in tab.run(heights))
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    for cell, run in enumerate((1, 2)):
        steps = log.select(run).table("steps")
        left, top, wide, _ = box(tab, f"document.querySelectorAll('.output')[{cell}].querySelector('svg.plot')")
        mouse(tab, left + wide / 2, top + 60)
        step, value = re.findall(r"step (\d+)\nstep: ([\d.]+ \w+, line \d+)", tab.run(TIP))[0]
        (row,) = steps[steps["step"] == int(step)].to_dict("records")
        assert value == f"{show(row['step_time_s'], 's')}, line {row['line']}"
    assert tab.run("getComputedStyle(document.getElementById('tip')).position") == "fixed"
    tab.run(f"{PLOTS}[0].focus()")
    press(tab, "+")
    end = "Number(plot.querySelector('.curves').getAttribute('viewBox').split(' ')[2])"
    ends = f"{PLOTS}.slice(0, 2).map((plot) => {end})"
    assert tab.run(ends) == pytest.approx([5000, 5000])


def test_texts_of_a_log_do_nothing_in_a_notebook(tab: Browser, notebook: Path, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=window.hit=1></script><script>window.hit=1</script>"
    log = perflog.read(DATA / "training_sweep.txt", label=hostile)
    tab.open(notebook)
    for text in (log.plot.steps()._repr_html_(), log.plot.breakdown()._repr_html_(), log._repr_html_()):
        tab.run(f"show({json.dumps(text)})")
    assert tab.run("document.body.innerText").count("onerror") > 2
    assert tab.run("window.hit ?? 0") == 0


# --- timelines of traces ----------------------------------------------------------------------------------------------

TIMELINE = "[...document.querySelectorAll('figure')].find((one) => one.querySelector('h3').textContent.startsWith('Time"
TIMELINE += "line of')).querySelectorAll('svg.plot')"
HOSTILE = "<img src=x onerror=window.hit=1></script><script>window.hit=1</script>"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, perflog.Log]:
    """A page of a trace with short and long kernels, one of a hostile name; ranges have hostile names too."""
    events: list[dict[str, Any]] = []
    for step in range(12):
        at = 100_000 * step
        host = {"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation"}
        events.append({**host, "name": f"ProfilerStep#{step}", "ts": at, "dur": 90_000})
        events.append({**host, "name": HOSTILE, "ts": at + 10, "dur": 80_000})
        for k in range(200):
            launch = {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 3}
            number = {"args": {"correlation": 1000 * step + k + 1, "device": 0, "stream": 7}}
            kernel = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": HOSTILE if k == 100 else "gemm"}
            events.append({**launch, "ts": at + 40 * k + 20, **number})
            events.append({**kernel, "ts": at + 40 * k + 30, "dur": 30_000 if k == 199 else 20, **number})
    home = tmp_path_factory.mktemp("trace")
    (home / "trace.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    log = perflog.read(home / "trace.json")
    page = home / "page.html"
    page.write_text(to_html(collect(log)), encoding="utf-8")
    return page, log


def test_spans_of_a_timeline_say_what_their_row_says(tab: Browser, trace: tuple[Path, perflog.Log]) -> None:
    page, log = trace
    rows = perflog.metrics.trace_timeline(log)
    tab.open(page)
    assert tab.told("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    assert tab.run(f"{TIMELINE}.length") == rows["part"].nunique() == 2
    for place, (part, of_part) in enumerate(rows.groupby("part", sort=False)):
        of_stream = of_part[of_part["track"] == "stream 7"]
        assert (of_stream["events"] > 1).any() == (part == "trace")
        left, top, width, _ = box(tab, f"{TIMELINE}[{place}]")
        down = tab.run(f"window.perflogPanels.find((panel) => panel.svg === {TIMELINE}[{place}]).down"
                       f"({list(dict.fromkeys(of_part['track'])).index('stream 7')})")  # fmt: skip
        begin = of_part["begin_s"].min() if part == "step" else min(of_part["begin_s"].min(), 0)
        end = (of_part["begin_s"] + of_part["span_s"]).max()
        merged = of_stream[of_stream["events"] > 1].head(2 if part == "trace" else 0)
        for _, row in [*of_stream.nlargest(2, "span_s").iterrows(), *merged.iterrows()]:
            middle = (row["begin_s"] + row["span_s"] / 2 - begin) / (end - begin)
            mouse(tab, left + middle * width, top + down)
            said = tab.run(TIP).split("\n")
            assert said[0] == f"stream 7: {show(row['span_s'], 's')}"
            assert said[1] == f"{row['kind']}: {row['name']}"
            assert row["events"] == 1 or part == "trace"
            if row["events"] > 1:
                share = round(100 * row["time_s"] / row["span_s"])
                assert said[2] == f"{row['events']} events, {share} % of the time of this kind"


def test_a_timeline_is_zoomed_walked_and_switched(tab: Browser, trace: tuple[Path, perflog.Log]) -> None:
    tab.open(trace[0])
    path = f"{TIMELINE}[0].querySelector('.spans path')"
    printed = tab.run(f"{path}.getAttribute('d')")
    tab.run(f"{TIMELINE}[0].focus()")
    press(tab, "+")
    assert tab.run(f"{path}.getAttribute('d')") != printed
    labels = f"[...{TIMELINE}[0].querySelectorAll('.labels text')].map((text) => text.textContent)"
    assert "ProfilerStep#6" in tab.run(labels)
    press(tab, "ArrowRight")
    first = tab.run(TIP)
    press(tab, "ArrowDown")
    assert first.startswith("thread 1: ") and tab.run(TIP).startswith("thread 1, depth 1: ")
    entry = f"[...{TIMELINE}[0].closest('figure').querySelectorAll('.legend button')]"
    tab.run(f"{entry}.find((one) => one.textContent === 'range').click()")
    assert "ProfilerStep#6" not in tab.run(labels)
    link = tab.run(f"{TIMELINE}[0].closest('figure').querySelector('figcaption a[href^=https]').href")
    assert link == "https://ui.perfetto.dev/"


@pytest.mark.parametrize("width", [1280, 390])
def test_names_in_a_timeline_are_text(tab: Browser, trace: tuple[Path, perflog.Log], width: int) -> None:
    tab.open(trace[0], width)
    tab.run(UNFOLD)
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    tab.run(f"window.perflogPanels.find((panel) => panel.svg === {TIMELINE}[1]).show([0.2, 0.3])")
    assert tab.run(f"{TIMELINE}[1].textContent").count("<img src") > 0
    assert tab.run("window.hit ?? 0") == 0
    assert tab.run("document.querySelectorAll('img').length") == 0
