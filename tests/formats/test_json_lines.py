"""Lines that hold an object: what they say is what json says, whatever their keys, chunks and what stands in front."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import differences, read

from perflog.errors import FormatError
from perflog.files.bundled import bundled
from perflog.formats import registry
from perflog.formats.families import json_lines
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.formats.sample_checks import check_samples

QUICK = examples(25)

OWN = """\
title  = "Lines of objects, of two kinds"
source = "these tests"

[[json]]
name   = "train"
table  = "steps"
head   = "OBJ "
when   = { type = "LOG", "data.loss" = "*" }
unit   = { step_time = "ms" }
sample = 'OBJ {"type": "LOG", "step": [0, 12], "data": {"loss": 2.5, "lr": "0.001", "ms": 7.25}, "note": "a b"}'

[json.keys]
"step[1]"   = "step"
"data.loss" = "loss"
"data.ms"   = "step_time"
"data.*"    = "*"

[[json]]
name   = "rest"
table  = "runs"
head   = "OBJ "
sample = 'OBJ {"type": "PARAMETER", "data": {"batch": 64, "fp16": true, "model": "gpt"}}'

[json.keys]
"data.batch" = "batch"
"data.fp16"  = "fp16"
"data.model" = "model"

[[json]]
name   = "dict"
table  = "steps"
head   = ["", "{_:s}]"]
when   = { rate = "*", loss = "*" }
sample = [
  "{'loss': 0.1429, 'grad_norm': 0.8998173475265503, 'rate': 1.7857142857142858e-07, 'epoch': 2.99}",
  " 50%|##| 1/2 [00:01, 3.2s/it]{'loss': '0.14', 'rate': '1e-05', 'epoch': '3.0'}",
]

[json.keys]
"loss" = "loss"
"rate" = "learning_rate"
"grad_norm" = "grad_norm"
"*" = "*"
"""


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Format:
    path = tmp_path_factory.mktemp("formats") / "own.toml"
    path.write_text(OWN, encoding="utf-8")
    found = load(path)
    check_samples(found, registry.known().values())
    return found


def said(form: Format, log: str) -> tuple[list[dict[str, Any]], dict[tuple[int, str], float]]:
    got = read(log.encode(), formats=[form])
    columns = ("step", "loss", "step_time_s", "grad_norm", "learning_rate")
    rows = sorted(got.rows("steps"), key=lambda r: r["line"])
    steps = [{c: r[c] for c in columns if r[c] is not None} for r in rows]
    return steps, {(r["line"], r["key"]): r["value"] for r in got.rows("values")}


def test_what_is_named_is_read(form: Format) -> None:
    steps, values = said(form, "".join(f"{sample}\n" for family in form.families for sample in family.samples))
    assert steps == [
        {"step": 12, "loss": 2.5, "step_time_s": 0.00725},
        {"loss": 0.1429, "grad_norm": 0.8998173475265503, "learning_rate": 1.7857142857142858e-07},
        {"loss": 0.14, "learning_rate": 1e-05},
    ]
    assert values == {(1, "step[0]"): 0.0, (1, "lr"): 0.001, (3, "epoch"): 2.99, (4, "epoch"): 3.0}


def test_a_later_entry_takes_what_the_first_leaves(form: Format) -> None:
    line = 'OBJ {"type": "%s", "data": {"loss": %s, "batch": %d, "fp16": false, "model": "m"}}\n'
    log = line % ("PARAMETER", "1.5", 8) + line % ("LOG", "null", 9) + line % ("LOG", "2.5", 10)
    got = read(log.encode(), formats=[form])
    assert sorted((r["line"], r["loss"]) for r in got.rows("steps")) == [(2, None), (3, 2.5)]
    (run,) = got.rows("runs")
    expected = {"data.loss": 1.5, "batch": 8, "fp16": "false", "model": "m", "data.fp16": "false"}
    assert json.loads(run["config"]) == expected
    assert run["model"] == "m"


TEXTS = st.sampled_from(["", "a b", 'q " q', "back \\ slash", "}", "]", "[1", "é", "None", "5 GB", "{x}"])
NUMBERS = st.one_of(st.integers(-(10**9), 10**9), st.floats(allow_nan=True, allow_infinity=False))
PLAIN = st.one_of(NUMBERS, TEXTS, st.booleans(), st.none())
KEYS = st.sampled_from(["lr", "epoch", "tps", "grad norm", "line", "a.b", "data"])
DATA = st.fixed_dictionaries(
    {"loss": NUMBERS},
    optional={k: st.one_of(PLAIN, st.lists(PLAIN, max_size=3), st.dictionaries(KEYS, PLAIN, max_size=2)) for k in
              ("lr", "epoch", "grad norm")},
)  # fmt: skip


@QUICK
@given(st.lists(st.tuples(st.integers(0, 99), DATA, PLAIN), min_size=1, max_size=6))
def test_what_is_read_is_what_json_says(form: Format, found: list[tuple[int, Mapping[str, Any], Any]]) -> None:
    lines = [
        "OBJ " + json.dumps({"note": note, "type": "LOG", "step": [0, step], "data": data}, ensure_ascii=False)
        for step, data, note in found
    ]
    steps, values = said(form, "".join(f"{line}\n" for line in lines))
    assert [(r["step"], repr(r["loss"])) for r in steps] == [(s, repr(float(data["loss"]))) for s, data, _ in found]
    expected = {
        (number, key.replace(" ", "_")): float(value)
        for number, (_, data, _) in enumerate(found, 1)
        for key, value in data.items()
        if key != "loss" and type(value) in (int, float)
    }
    assert {k: repr(v) for k, v in values.items() if k in expected} == {
        k: repr(v) for k, v in expected.items() if k[1] != "grad_norm"
    }
    numbers = {k: v for k, v in values.items() if k in expected}  # others are texts: booleans that change
    assert all(not math.isnan(v) or math.isnan(expected[k]) for k, v in numbers.items())


@QUICK
@given(
    st.lists(st.dictionaries(KEYS, st.one_of(PLAIN, st.lists(PLAIN, max_size=3)), max_size=4), min_size=1, max_size=9)
)
def test_lines_are_read_alike_by_expressions_and_by_the_shapes_of_objects(objects: list[dict[str, Any]]) -> None:
    log = "".join(
        f"{json.dumps({'step': k, 'loss': 0.5, **each}, ensure_ascii=False)}\n" for k, each in enumerate(objects)
    )
    tables = []
    for most in (0, 500):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_lines, "MOST_BY_TEMPLATE", most)
            got = read(log.encode(), formats=[load(bundled("parsers") / "jsonl.toml")])
        figures = ("count", "figures_stored", "figures_dropped", "figures_unread")
        account = {name: sum(row[name] for row in got.rows("lines")) for name in figures}
        tables.append((account, [got.tables().get(name) for name in ("runs", "steps", "values")]))
    assert tables[0] == tables[1]


def test_lines_of_many_shapes_are_all_read() -> None:
    """Lines of the same keys, any of which may be null: an expression for each shape would take seconds."""
    rng = random.Random(1)
    objects = [
        {f"key_{k}": None if rng.random() < 0.05 else f'text "{k}"' if k % 3 else rng.random() for k in range(57)}
        for _ in range(40)
    ]
    got = read("".join(f"{json.dumps(each)}\n" for each in objects).encode())
    assert got.done.lines["unread"] == 0
    assert sorted((r["line"], r["key"], r["value"]) for r in got.rows("values") if r["value"] is not None) == sorted(
        (line, key, value)
        for line, each in enumerate(objects, 1)
        for key, value in each.items()
        if type(value) is float
    )


PIECES = [
    b"OBJ ", b'{"type": "LOG", "data": {"loss": 1}}', b"{'loss': 1, 'rate': 2}", b"{", b"}", b"[", b"]", b'"',
    b"'", b":", b", ", b"1", b"null", b"\\", b"\n", b"\r", b"\xff", b"100%]", b"[rank1]:", b'"loss": ', b"{}",
]  # fmt: skip


@QUICK
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=40).map(b"".join))
def test_any_bytes_are_accounted_for(form: Format, data: bytes) -> None:
    log = b'OBJ {"type": "LOG", "data": {"loss": 1}}\n' + data
    got = read(log, formats=[form], chunk=50)
    assert got.balances()
    assert differences(got.tables(), read(log, formats=[form]).tables()) == []


def test_an_object_as_deep_as_the_line_is_none(form: Format) -> None:
    log = 'OBJ {"type": "LOG", "data": {"loss": 1}}\n' + "".join(
        f'OBJ {{"type": "LOG", "data": {{"loss": {x}}}}}\n' for x in ("[" * 9000, "{" * 9000, '{"a":' * 9000)
    )
    assert read(log.encode(), formats=[form]).done.lines == {"total": 4, "read": 1, "context": 0, "unread": 3}


FLAT = """\
title  = "Objects whose numbers nobody names"
source = "these tests"

[[json]]
name    = "event"
table   = "values"
head    = "EVENT "
when    = { kind = "event" }
dropped = { "meta.pid" = "number of a process" }
sample = 'EVENT {"kind": "event", "step": 3, "meta": {"pid": 7}, "loads": [1, 2.5], "ops": [{"t": 1}], "x": [[1], [2]]}'

[json.keys]
"step" = "step"

[[json]]
name   = "setting"
table  = "runs"
head   = "SET "
when   = { kind = "setting" }
sample = 'SET {"kind": "setting", "rank": 1, "model": {"dim": 64, "dims": [8, 16]}, "watts": 300.5}'

[json.keys]
"rank" = "rank"

[[json]]
name   = "named"
table  = "values"
head   = "VALUE {key:w}: "
sample = ["VALUE lr: 0.5", "VALUE scores: [0.25, 0.75]", 'VALUE mean: {"a": 1.5}']

[json.keys]
"" = "value"
"""


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Format:
    path = tmp_path_factory.mktemp("formats") / "flat.toml"
    path.write_text(FLAT, encoding="utf-8")
    return load(path)


def keys(form: Format, log: str) -> dict[tuple[int, str], float]:
    return {(r["line"], r["key"]): r["value"] for r in read(log.encode(), formats=[form]).rows("values")}


def test_numbers_that_nobody_names_have_their_path_as_key(flat: Format) -> None:
    log = "".join(f"{sample}\n" for sample in (*flat.families[0].samples, *flat.families[2].samples))
    got = read(log.encode(), formats=[flat])
    assert keys(flat, log) == {
        (1, "loads[0]"): 1.0, (1, "loads[1]"): 2.5, (1, "ops[0].t"): 1.0, (1, "x[0][0]"): 1.0, (1, "x[1][0]"): 2.0,
        (2, "lr"): 0.5, (3, "scores[0]"): 0.25, (3, "scores[1]"): 0.75, (4, "mean.a"): 1.5,
    }  # fmt: skip
    assert {r["step"] for r in got.rows("values") if r["line"] == 1} == {3}
    assert got.done.lines["unread"] == 0


def test_a_list_of_any_length_is_one_shape(flat: Format) -> None:
    lists = [[k / 8 for k in range(n)] for n in (0, 1, 2, 700)]
    log = "".join(f'EVENT {{"kind": "event", "step": 1, "loads": {json.dumps(x)}}}\n' for x in lists)
    got = read(log.encode(), formats=[flat])
    assert len([r for r in got.rows("lines") if r["status"] == "read"]) == 1
    found = sorted((r["line"], int(r["key"][6:-1]), r["value"]) for r in got.rows("values"))
    assert found == [(line, k, value) for line, x in enumerate(lists, 1) for k, value in enumerate(x)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("NaN", {"b": 2.0}),
        ("-Infinity", {"a": -math.inf, "b": 2.0}),
        ("null", {"b": 2.0}),
        ("None", {"b": 2.0}),
        ("True", {"b": 2.0}),
        ("[1, None, 3]", {"a[0]": 1.0, "a[2]": 3.0, "b": 2.0}),
        ("np.float64(0.5)", {"a": 0.5, "b": 2.0}),
        ("tensor(0.5, device='cuda:0', grad_fn=<MeanBackward0>)", {"a": 0.5, "b": 2.0}),
        ("{1: 5, 2: 6}", {"a.1": 5.0, "a.2": 6.0, "b": 2.0}),
        ("['x', 'y']", {"b": 2.0}),
    ],
)
def test_an_odd_value_costs_only_itself(flat: Format, value: str, expected: dict[str, float]) -> None:
    found = keys(flat, f"EVENT {{'kind': 'event', 'step': 1, 'a': {value}, 'b': 2}}\n")
    assert {key: v for (_, key), v in found.items() if not math.isnan(v)} == expected


def test_a_leaf_of_a_setting_is_a_setting(flat: Format) -> None:
    got = read(b'SET {"kind": "setting", "model": {"dim": 64, "dims": [8, 16]}, "watts": 300.5}\n' * 2, formats=[flat])
    (run,) = got.rows("runs")
    assert json.loads(run["config"]) == {"model.dim": 64, "model.dims": [8, 16], "watts": 300.5}
    assert got.rows("values") == []


def test_a_number_that_changes_in_a_run_is_a_series(flat: Format) -> None:
    line = 'SET {"kind": "setting", "rank": %d, "size": 8, "watts": %s}\n'
    watts = [300.5, 300.5, 301.0, 299.5] * 48
    got = read("".join(line % (0, w) for w in watts).encode(), formats=[flat], chunk=500)
    (run,) = got.rows("runs")
    assert json.loads(run["config"]) == {"size": 8}
    readings = sorted((r["line"], r["rank"], r["value"]) for r in got.rows("values") if r["key"] == "watts")
    assert readings == [(number, 0, w) for number, w in enumerate(watts, 1)]


def test_a_number_that_differs_between_ranks_is_a_setting(flat: Format) -> None:
    line = 'SET {"kind": "setting", "rank": %d, "seed": %d}\n'
    got = read("".join(line % (rank, 100 + rank) for rank in (0, 1, 0, 1)).encode(), formats=[flat])
    (run,) = got.rows("runs")
    assert (json.loads(run["config"]), got.rows("values")) == ({"seed": [100, 101]}, [])


def test_a_boolean_is_a_setting_until_it_changes() -> None:
    line = '{"mode": "fsdp", "compile": true, "offload": %s, "avg_step_time_ms": 90.5}\n'
    got = read("".join(line % value for value in ("false", "null", "true", "false")).encode())
    (run,) = got.rows("runs")
    assert json.loads(run["config"]) == {"compile": "true"}
    assert [(r["line"], r["text"]) for r in got.rows("values") if r["key"] == "offload"] == [
        (1, "false"), (3, "true"), (4, "false"),
    ]  # fmt: skip


def test_members_of_arguments_are_settings() -> None:
    got = read(b'{"args": {"tp": 8, "eager": false, "model": "m", "sizes": [1, 2]}, "ttft_ms": 12.5}\n')
    (run,) = got.rows("runs")
    assert json.loads(run["config"]) == {"args.tp": 8, "args.eager": "false", "args.model": "m", "args.sizes": [1, 2]}
    assert [(r["key"], r["value"], r["unit"]) for r in got.rows("values")] == [("ttft", 0.0125, "s")]


UNITS_IN_NAMES = {  # printed name: key, factor, base unit
    "mfu(%)": ("mfu", 0.01, "1"),
    "avg_step_time_ms": ("avg_step_time", 0.001, "s"),
    "latency_ms p50": ("latency_p50", 0.001, "s"),
    "latency_ms_p99": ("latency_p99", 0.001, "s"),
    "latencyMs": ("latency", 0.001, "s"),
    "ms_per_step": ("time_per_step", 0.001, "s"),
    "end_to_end(s)": ("end_to_end", 1.0, "s"),
    "peak_mem_gb": ("peak_mem", 1e9, "B"),
    "tokens_per_sec": ("tokens_per_s", 1.0, "1/s"),
    "decode_tok_s": ("decode_tok_per_s", 1.0, "1/s"),
    "bus_gb_s": ("bus", 1.0, "GB/s"),
    "mean_step_sec": ("mean_step", 1.0, "s"),
    "img_sec": ("img_sec", 1.0, None),
    "num_params": ("num_params", 1.0, None),
    "x_min": ("x_min", 1.0, None),
    "rms": ("rms", 1.0, None),
}


@pytest.mark.parametrize("name", UNITS_IN_NAMES)
def test_the_unit_in_a_name_is_that_of_the_number(name: str) -> None:
    got = read(f'{{"{name}": 12.5, "of": "x"}}\n'.encode())
    key, factor, unit = UNITS_IN_NAMES[name]
    assert [(r["key"], r["value"], r["unit"]) for r in got.rows("values") if r["key"] != "of"] == [
        (key, 12.5 * factor, unit)
    ]


def test_a_unit_stays_in_the_names_of_numbers_that_differ_only_in_it() -> None:
    got = read(b'{"time_ms": 1500.0, "time_s": 1.5}\n')
    assert [(r["key"], r["value"]) for r in got.rows("values")] == [("time_ms", 1.5), ("time_s", 1.5)]


def test_the_unit_beside_a_number_is_that_of_the_number() -> None:
    line = '{"ttft": {"value": 145.5, "unit": "%s"}, "count": {"value": 7, "unit": "tokens"}}\n'
    got = read((line % "ms" + line % "s").encode())
    values = [(r["key"], r["value"], r["unit"]) for r in got.rows("values") if r["value"] is not None]
    assert values == [
        ("ttft.value", 0.1455, "s"), ("count.value", 7.0, None),
        ("ttft.value", 145.5, "s"), ("count.value", 7.0, None),
    ]  # fmt: skip


def test_the_unit_of_times_beside_them() -> None:
    got = read(b'{"name": "copy", "real_time": 12.5, "cpu_time": 12.0, "count": 7, "time_unit": "ms", "x_unit": "s"}\n')
    assert [(r["key"], r["value"], r["unit"]) for r in got.rows("values") if r["value"] is not None] == [
        ("real_time", 0.0125, "s"), ("cpu_time", 0.012, "s"), ("count", 7.0, None),
    ]  # fmt: skip


def test_usual_names_of_a_step() -> None:
    got = read(b"""\
{"step": 1, "mfu(%)": 40.5, "time_metrics/end_to_end(s)": 1.25, "throughput(tps)": 5120.5, "time_metrics/data(s)": 0.5}
{"Step": 2, "avg_step_time_ms": 90.5, "throughput_samples_per_sec": 705.5, "mfu": 0.5}
""")
    columns = ("step", "step_time_s", "mfu", "tokens_per_s", "samples_per_s")
    assert sorted(tuple(r[c] for c in columns) for r in got.rows("steps")) == [
        (1, 1.25, 0.405, 5120.5, None),
        (2, 0.0905, None, None, 705.5),
    ]
    assert [(r["key"], r["value"], r["unit"]) for r in got.rows("values")] == [("mfu", 0.5, None)]
    assert [(r["phase"], r["time_s"]) for r in got.rows("phases")] == [("time_metrics_data", 0.5)]


# what is changed to what, reason, help; the place is that of the change
BROKEN = [
    (
        '"*" = "*"', '"epoch" = "*"',
        "`epoch` is one key, so `*` has no meaning", "name the field, or end the path in `*`",
    ),
    (
        '= "grad_norm"', '= "grad norm"',
        "`grad norm` is not a field name", "name the field or column that takes the value",
    ),
    ('type = "LOG"', "type = 1", "`type` must be a string", "write the value as a string; `*` is any"),
    (
        'unit   = { step_time', "unit   = { time",
        "`unit` names `time`, which is not a field", "did you mean `step_time`?",
    ),
    ('name   = "rest"', 'name   = "train"', "two lines are named `train`", "names are unique in a file"),
    ("when   =", "wen   =", "unknown key `wen`", "did you mean `when`?"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "reason", "help"), BROKEN)
def test_a_broken_file_is_one_error_with_its_place(tmp_path: Path, old: str, new: str, reason: str, help: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FormatError) as error:
        load(path)
    line = OWN[: OWN.index(old)].count("\n") + 1
    assert (error.value.reason, error.value.where, error.value.help) == (reason, f"{path}:{line}", help)


def test_an_object_that_holds_all_that_is_logged_is_no_part_of_the_names() -> None:
    """The key of a row is the printed path. An object of another name may be of something else."""
    data = '{{"step": 5, "metrics": {{"loss": 2.5}}, "timing": {{"step_s": 0.5, "x": 1}}}}'
    line = f'{{{{"event": "train_step", "{{}}": {data}}}}}\n'
    for carrier in ("data", "payload", "fields"):
        got = read(line.format(carrier).encode())
        assert [(row["step"], row["loss"], row["step_time_s"]) for row in got.rows("steps")] == [(5, 2.5, 0.5)]
        assert {row["key"] for row in got.rows("values") if row["value"]} == {f"{carrier}.timing.x"}
    assert not read(line.format("teacher").encode()).rows("steps")
