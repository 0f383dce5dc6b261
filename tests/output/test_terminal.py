"""What reaches a terminal: no control characters, and no line wider than it is."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import EARLY, MOE, NVPROF, PIPELINE, SWEEP, run, told
from support.paths import ROOT
from support.trace_tables import by_hand, kernel, log, step

import perflog
from perflog.analysis.compare import Comparison
from perflog.analysis.compare.verdicts import without_exploratory
from perflog.output import column_widths, sheets, terminal
from perflog.output.presenters import compare as presenter
from perflog.output.presenters.metrics import metric_sheet
from perflog.output.sheets import Mark, Sheet, SheetColumn

ODD = "\x1b[31m\x1b]0;title\x07\x08\x9b2J\x7f\u202eevil\u2066\u200f\r"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

TEXTS = st.text(st.sampled_from("abc XY_/.=-09é中訓\u0301\x1b\u202e\n\t"), max_size=60)
ROLES: st.SearchStrategy[sheets.Role] = st.sampled_from(("", "", "detail", "verdict", "run"))


@st.composite
def tables(draw: st.DrawFn) -> Sheet:
    """Any table: columns of texts and figures in all roles, with titles and notes."""
    numbers = draw(st.lists(st.booleans(), min_size=1, max_size=14))
    columns = tuple(
        SheetColumn(draw(TEXTS) or "name", number=number, role="" if number else draw(ROLES)) for number in numbers
    )
    figures = st.none() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, width=32)
    row = st.tuples(*(figures if c.number else TEXTS.map(lambda t: t[:20]) for c in columns))
    rows = draw(st.lists(row, max_size=5))
    return Sheet("key", columns, rows, draw(TEXTS), draw(TEXTS), marks={"abc": Mark("#1", draw(TEXTS))})


@given(st.lists(tables(), min_size=1, max_size=3), st.integers(24, 200))
def test_no_line_is_wider_than_the_terminal(given_sheets: list[Sheet], width: int) -> None:
    for line in sheets.text(given_sheets, width):
        assert terminal.columns_of(line.text) <= width
        assert not UNSAFE.search(line.text)


@given(tables(), st.integers(24, 200))
def test_each_row_is_a_line_and_no_column_goes_without_need(table: Sheet, width: int) -> None:
    rows = list(table.rows)
    lines = [line.text for line in sheets.text([Sheet("key", table.columns, rows)], width)]
    if not rows:
        assert lines == []
        return
    whole = " ".join(lines[len(rows) + 1 :])
    needs = [
        max(terminal.columns_of(sheets.cell(v)) for v in (c.name, *(row[i] for row in rows)))
        for i, c in enumerate(table.columns)
    ]
    fits = sum(needs) + column_widths.GAP * (sum(map(bool, needs)) - 1) <= width
    assert len(lines) > len(rows)
    assert not (fits and whole)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=12), st.integers(20, 300))
def test_widths_add_up_and_the_first_columns_stay(columns: Sequence[tuple[int, int]], room: int) -> None:
    needs = [column_widths.Need(natural, column_widths.least_width(natural), rank) for natural, rank in columns]
    widths = column_widths.fit(needs, room)
    shown = [width for width in widths if width]
    if len([need for need in needs if not need.rank]) < room // 4:
        assert sum(shown) + column_widths.GAP * (len(shown) - 1) <= room
    for width, need in zip(widths, needs, strict=True):
        assert width <= need.natural
        assert width or need.rank or not need.natural


@given(TEXTS, st.integers(1, 50))
def test_cut_and_wrapped_texts_fit(text: str, columns: int) -> None:
    assert terminal.columns_of(terminal.cut(text, columns)) <= columns
    for line in terminal.wrapped(terminal.visible(text), max(columns, 4), " "):
        assert terminal.columns_of(line) <= max(columns, 4)


@given(st.text("ab cd", min_size=1).map(str.strip), st.integers(4, 30))
def test_a_wrapped_text_loses_nothing(text: str, columns: int) -> None:
    joined = "".join(terminal.wrapped(text, columns, "  ")).replace(" ", "")
    assert joined == text.replace(" ", "")


def test_a_verdict_stays_whole_where_names_are_cut() -> None:
    columns = (
        SheetColumn("metric"),
        SheetColumn("change", number=True, role="verdict"),
        *[SheetColumn("n", number=True)] * 9,
        SheetColumn("verdict", role="verdict"),
    )
    row = ("void very_long_kernel_name_with_arguments", "+37.2 %", *range(10**8, 10**8 + 9), "exploratory regression")
    _, line, note = (line.text for line in sheets.text([Sheet("some", columns, [row])], 80))
    assert line.endswith("exploratory regression") and "+37.2 %" in line
    assert "void " in line and "…" in line and "arguments" in line
    assert note == "no room for n, n, n, n, n, n, n: --wide shows all"


def test_text_that_is_no_terminal_is_whole() -> None:
    name = "x" * 300
    (line,) = sheets.text([sheets.pairs("some", [("name", name)])])
    assert line.text == f"name  {name}"


def test_runs_have_short_names_and_a_legend() -> None:
    marks = {f"af2e066f5279-{i}": Mark(f"#{i}", f"af2e066f5279-{i}, num_local_experts {8 * i}") for i in (1, 2)}
    rows = [(run, 0.02) for run in marks]
    table = Sheet("steps", (SheetColumn("run", role="run"), SheetColumn("median", "s", True)), rows, marks=marks)
    assert [line.text for line in sheets.text([table], 80)] == [
        "run  median",
        "#1    20 ms",
        "#2    20 ms",
        "#1: af2e066f5279-1, num_local_experts 8",
        "#2: af2e066f5279-2, num_local_experts 16",
    ]
    assert "af2e066f5279-1" in next(line.text for line in sheets.text([table]) if "20 ms" in line.text)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("log", [SWEEP, NVPROF])
def test_every_table_of_a_command_fits(log: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "width", lambda: width)
    commands = [["show"], ["show", "lines"], ["lint", "--all"], ["analyze", "--full"], ["detect"], ["plot"]]
    for command, *table in commands:
        out = run(command, log, *table).stdout
        assert [line for line in out.splitlines() if terminal.columns_of(line) > width] == []


def _two_traces() -> Comparison:
    """Two traces with long names, of a kernel with long arguments."""
    name = f"void {'very::' * 100}long_gemm<{'float, ' * 9}>(int)"
    sides = []
    for side, microseconds in (("before", 300), ("after", 400)):
        at = range(0, 8_000_000, 1_000_000)
        events = [step(i, start, start + 1_000_000) for i, start in enumerate(at)]
        events += [kernel(start, start + microseconds * 1000, name) for start in at]
        sides.append(log(by_hand(events), f"trace_of_a_long_name_{side}_the_change_of_rank-0"))
    return perflog.compare(*sides, draws=200)


@pytest.mark.parametrize(
    "compared",
    [
        lambda: perflog.compare("reference:moe_layer.txt", by="num_local_experts", draws=200),
        lambda: perflog.compare("reference:training_sweep.txt", by="system", draws=200),
        lambda: perflog.compare(PIPELINE, PIPELINE, draws=200),
        _two_traces,
    ],
    ids=["settings", "configurations", "layers", "traces"],
)
def test_a_whole_comparison_fits_and_keeps_its_verdicts(
    compared: Callable[[], Comparison], monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compared()
    verdicts = [row.verdict for row in comparison.row_records]
    for width in (80, 120):
        monkeypatch.setattr(terminal, "width", lambda width=width: width)
        lines = [line.text for line in sheets.text(list(presenter.comparison(comparison, "text", True)), width)]
        assert max(map(terminal.columns_of, lines)) <= width
        head = next(i for i, line in enumerate(lines) if line.endswith(("exploratory", "verdict")))
        shown = map(without_exploratory, verdicts) if lines[head].endswith("exploratory") else verdicts
        assert all(map(str.endswith, lines[head + 1 :], shown))


def test_long_names_of_sides_are_letters_on_a_terminal_and_whole_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = _two_traces()
    before, after = comparison.sides
    monkeypatch.setattr(terminal, "width", lambda: 80)
    lines = [line.text for line in sheets.text(list(presenter.comparison(comparison, "text", True)), 80)]
    assert lines[:4] == [f"A  {before}", f"B  {after}", "", "B against A: step_time: exploratory equivalent"]
    words = [line.split() for line in lines]
    assert ["long_gemm", "300", "us", "400", "us", "+33.3", "%", "-", *"1 run, 8 steps regression".split()] in words
    assert not any(before in line for line in lines[2:])
    monkeypatch.setattr(terminal, "width", lambda: None)
    lines = [line.text for line in sheets.text(list(presenter.comparison(comparison, "text", True)))]
    assert lines[0] == f"{after} against {before}: step_time: exploratory equivalent"


def test_a_metric_on_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "width", lambda: 80)
    lines = run("analyze", "reference:moe_layer.txt", "steps").stdout.splitlines()
    assert lines[:3] == [
        "step times",
        "  run  of         part      median      mean       max       p90  state",
        "  #1   step_time  all      21.3 ms  21.52 ms  37.12 ms  21.88 ms  fair",
    ]
    assert any(line.startswith("  no room for n, first_step, last_step, median_low") for line in lines)
    assert lines[-4].startswith("#1: ") and lines[-4].endswith("num_local_experts 8")


# --- errors and notes ---------------------------------------------------------------------------------------------


@pytest.fixture
def forty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_columns", lambda err: 40)


@pytest.mark.usefixtures("forty_columns")
def test_sentences_are_broken_between_words_but_commands_and_indented_lines_are_not() -> None:
    text = (
        "perflog: /a/very/long/path/of/a/log/that/nobody/can/read.txt: nothing in it is recognised, so type\n"
        "`perflog formats suggest run.txt` or this:\n"
        "  perflog ingest --guess /a/very/long/path/of/a/log.txt"
    )
    assert list(terminal.sentences(text)) == [
        "perflog:",
        "  /a/very/long/path/of/a/log/that/nobody/can/read.txt:",
        "  nothing in it is recognised, so type",
        "`perflog formats suggest run.txt` or",
        "  this:",
        "  perflog ingest --guess /a/very/long/path/of/a/log.txt",
    ]


@pytest.mark.usefixtures("forty_columns")
@pytest.mark.parametrize("place", [0, 20, 60])
def test_a_caret_stays_below_its_place(place: int) -> None:
    line = "".join(chr(ord("A") + i % 26) + str(i % 10) for i in range(40))
    shown, caret = terminal.sentences(f"{line}\n{' ' * place}^ expected a number")
    assert max(len(shown), len(caret)) <= 40
    assert caret.endswith("^ expected a number") and shown.startswith(line[:4]) is (place < 60)  # cut where needed
    assert shown[caret.index("^") :].startswith(line[place : place + 4])


def test_sentences_are_whole_where_nobody_reads_them_on_a_terminal() -> None:
    assert list(terminal.sentences("word " * 100)) == ["word " * 100]


@pytest.mark.usefixtures("forty_columns")
@pytest.mark.parametrize(
    ("words", "code"), [(["analyze", MOE, "stps"], 2), (["show", "nope.txt"], 3), (["compare", "--nope"], 2)]
)
def test_errors_of_commands_fit_the_terminal(words: list[str], code: int) -> None:
    lines = run(*words, code=code).stderr.splitlines()
    assert all(len(line) <= 40 or " " not in line.strip() for line in lines if not line.startswith(("Usage", "Try")))


# --- control characters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\u001b[31m"),
        ("\x9b", "\\u009b"),
        ("\x07\x08\x7f", "\\u0007\\u0008\\u007f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udc80", "\\udc80"),
        ("中\u0301 👩\u200d🔬\n\t", "中\u0301 👩\u200d🔬\n\t"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert terminal.visible(text) == shown


@pytest.fixture
def odd_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log whose name, label and lines hold control characters."""
    monkeypatch.chdir(tmp_path)
    path = Path(f"odd{ODD}.txt")
    path.write_text(Path(EARLY).read_text().replace("STEP-1:", f"who is {ODD} here\nSTEP-1:"))
    run("ingest", path, "--label", f"=cmd|{ODD}", "--store", "store")
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        ["overview"],
        ["show"],
        ["show", "steps"],
        ["lint"],
        ["analyze", "--full"],
        ["detect"],
        ["compare", MOE],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("form", ["text", "md", "csv", "json"])
def test_no_command_prints_control_characters(odd_log: str, command: list[str], form: str) -> None:
    words = ["show", odd_log, "steps"] if command == ["show", "steps"] else [*command, odd_log]
    done = run(*words, "--format", form)
    assert not UNSAFE.search(done.stdout) and not UNSAFE.search(done.stderr)


@pytest.mark.parametrize("command", [["formats", "suggest"], ["report", "--format", "md"], ["plot"]], ids=" ".join)
def test_no_command_of_one_form_prints_control_characters(odd_log: str, command: list[str]) -> None:
    done = run(*command, odd_log)
    assert not UNSAFE.search(done.stdout) and not UNSAFE.search(done.stderr)


def test_json_and_toml_read_the_escapes_back(odd_log: str) -> None:
    (row,) = told("runs", "--store", "store", "--format", "json")["rows"]
    assert row["label"] == f"=cmd|{ODD}" and row["log"] == odd_log
    assert tomllib.loads(run("formats", "suggest", odd_log).stdout)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", ODD], 3),
        (["overview", MOE, f"./{ODD}"], 3),
        (["report", f"--{ODD}"], 2),
        (["show", MOE, f"no{ODD}"], 2),
        (["analyze", MOE, ODD], 2),
    ],
)
def test_errors_show_names_as_escapes(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no store
    done = run(*words, code=code)
    assert "1b[31m" in done.stderr and not UNSAFE.search(done.stderr)


# --- what a spreadsheet would run -----------------------------------------------------------------------------------


def test_csv_guards_what_a_spreadsheet_would_run(odd_log: str) -> None:
    def label(*more: str) -> str:
        out = run("runs", "--store", "store", "--format", "csv", *more).stdout
        return next(csv.DictReader(io.StringIO(out, newline="")))["label"]

    assert label() == f"'=cmd|{terminal.visible(ODD)}"
    assert label("--raw") == f"=cmd|{ODD}"


@pytest.mark.parametrize(
    ("value", "cell"),
    [("=1+1", "'=1+1"), ("+cmd", "'+cmd"), ("-2+3", "'-2+3"), ("@SUM(A1)", "'@SUM(A1)"), (" =1", "' =1"),
     ("＝1", "'＝1"),
     ("-", "-"), ("-3", "-3"), ("+1.5e-3 %", "+1.5e-3 %"), ("a=b", "a=b"), (-3.5, -3.5), (None, None)],
)  # fmt: skip
def test_guarded_cells(value: object, cell: object) -> None:
    assert sheets.guarded(value) == cell


def test_exported_tables_are_guarded(odd_log: str) -> None:
    def label(*more: str) -> str:
        run("export", f"=cmd|{ODD}", "--store", "store", "--to", "csv", "-o", "tables", *more)
        with open("tables/runs.csv", encoding="utf-8", newline="") as file:
            return next(csv.DictReader(file))["label"]

    assert label() == f"'=cmd|{terminal.visible(ODD)}"
    assert label("--raw") == f"=cmd|{ODD}"


def test_a_report_is_what_its_file_name_says(tmp_path: Path) -> None:
    run("report", EARLY, "-o", tmp_path / "page.md")
    run("report", EARLY, "-o", tmp_path / "page.html")
    assert (tmp_path / "page.md").read_text().startswith("# ")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


# --- the one place --------------------------------------------------------------------------------------------------


def test_text_leaves_in_one_place() -> None:
    """Only `terminal.put` prints."""
    sources = [p for room in ("cli", "output") for p in (ROOT / "perflog" / room).rglob("*.py")]
    printing = [path.name for path in sources if re.search(r"\b(click\.(s?echo|secho)|print)\(", path.read_text())]
    assert printing == ["terminal.py"]


def test_kernels_of_a_trace_on_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their times and short names stand there, and the only rank and device make room for them."""
    long = "void at::native::%s_kernel<float, at::Args<int>, 4>(" + "float const*, " * 40 + "int)"
    names = [long % "copy", long % "add", "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*)"]
    events = [step(i, 10**6 * i, 10**6 * (i + 1)) for i in range(3)]
    events += [kernel(10**6 * i, 10**6 * i + 10**5 * (3 - i), name) for i, name in enumerate(names)]
    table = perflog.metrics.device_kernels(log(by_hand(events), "trace"))
    (metric,) = (metric for metric in perflog.metrics.METRICS.values() if metric.name == "device_kernels")
    monkeypatch.setattr(terminal, "width", lambda: 80)
    shown = metric_sheet(metric, table, "text")
    _, head, *rows = (line.text for line in sheets.text([shown], 80))
    assert "time" in head.split() and not {"rank", "device"} & set(head.split())
    by_name = [row.split()[-1] for row in rows if row.lstrip().startswith("name")]
    assert by_name == ["copy_kernel", "add_kernel", "AllReduce"]
    assert any(names[0] in row for row in metric_sheet(metric, table, "csv").rows)
    monkeypatch.setattr(terminal, "width", lambda: None)
    assert any(names[0] in row for row in metric_sheet(metric, table, "text").rows)


@pytest.mark.parametrize(
    ("text", "columns", "start", "cut"),
    [
        ("abcdef", 6, "abcdef", "abcdef"), ("abcdefg", 6, "abcdef", "abc…fg"), ("abcdefg", 5, "abcde", "ab…fg"),
        ("abc", 1, "a", "…"), ("abc", 0, "", ""), ("abc", -1, "", ""), ("中訓中訓", 8, "中訓中訓", "中訓中訓"),
        ("中訓中訓", 7, "中訓中", "中…中訓"), ("e\u0301e\u0301e", 2, "e\u0301e\u0301", "e\u0301…"),
    ],
)  # fmt: skip
def test_texts_in_so_many_columns(text: str, columns: int, start: str, cut: str) -> None:
    """A wide character takes two, one that combines with the letter before it none."""
    assert (terminal.start_of(text, columns), terminal.cut(text, columns)) == (start, cut)
    assert terminal.columns_of(text) == sum({"中": 2, "訓": 2, "\u0301": 0}.get(letter, 1) for letter in text)


@pytest.mark.parametrize(
    ("text", "columns", "left", "right"),
    [("ab", 4, "ab  ", "  ab"), ("ab", 2, "ab", "ab"), ("abcd", 3, "a…d", "a…d"), ("中", 3, "中 ", " 中")],
)
def test_padded_texts(text: str, columns: int, left: str, right: str) -> None:
    assert (terminal.padded(text, columns), terminal.padded(text, columns, right=True)) == (left, right)


@pytest.mark.parametrize(
    ("text", "columns", "indent", "lines"),
    [
        ("one two three", None, "", ["one two three"]), ("one two three", 13, "", ["one two three"]),
        ("one two three", 12, "", ["one two", "three"]), ("one two three", 7, "  ", ["one two", "  three"]),
        ("one two three", 6, "  ", ["one", "  two", "  thre", "  e"]), ("abcdefgh", 3, "", ["abc", "def", "gh"]),
        ("  one two", 6, "", ["  one", "two"]), ("ab  cd", 5, "", ["ab", "cd"]), ("abc", 1, "  ", ["abc"]),
        ("中訓 中", 3, "", ["中", "訓", "中"]),
    ],
)  # fmt: skip
def test_texts_are_broken_between_words(text: str, columns: int | None, indent: str, lines: list[str]) -> None:
    """A word that is longer than a line goes on in the next one."""
    assert list(terminal.wrapped(text, columns, indent)) == lines
