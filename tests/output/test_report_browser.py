"""Reports in a real browser: they load in silence, tables sort, findings and figures lead to their proof."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import FOUND, Browser, browser
from support.field_logs import needs_corpus
from support.paths import SHARED, TESTS

from perflog.output.report import collect, to_html

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

WIDE = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1)"


@pytest.mark.parametrize("name", REPORTS)
def test_the_answers_take_at_most_six_screens_and_no_table_is_wider_than_the_page(
    tab: Browser, reports: dict[str, Path], name: str
) -> None:
    tab.open(reports[name], 1280, 800)
    assert tab.run("document.getElementById('details').getBoundingClientRect().top") <= 6 * 800
    tab.run(UNFOLD)
    assert tab.run(f"{WIDE}.map((box) => box.getAttribute('aria-label'))") == []


@needs_corpus
def test_no_table_of_traces_is_wider_than_the_page(tab: Browser, tmp_path: Path) -> None:
    trace = str(SHARED / "corpus/torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{}.json.gz")
    page = tmp_path / "traces.html"
    page.write_text(to_html(collect(trace.format(0), trace.format(1), draw=False)), encoding="utf-8")
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
    assert tab.run("[...document.images].every((image) => image.getBoundingClientRect().width <= innerWidth)")
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert "invert" in tab.run("getComputedStyle(document.images[0]).filter")
    tab.ask("Emulation.setEmulatedMedia", media="print", features=[])
    tab.open(reports["moe_layer"], 720)
    assert not tab.run("document.querySelector('#metrics > details').checkVisibility()")
    assert tab.run("getComputedStyle(document.images[0]).filter") == "none"
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
    tab.run("document.querySelector('[data-needs~=steps] tbody td[data-value] a').focus()")
    tab.run("document.activeElement.click()")
    told = tab.run("document.getElementById('source').innerText")
    for word in ("formula", "window", "lines", "example", "STEP-", "meaning"):
        assert word in told
    assert tab.run("document.querySelector('#source a.lines').hash.startsWith('#lines-steps')")
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key="Escape", code="Escape", windowsVirtualKeyCode=27)
    assert tab.run("document.getElementById('source').hidden")
    assert tab.run("document.activeElement.matches('td[data-value] a')")
