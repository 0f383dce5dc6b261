"""Lines of keys and values: what they say is what splitting them says, whatever their keys, chunks and ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import differences, read

from perflog.errors import FormatError
from perflog.formats import registry
from perflog.formats.families.key_value import PairSyntax
from perflog.formats.loader.format_file import load
from perflog.formats.model import Family, Format
from perflog.formats.registry import get
from perflog.formats.sample_checks import check_samples
from perflog.formats.template import Value

QUICK = examples(25)

OWN = """\
title  = "Key-value lines of three ways to write them"
source = "these tests"
scopes = ["run", "step"]

[[pairs]]
name   = "iteration"
table  = "steps"
head   = " round {step:4d}/{iterations:4d} |"
pair   = " {key}: {value} |"
needs  = ["elapsed (ms)"]
unit   = { step_time = "ms", memory = "GiB", memory_share = "%", mfu = "%", "*_loss" = "1" }
sample = " round    1/  20 | elapsed (ms): 15802.3 | lm loss: 1.082777E+01 | aux_loss: 3.5E-01 | mfu: N/A |"

[pairs.keys]
"elapsed (ms)" = "{step_time:.1f}"
"lm loss"      = "{loss:.6E}"
"memory"       = "{memory:.2f}GiB({memory_share:.2f}%)"
"mfu"          = ["{mfu:.2f}%", "{_:S}"]
"*_loss"       = "{*:.1E}"

[[pairs]]
name   = "timers"
table  = "phases"
head   = "times (ms)"
pair   = " | {key}: {value}"
unit   = { "*" = "ms" }
sample = "times (ms) | forward-compute: 2868.44 | backward: 5554.67"

[pairs.keys]
"*" = "{*:.2f}"

[[pairs]]
name   = "metrics"
table  = "values"
head   = "{_:S} metrics "
pair   = "{key}={value}, "
tail   = "done"
sample = "12:30:05 metrics lr=1e-05, tps=10,050, note=warm up, done"
"""


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Format:
    path = tmp_path_factory.mktemp("formats") / "own.toml"
    path.write_text(OWN, encoding="utf-8")
    found = load(path)
    check_samples(found, registry.known().values())
    return found


# --- the same by splitting ------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-99999, 99999).map(str),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.3f}"),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.4E}"),
    st.floats(0, 1e9).map(lambda x: f"{x:,.1f}"),
    st.sampled_from(["nan", "inf", "-inf", "NaN", "0", ".5", "5.", "1e-5", "+3"]),
)
WORDS = st.sampled_from("N/A,abc,1/20,0:00:05,3.5GiB,a b,1.2.3,e5,naan,in,-,é,12 %".split(","))
KEYS = st.sampled_from(
    ["params norm", "loss scale", "GPU:0", "tps (1/s)", "lr", "rank", "line", "step", "lm-loss", "1st"]
)
FIGURE = re.compile(r"[+-]?(\d[\d,]*\.?\d*([eE][+-]?\d+)?|\.\d+|nan|inf)", re.IGNORECASE | re.ASCII)


@st.composite
def values(draw: st.DrawFn, key: str) -> str:
    """A value of a key, as a program could print it."""
    own = {
        "elapsed (ms)": st.floats(0, 1e5).map(lambda x: f"{x:.1f}"),
        "lm loss": st.floats(0, 20).map(lambda x: f"{x:.6E}"),
        "memory": st.integers(0, 99).map(lambda x: f"{x}.25GiB(3.50%)"),
        "mfu": st.sampled_from(["N/A", "13.99%", "0.50%"]),
    }
    return draw(st.sampled_from([" ", "  ", "     "])) + draw(own.get(key, st.one_of(NUMBERS, WORDS)))


@st.composite
def iterations(draw: st.DrawFn, most: int = 1) -> list[str]:
    """Lines of `iteration` with the same keys, some declared and some not, in any order, with values of any kind."""
    keys = ["elapsed (ms)", *draw(st.lists(KEYS, max_size=6, unique=True))]
    keys = draw(st.permutations(keys))
    return [
        f" round {draw(st.integers(1, 9999)):4d}/  20 |" + "".join(f" {k}:{draw(values(k))} |" for k in keys)
        for _ in range(draw(st.integers(1, most)))
    ]


LOGS = st.lists(iterations(), min_size=1, max_size=10).map(lambda found: [line for one in found for line in one])


def split(line: str) -> dict[str, float | str]:
    """What a line of `iteration` says, by splitting it: field or key -> value as printed."""
    said: dict[str, float | str] = {}
    for pair in line.rstrip().rstrip("|").split("|")[1:]:
        key, _, text = pair.rpartition(": ") if ": " in pair else pair.partition(":")
        key, text = key.strip(), text.strip()
        if key == "memory":
            said["memory"], said["memory_share"] = float(text.split("GiB")[0]), float(text.split("(")[1][:-2])
        elif key == "mfu":
            if text != "N/A":
                said["mfu"] = float(text[:-1])
        else:
            said[key] = float(text.replace(",", "")) if FIGURE.fullmatch(text) else text
    return said


COLUMNS = {
    "elapsed (ms)": ("step_time_s", 1e-3),
    "lm loss": ("loss", 1.0),
    "mfu": ("mfu", 0.01),
    "memory": ("memory_bytes", 2.0**30),
}
NAMED = {
    "memory_share": ("memory_share", 0.01),
    "rank": ("rank", 1.0),
    "line": ("line", 1.0),
    "step": ("step", 1.0),
}


def expected(lines: list[str]) -> tuple[dict[tuple[int, str], float], dict[tuple[int, str], float | str]]:
    columns, values = {}, {}
    for number, line in enumerate(lines, 1):
        for key, value in split(line).items():
            if key in COLUMNS:
                name, factor = COLUMNS[key]
                columns[number, name] = float(value) * factor
            else:
                name = re.sub(r"[^A-Za-z0-9_]+", "_", key).strip("_")
                name, factor = NAMED.get(key, (f"_{name}" if name[0].isdigit() else name, 1.0))
                values[number, name] = value * factor if isinstance(value, float) else value
    return columns, values


@QUICK
@given(lines=LOGS)
def test_what_is_read_is_what_splitting_says(form: Format, lines: list[str]) -> None:
    log = "".join(f"{line}\n" for line in lines).encode()
    got = read(log, formats=[form])
    assert got.done.lines["read"] == len(lines)
    columns, values = expected(lines)
    names = [name for name, _ in COLUMNS.values()]
    told = {(r["line"], n): r[n] for r in got.rows("steps") for n in names if r[n] is not None}
    assert repr(sorted(told.items())) == repr(sorted(columns.items()))
    rows = {(r["line"], r["key"]): r["text"] if r["text"] is not None else r["value"] for r in got.rows("values")}
    rows = {k: v for k, v in rows.items() if k[1] != "iterations"}
    assert repr(sorted(rows.items())) == repr(sorted(values.items()))


@QUICK
@given(lines=LOGS, size=st.sampled_from([1, 100, 300]))
def test_chunks_do_not_matter(form: Format, lines: list[str], size: int) -> None:
    log = "".join(f"{line}\n" for line in [*lines, "other", *lines[:3]]).encode()
    whole = read(log, formats=[form])
    assert differences(whole.tables(), read(log, formats=[form], chunk=size).tables()) == []
    assert whole.balances()


@QUICK
@given(lines=iterations(most=4))
def test_a_line_reads_nothing_but_its_own(form: Format, lines: list[str]) -> None:
    """What Lines of one text read of another, the first of them reads as the Lines of that one do."""
    family = form.families[0]
    for one in lines:
        for two in lines:
            found = [x.template.match(two) for x in (*family.lines(one), *family.lines(two))]
            assert len({repr(values) for values in found[:1] if values is not None} | {repr(_first(family, two))}) == 1


def _first(family: Family, text: str) -> Mapping[str, Value] | None:
    return next(v for x in family.lines(text) if (v := x.template.match(text)) is not None)


PIECES = [
    b" round    1/  20 |", b" elapsed (ms): 1.5 |", b" lm loss: 1.0E+00 |", b" x: ", b" |", b": ", b"\xff", b"\n",
    b"times (ms)", b" | a: 5", b"12:00 metrics ", b"a=1, ", b"done", b"{", b"}", b"\x1b[1m", b"\r", b"[rank1]:",
    b" mfu: N/A |",
]  # fmt: skip


@QUICK
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=40).map(b"".join))
def test_any_bytes_are_accounted_for(form: Format, data: bytes) -> None:
    log = b" round    1/  20 | elapsed (ms): 1.5 |\n" + data
    got = read(log, formats=[form], chunk=50)
    assert got.balances()
    assert differences(got.tables(), read(log, formats=[form]).tables()) == []


def test_a_value_is_read_in_the_first_way_that_fits_whatever_came_first(form: Format) -> None:
    line = b" round    %d/  20 | elapsed (ms): 1.5 | mfu: %s |\n"
    rows = read(line % (1, b"N/A") + line % (2, b"9.50%"), formats=[form]).rows("steps")
    assert {r["step"]: r["mfu"] for r in rows} == {1: None, 2: 0.095}


def test_timers_are_phases_in_the_unit_of_their_glob(form: Format) -> None:
    log = b"times (ms) | forward-compute: 2868.44 | back ward: 10.00\n[rank3]:times (ms) | optimizer: 1.00\n"
    rows = [(r["phase"], r["time_s"], r["rank"]) for r in read(log, formats=[form]).rows("phases")]
    assert rows == [("forward_compute", 2.86844, None), ("back_ward", 0.01, None), ("optimizer", 0.001, 3)]


def test_a_separator_that_values_hold(form: Format) -> None:
    """Commas of thousands, and a colon in a time of day, separate nothing."""
    rows = read(b"12:30:05 metrics lr=1e-05, tps=10,050, note=warm up, done\n", formats=[form]).rows("values")
    assert [(r["key"], r["value"], r["text"]) for r in rows] == [
        ("lr", 1e-05, None), ("tps", 10050.0, None), ("note", None, "warm up"),
    ]  # fmt: skip


# --- the loader -------------------------------------------------------------------------------------------------------

# what is changed to what, reason, help; the place is that of the change, or a number of lines above it
BROKEN = [
    ('pair   = " {key}: {value} |"\n', "", 4, "[[pairs]] has no `pair`", "see parsers/README.md"),
    (
        " {key}: {value} |", " {key} |", 0,
        "` {key} |` is not a pair", "write {key} and {value}, and what is around them",
    ),
    (
        " {key}: {value} |", "{key}: {value}", 0,
        "`{key}: {value}` does not separate adjacent pairs", "write what is between them, spaces too",
    ),
    (
        " {key}: {value} |", "{key}: {value}and", 0,
        "`{key}: {value}and`: a letter cannot separate pairs", "make it part of the key, or of the value",
    ),
    (
        '["elapsed (ms)"]', '["elapsed"]', 0,
        "`needs` names `elapsed`, which is not in `keys`", "did you mean `elapsed (ms)`?",
    ),
    (
        'step_time = "ms"', 'stp_time = "ms"', 0,
        "`unit` names `stp_time`, which is not a field", "did you mean `step_time`?",
    ),
    (
        "{step_time:.1f}", "{step_time:.1y}", 0,
        "`.1y` is not a field type\n{step_time:.1y}\n^",
        "the types are d f e E g r u w i S s t z b x T q c n l m j p a h k",
    ),
    (
        "{step_time:.1f}", "{step_time:n}", 0,
        "`n` names no separator\n{step_time:n}\n^", "write the separator first: {step_time:|n}",
    ),
    ('"{loss:.6E}"', "3", 0, "the value of `lm loss` must be a string or a list of strings", ""),
    ("{step:4d}/", "{step:4f}/", 0, "`step` is an integer: write {step:d}", ""),
    ('name   = "timers"', 'name   = "iteration"', 0, "two lines are named `iteration`", "names are unique in a file"),
    ("needs  =", "need  =", 0, "unknown key `need`", "did you mean `needs`?"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "above", "reason", "help"), BROKEN)
def test_a_broken_file_is_one_error_with_its_place(
    tmp_path: Path, old: str, new: str, above: int, reason: str, help: str
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FormatError) as error:
        load(path)
    line = OWN[: OWN.index(old)].count("\n") + 1 - above
    assert (error.value.reason, error.value.where, error.value.help) == (reason, f"{path}:{line}", help)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("lm loss: 1.082777E+01 |", "lm loss: 1.0828E+01 |", "the sample is written back differently"),
        (
            'sample = "times (ms) | ',
            'sample = "times (s) | ',
            "the sample does not match `times (ms) | {key}: {value}…`",
        ),
        ('head   = "times (ms)"', 'head   = "{_:S} metrics "', "the sample does not match"),
    ],
)
def test_samples_are_tests(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN.replace(" | mfu: N/A |", " |").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FormatError) as error:
        get(str(path))
    assert error.value.reason.startswith(reason)


SCOPES = """\
title  = "Phases, closed by lines of two shapes"
source = "these tests"
scopes = ["run", "step"]

[[line]]
name   = "wait"
table  = "phases"
text   = "wait {wait:.1f} s"
sample = "wait 1.5 s"

[[pairs]]
name    = "step"
table   = "steps"
closes  = "step"
head    = "step"
pair    = " {key}={value};"
needs   = ["at"]
compute = { step_time = "total / parts" }
set     = { rank_by = "printed" }
run     = ["device"]
sample  = "step at=1; total=8; parts=2; device=cpu; a b=1; a-b=2;"

[pairs.keys]
"at"     = "{step:d}"
"total"  = "{total:d}"
"parts"  = "{parts:d}"
"device" = "{device:w}"
"""


def test_scopes_computed_columns_and_what_describes_the_run(tmp_path: Path) -> None:
    """What an entry says of a field that a line lacks does not hold for that line."""
    path = tmp_path / "own.toml"
    path.write_text(SCOPES.replace('set     = { rank_by = "printed" }\n', ""), encoding="utf-8")
    form = get(str(path))
    log = b"wait 1.5 s\nstep at=1; total=8; parts=2; device=cpu; a b=1; a-b=2;\nwait 2.5 s\nstep at=2; total=9;\n"
    got = read(log, formats=[form])
    assert sorted((r["step"], r["time_s"]) for r in got.rows("phases")) == [(1, 1.5), (2, 2.5)]
    assert {r["step"]: r["step_time_s"] for r in got.rows("steps")} == {1: 4.0, 2: None}
    assert got.rows("runs")[0]["device"] == "cpu"
    assert {r["key"]: r["value"] for r in got.rows("values") if r["line"] == 2 and r["key"][0] == "a"} == {
        "a_b": 1.0,
        "a_b_2": 2.0,
    }


def test_a_column_that_perflog_fills_itself(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(SCOPES, encoding="utf-8")
    with pytest.raises(FormatError) as error:
        load(path)
    assert error.value.reason == "`rank_by` is filled by perflog itself"


# --- pairs that single blanks part ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("step_loss : 11.1 learning_rate : 0.0", {"step_loss": "11.1", "learning_rate": "0.0"}),
        ("average_loss : 9.125  lr : 1e-05 ", {"average_loss": "9.125", "lr": "1e-05"}),
        ("train.loss : 7.05 train.ips : 780.2 images/s lr : 0.1", {
            "train.loss": "7.05", "train.ips": "780.2 images/s", "lr": "0.1",
        }),
        ("a: 1 b : 2", {}),  # no blank in front of the first colon: of something else
    ],
)  # fmt: skip
def test_blanks_in_front_of_the_colon_part_no_pairs(text: str, pairs: dict[str, str]) -> None:
    assert {p.key: p.value for p in PairSyntax(" ", " : ", "").split(text)} == pairs


def test_figures_of_a_step_with_and_without_units() -> None:
    log = """\
DLL 2020-11-27 19:03:52.388284 - PARAMETER batch_size_per_gpu : 8
DLL 2020-11-27 19:03:53.388284 - Epoch: 0 Iteration: 1  step_loss : 11.5  learning_rate : 0.125
DLL 2020-11-27 19:03:54.388284 - Epoch: 0 Iteration: 2  train.loss : 10.5 train.ips : 2300.5 img/s
DLL 2020-11-27 19:03:55.388284 - (0, 3) train_throughput : 2405.25 samples/s train_loss : 9.5
DLL 2020-11-27 19:13:53.388284 -  training_sequences_per_second : 523.5  final_loss : 2.25
"""
    got = read(log.encode())
    assert got.done.formats == ["dllogger"]
    assert got.done.lines["unread"] == 0
    assert [(r["step"], r["loss"], r["learning_rate"]) for r in got.rows("steps")] == [
        (1, 11.5, 0.125), (2, 10.5, None), (3, 9.5, None),
    ]  # fmt: skip
    assert {(r["step"], r["key"]): r["value"] for r in got.rows("values")} == {
        (2, "train_ips"): 2300.5, (3, "train_throughput"): 2405.25,
    }  # fmt: skip
    assert {r["key"]: r["value"] for r in got.rows("summaries")} == {
        "training_sequences_per_second": 523.5, "final_loss": 2.25,
    }  # fmt: skip


def test_a_character_cut_in_two_in_a_value() -> None:
    """Launchers cut lines between bytes: what is left of a character is text like any other."""
    log = read(
        b"step:  1  loss:  6.1384  tps: 5,856  mfu: 34.29%\nstep:  2  loss:  6.1384  tps: 5,856  mfu: 34.2\xe2\x96\n"
    )
    assert [(r["step"], r["tokens_per_s"]) for r in log.rows("steps")] == [(1, 5856), (2, 5856)]
    assert [r["mfu"] for r in log.rows("steps")] == [pytest.approx(0.3429), None]


def test_a_duration_as_text_whatever_line_comes_first(form: Format) -> None:
    line = " round {}/ 20 | elapsed (ms): 2.5 | time left: {} | end time: 10:23:45 |\n"
    for texts in (("n/a", "1 day, 2:03:04"), ("1 day, 2:03:04", "n/a")):
        log = "".join(line.format(k, text) for k, text in enumerate(texts, 1))
        rows = [(row["key"], row["value"], row["text"]) for row in read(log.encode(), formats=[form]).rows("values")]
        assert ("time_left", 93784.0, None) in rows and ("time_left", None, "n/a") in rows
        assert rows.count(("end_time", None, "10:23:45")) == 2


NESTED = """\
title  = "own"
source = "this test"
[[pairs]]
name   = "train"
table  = "steps"
head   = "it {step:d}:"
pair   = " {key}={value}, "
needs  = ["loss"]
sample = "it 3: loss=2.5, lr=1"
[pairs.keys]
loss = "{loss:r}"
[[pairs]]
name   = "test"
table  = "values"
head   = "test {step:d}:"
pair   = " {key}: {value}, "
needs  = ["loss"]
sample = "test 3: loss: 2.5, lr: 1"
[pairs.keys]
loss = "{loss:r}"
"""


def test_objects_as_values_flatten(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(NESTED)
    log = (
        "it 3: loss=2.5, metrics={'loss': 1.25, 'acc': [0.5, 0.25], 'name': 'x', 'top': {'k': 5}}, lr=0.5\n"
        "it 4: loss=2.25, metrics={'loss': 1.0, 'acc': [0.75], 'name': 'y', 'top': {'k': 6}}, lr=0.5\n"
        "test 4: loss: 2.25, metrics: {'loss': 1.5, 'other': None}, lr: 0.25\n"
        "it 5: loss=2.0, items=[{'a': 1}, {'a': 2}]\n"
    )
    got = read(log.encode(), formats=[load(path)])
    assert sorted((row["line"], row["step"], row["key"], row["value"]) for row in got.rows("values")) == [
        (1, 3, "lr", 0.5), (1, 3, "metrics.acc[0]", 0.5), (1, 3, "metrics.acc[1]", 0.25), (1, 3, "metrics.loss", 1.25),
        (1, 3, "metrics.top.k", 5), (2, 4, "lr", 0.5), (2, 4, "metrics.acc[0]", 0.75), (2, 4, "metrics.loss", 1),
        (2, 4, "metrics.top.k", 6), (3, 4, "loss", 2.25), (3, 4, "lr", 0.25), (3, 4, "metrics.loss", 1.5),
        (4, 5, "items[0].a", 1), (4, 5, "items[1].a", 2),
    ]  # fmt: skip
    assert [(row["step"], row["loss"]) for row in got.rows("steps")] == [(3, 2.5), (4, 2.25), (5, 2)]
    assert sum(row["figures_unread"] for row in got.rows("lines")) == 0


def test_a_number_with_a_prefix_has_its_declared_unit() -> None:
    header, counters = "Benchmark      Time      CPU   Iterations UserCounters...", "items_per_second=1.25M/s"
    rows = read(f"{header}\nBM_Q/64  45.2 us  45.1 us  15432 {counters}\n".encode()).rows("values")
    figures = {row["key"]: (row["value"], row["unit"]) for row in rows[1:]}
    assert figures == {"real_time": (pytest.approx(45.2e-6), "s"), "cpu_time": (pytest.approx(45.1e-6), "s"),
                       "items_per_s": (1.25e6, "1/s")}  # fmt: skip
