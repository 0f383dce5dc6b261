"""Rows belong to the header above them, whatever the chunks, and whatever other ranks write in between."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import DATA, LABELS, Reading, differences, labelled, read, write

from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.loader.format_file import load
from perflog.formats.registry import known
from perflog.formats.sample_checks import check_samples
from perflog.ingestion import pipeline
from perflog.parsing.match.ordered import header_rows
from perflog.parsing.match.scanner import Scanner

QUICK = examples(20)

# Tables whose rows have the same shape: only the header above tells what a row is.
HEADS = {
    "kernel": " Time (%)  Total Time (ns)  Instances  Avg (ns)  Name",
    "api": " Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Name",
    "range": " Time (%)  Total Time (ns)  Instances  Avg (ns)  Range",
}
RULE = " --------  ---------------  ---------  --------  ----"
ROW = re.compile(r" +([\d.]+) +(\d+) +(\d+) +([\d.]+)  (cuda\w+)")


def row(n: int) -> str:
    return f"{n % 100:9.1f}  {n * 1000:15d}  {n:9d}  {1000.0:8.1f}  cuda{n}"


BLOCKS = st.one_of(
    st.tuples(st.sampled_from(sorted(HEADS)), st.integers(0, 4)).map(
        lambda x: [HEADS[x[0]], RULE, *(row(n) for n in range(1, x[1] + 1))]
    ),
    st.sampled_from([["a line of another program"], [""], [row(77)], [RULE], [""], [row(5), "", row(6)]]),
)
DOCUMENTS = st.lists(BLOCKS, min_size=1, max_size=8).map(lambda x: [line for block in x for line in block])


def wanted(lines: list[str]) -> list[tuple[int, str, int, str]]:
    """Line, kind, calls and name of each row, by a loop over single lines."""
    found, kind = [], None
    for number, line in enumerate(lines, 1):
        head = next((k for k, text in HEADS.items() if line.strip() == text.strip()), None)
        if head is not None:
            kind = head
        elif kind and (match := ROW.fullmatch(line)):
            found.append((number, kind, int(match[3]), match[5]))
        elif line.strip() and not set(line) <= {"-", " "}:
            kind = None
    return found


def rows(got: Reading) -> list[tuple[int, str, int, str]]:
    return sorted((r["line"], r["kind"], r["calls"], r["name"]) for r in got.rows("kernels"))


def log(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@QUICK
@given(DOCUMENTS, st.integers(60, 400))
def test_rows_of_equal_shape_belong_to_the_header_above(lines: list[str], size: int) -> None:
    data = log(["Running [/opt/reports/nothing.py x.sqlite]...", *lines])
    want = [(n + 1, *rest) for n, *rest in wanted(lines)]
    whole, pieces = read(data), read(data, chunk=size)
    assert rows(whole) == want
    assert differences(whole.tables(), pieces.tables()) == []
    assert whole.done.lines == pieces.done.lines and whole.balances()
    owned = {n for n, *_ in want}
    orphans = [n for n, line in enumerate(data.decode().splitlines(), 1) if ROW.fullmatch(line) and n not in owned]
    unread = sum(x["count"] for x in whole.rows("lines") if x["status"] == "unread")
    others = data.count(b"another program") + loose_rules(lines)
    assert unread == len(orphans) + others


def loose_rules(lines: list[str]) -> int:
    """Number of rules that are neither under a header nor directly above one."""
    count, inside = 0, False
    for number, line in enumerate(lines):
        if any(line.strip() == text.strip() for text in HEADS.values()):
            inside = True
        elif line == RULE:
            above = number + 1 < len(lines) and lines[number + 1] in HEADS.values()
            count += not inside and not above
        elif line.strip():
            inside = inside and ROW.fullmatch(line) is not None
    return count


@QUICK
@given(st.lists(DOCUMENTS, min_size=1, max_size=3), st.sampled_from(LABELS), st.integers(300, 2000))
def test_each_labelled_rank_has_tables_of_its_own(documents: list[list[str]], label: bytes, size: int) -> None:
    """The lines of the ranks alternate; each rank gives the same rows as alone."""
    mixed = [(who, line) for turn in zip_longest(*documents) for who, line in enumerate(turn) if line is not None]
    data = b"Running [/opt/reports/nothing.py x.sqlite]...\n"
    data += b"".join(label % who + line.encode() + b"\n" for who, line in mixed)
    want = []
    for who, lines in enumerate(documents):
        positions = [n for n, (owner, _) in enumerate(mixed, 2) if owner == who]
        want += [(positions[n - 1], *rest) for n, *rest in wanted(lines)]
    assume(want)  # a log without rows is refused
    for options in ({}, {"chunk": size}):
        got = read(data, **options)
        assert rows(got) == sorted(want) and got.balances()


@pytest.mark.parametrize(
    "name", ["nsys_stats", "nsys_2019", "nvprof_csv", "nvprof_gpu_trace", "torch_profiler", "rocprof"]
)
def test_profiles_are_read_alike_in_all_ways(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks of a few lines, with threads, in a forked process, with rank labels, with CRLF."""
    data = (DATA / f"{name}.txt").read_bytes()
    whole = read(data)
    for options in ({"chunk": 1500, "threads": 1}, {"chunk": 2100, "threads": 3}):
        assert differences(whole.tables(), read(data, **options).tables()) == [], options
    monkeypatch.setattr(pipeline, "_LONG", 0)
    assert differences(whole.tables(), read(data, chunk=1800, processes=True).tables()) == []
    apart = ("run", "rank", "rank_by", "log_sha256", "sample", "shape", "label")
    with_label = read(labelled(data, b"%d: ", (3,)))
    assert with_label.done.lines == whole.done.lines
    for table in ("kernels", "events"):
        found = with_label.tables(*apart).get(table)
        assert found == whole.tables(*apart).get(table), table
    ends = read(data.replace(b"\n", b"\r\n"))
    assert differences(whole.tables("run", "log_sha256"), ends.tables("run", "log_sha256")) == []


def test_a_table_behind_much_of_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its format shows up after the part that detection reads, and after the process that scans was forked."""
    monkeypatch.setattr(pipeline, "_LONG", 0)
    moe = (DATA / "moe_layer.txt").read_bytes()
    data = moe * 12 + b"\n" + log([HEADS["kernel"], RULE, *(row(n) for n in range(1, 400))]) + moe
    for options in ({}, {"chunk": 1 << 14}, {"chunk": 1 << 14, "processes": True}):
        got = read(data, **options)
        assert [r[1:] for r in rows(got)] == [("kernel", n, f"cuda{n}") for n in range(1, 400)]
        assert got.done.formats == ["moe_layer", "nsys"] and got.balances()


def test_a_table_has_so_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_rows, "MAX_SHAPES", 2)
    lines = ["Name,Calls,TotalDurationNs,Percentage,MinNs", "f(),1,5,1,", "f(),1,5,,1", "f(),1,5,,", "f(),2,5,1,"]
    got = read(log(lines))
    assert sorted(r["line"] for r in got.rows("kernels")) == [2, 3, 5]
    assert got.done.lines == {"total": 5, "read": 4, "context": 0, "unread": 1}
    assert got.done.warnings == ["rows of table `stats` (rocprof) have more than 2 shapes: others stay unread"]


OWN = """
title  = "Own"
scopes = ["run", "op"]

[[line]]
name   = "note"
text   = "note of {_:w}s"
sample = "note of things"

[[table]]
name   = "own"
style  = "left"
table  = "collectives"
needs  = ["Op", "Size", "Time"]
among  = ["note"]
sample = '''
Op       Size     Time
broadcast
         2.0 KB   1.5ms
'''
[table.columns]
"Op"   = "{_:b}"
"Size" = "{bytes:z}"
"Time" = "{time:t}"

[[table.inner]]
name   = "op"
opens  = "op"
text   = "{op:w}"
sample = "broadcast"
"""


def own(folder: Path) -> Any:
    path = folder / "own.toml"
    path.write_text(OWN, encoding="utf-8")
    form = load(path)
    check_samples(form, known().values())
    return form


def test_lines_among_the_rows(tmp_path: Path) -> None:
    """`broadcast` is a line of the format only under the header."""
    table = [
        "Op       Size     Time",
        "broadcast",
        "         2.0 KB   1.5ms",
        "note of things",
        "         0B       2us",
    ]
    lines = [
        "broadcast",
        *table,
        "barrier",
        "",
        "         1B       1s",
        "that is all",
        "barrier",
        "         1B       1s",
    ]
    for size in (1 << 20, 60):
        got = read(log(lines), formats=[own(tmp_path)], chunk=size)
        found = [(r["line"], r["op"], r["bytes"], r["time_s"]) for r in got.rows("collectives")]
        assert found == [(4, "broadcast", 2048, 0.0015), (6, "broadcast", 0, 2e-6), (9, "barrier", 1, 1.0)]
        assert got.done.lines == {"total": 12, "read": 7, "context": 1, "unread": 4}


TABLES = [x for form in known().values() for x in form.families if isinstance(x, HeaderTable)]
SAMPLES = [block.strip("\n").splitlines() for table in TABLES if not table.is_first for block in table.blocks]
ODD = st.one_of(
    st.binary(max_size=60),
    st.text('",-=0123456789.%nan infKMGTs us\r\tfé', max_size=60).map(str.encode),
    st.sampled_from(
        [b'"' * 5, b"," * 40, b"1" * 400, b'"a,b', b"\r", b"- " * 40, b"nan  nan  nan  nan  nan", b"x" * 70_000]
    ),
)


@examples(20)
@given(st.sampled_from(SAMPLES), st.lists(ODD, max_size=5), st.data())
def test_whatever_stands_under_a_header_adds_up(sample: list[str], odd: list[bytes], data: st.DataObject) -> None:
    lines = [b"Running [/opt/reports/nothing.py x.sqlite]...", *(text.encode() for text in sample)]
    for line in odd:
        lines.insert(data.draw(st.integers(2, len(lines))), line.replace(b"\n", b""))
    lines.append(b"iter 340: loss 5.4983, time 337.52ms, mfu 0.96%")  # a log without any row is refused
    log = b"".join(line + b"\n" for line in lines)
    whole = read(log)
    assert whole.balances()
    pieces = read(log, chunk=200)
    assert pieces.balances() and differences(whole.tables(), pieces.tables()) == []


def test_a_warning_of_python_does_not_end_a_table() -> None:
    rows = [f"   {n}    4096    4096          7.1{n}          11.25     1.03x  (vs torch)" for n in range(4)]
    warning = ["/opt/x/env.py:286: UserWarning: the backend is new.", "  warn_once("]
    head = "   M       K       N   helion (us)     torch (us)   speedup"
    lines = [head, *warning, *rows[:2], *warning, *rows[2:], ""]
    values = read("\n".join(lines).encode()).rows("values")
    assert [value["line"] for value in values if value["key"] == "helion"] == [4, 5, 8, 9]


# --- titles above tables ---------------------------------------------------------------------------------------------


def test_a_title_gives_its_unit_to_the_columns_of_fractions_without_one() -> None:
    table = ("| size | nccl | speedup | lat | batch |", "|--|--|--|--|--|", "| 8 | 12.5 | 1.5 | 3.5 | 4 |", "")
    got = read(log(["## Bandwidth (GB/s)", "", "### verbs", *table, "Latency (us) by size", *table, "Others", *table]))
    numbers = [(row["line"], row["key"], row["value"], row["unit"]) for row in got.rows("values") if row["value"]]
    assert sorted(numbers, key=lambda number: number[:2]) == [
        (6, "batch", 4, None), (6, "lat", 3.5, None), (6, "nccl", 12.5, "GB/s"), (6, "size", 8, None),
        (6, "speedup", 1.5, None),
        (11, "batch", 4, None), (11, "lat", pytest.approx(3.5e-6), "s"), (11, "nccl", pytest.approx(12.5e-6), "s"),
        (11, "size", 8, None), (11, "speedup", 1.5, None),
        (16, "batch", 4, None), (16, "lat", 3.5, None), (16, "nccl", 12.5, None), (16, "size", 8, None),
        (16, "speedup", 1.5, None),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [24, 40, 64])
def test_a_title_with_a_unit_may_be_in_another_chunk(size: int) -> None:
    table = ("## Bandwidth (GB/s)", "", "### verbs", "", "| size | nccl |", "|--|--|", "| 8 | 12.5 |", "| 16 | 13.5 |")
    whole, cut = read(log([*table])), read(log([*table]), chunk=size)
    assert whole.tables() == cut.tables()
    assert {row["unit"] for row in whole.rows("values") if row["key"] == "nccl"} == {"GB/s"}


@pytest.mark.parametrize("size", [1 << 20, 90])
def test_a_title_between_rules_is_no_row_of_the_table_above(size: int) -> None:
    rule = "-" * 40
    blocks = [
        (rule, f"LEVEL: {n}", rule, "", "Metric         Old     New", rule, f"TTFT (ms)      1.5     {n}.5", "")
        for n in (2, 3)
    ]
    got = read(log([*blocks[0], *blocks[1]]), chunk=size)
    assert [row["text"] for row in got.rows("values") if row["key"] == "table_title"] == ["LEVEL: 2", "LEVEL: 3"]
    assert [row["value"] for row in got.rows("values") if row["key"] == "New"] == [2.5, 3.5]
    assert not any(row["status"] == "unread" for row in got.rows("lines"))


@pytest.mark.parametrize("label", ["{}: ", "[rank{}]:", "[default{}]:"])
def test_ranks_print_tables_between_each_others_rows(label: str) -> None:
    lines = [
        f"{label.format(rank)}{row}"
        for row in ("size    time(us)   MB/sec", "64      10.5       1.75", "256     11.5       14.5")
        for rank in (0, 1)
    ]
    got = read(log(lines))
    numbers = [(row["rank"], row["value"]) for row in got.rows("values") if row["key"] == "MB_sec"]
    assert sorted(numbers) == [(rank, pytest.approx(value * 1e-3)) for rank in (0, 1) for value in (1.75, 14.5)]


@pytest.mark.parametrize(
    ("upwards", "rules"),
    [
        (["----", "Title", "===="], {0, 2}),
        (["", "----", "", "Title", "----"], {1, 4}),
        (["----", "Title", "words"], set()),
        (["words", "Title", "----"], set()),
        (["----", "----", "----"], set()),
        (["----", "Title"], set()),  # a rule that is below a line alone may end what is above it
    ],
)
def test_rules_around_a_title(upwards: list[str], rules: set[int]) -> None:
    assert header_rows._rules_around(list(enumerate(upwards))) == rules


@pytest.mark.parametrize(
    ("lines", "waits"),
    [
        (["a", "----"], True),
        (["----", "Level: 2"], True),
        (["----", "Level: 2", ""], True),
        (["a", "", "Level: 2"], False),
        (["----", "step 1 | loss 2.5"], False),
        (["[rank0]:----"], True),
        ([""], False),
    ],
)
def test_the_end_of_a_batch_may_be_a_part_of_a_title(lines: list[str], waits: bool) -> None:
    (chunk,) = write(log(lines)).chunks()
    assert header_rows._may_end_in_title(Scanner(()).scan(chunk)) == waits
