"""Format files: what is wrong with one is told in one error, with file, line and help; samples are tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.format_files import given_file
from support.reading import NAMES, sample_lines

from perflog.errors import FormatError, PerflogError
from perflog.formats import registry
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.formats.registry import COMMON, get, known
from perflog.formats.sample_checks import check_samples
from perflog.tables.schema import TABLES

GOOD = """\
title = "A log"
scopes = ["run", "step"]

[[line]]
name   = "wait"
table  = "phases"
text   = "{rank:d} wait time: {wait:r}"
unit   = { wait = "ms" }
sample = "2 wait time: 2.414"

[[line]]
name   = "step"
table  = "steps"
closes = "step"
text   = "STEP-{step:d}: {step_time:.6f} ms"
sample = ["STEP-0: 1.500000 ms", "STEP-1: 2.500000 ms"]

[[context]]
text   = "start"
sample = "start"

[[block]]
name   = "printout"
begin  = "{_:w}("
body   = "  {_:s}"
end    = ")"
sample = \"\"\"
Model(
  (a): b
)
\"\"\"

[[fingerprint]]
name  = "wait"
vote  = { line = "wait", key = "wait" }
reads = { wait = "wait" }

[[adjacent]]
line  = "step"
after = "wait"
"""
LINE, STEP, CONTEXT, BLOCK, FINGERPRINT, ADJACENT = 4, 11, 18, 22, 33, 38


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_a_good_file_loads(tmp_path: Path) -> None:
    form = load(given_file(tmp_path, GOOD))
    check_samples(form)
    assert (form.name, form.title, form.scopes) == ("own", "A log", ("run", "step"))
    assert [x.name for x in form.lines if x.read] == ["wait", "step"]
    assert form.adjacent == (("step", "wait"),)
    assert form.fingerprints[0].reads == {"wait": ("wait",)}


# place (a line, 0 for none), reason, help; the change that brings it about
BROKEN = [
    # --- keys
    ("unknown key", "ttle = 1\n" + GOOD, 1, "unknown key `ttle`", "did you mean `title`?"),
    ("unknown key of a line", changed("unit   =", "unti   ="), LINE + 4, "unknown key `unti`", "did you mean `unit`?"),
    (
        "unknown key of a context",
        changed('"start"\nsample', '"start"\nsamples'),
        CONTEXT + 2,
        "unknown key `samples`",
        "did you mean `sample`?",
    ),
    ("no name", changed('name   = "wait"\n', ""), LINE, "[[line]] has no `name`", "see parsers/README.md"),
    (
        "no text",
        changed('text   = "{rank:d} wait time: {wait:r}"\n', ""),
        LINE,
        "[[line]] has no `text`",
        "see parsers/README.md",
    ),
    (
        "no sample",
        changed('sample = "2 wait time: 2.414"\n', ""),
        LINE,
        "[[line]] has no `sample`",
        "see parsers/README.md",
    ),
    ("name is a number", changed('name   = "wait"', "name = 3"), LINE + 1, "`name` must be str, not int", ""),
    (
        "sample is a number",
        changed('sample = "2 wait time: 2.414"', "sample = 2"),
        LINE + 5,
        "`sample` must be a string or a list of strings",
        "",
    ),
    ("lines are a table", '[line]\nname = "x"\n', 0, "`line` must be a list", "write [[line]]"),
    ("lines are strings", 'line = ["x"]\n', 0, "`line` is not a list of tables", "write [[line]]"),
    (
        "two lines of one name",
        changed('name   = "step"', 'name   = "wait"'),
        STEP + 1,
        "two lines are named `wait`",
        "names are unique in a file",
    ),
    # --- texts
    (
        "type",
        changed("{wait:r}", "{wait:y}"),
        LINE + 3,
        "`y` is not a field type\n{rank:d} wait time: {wait:y}\n                    ^",
        "the types are d f e E g r u w i S s t z b x T q c n l m j p a h k",
    ),
    (
        "brace",
        changed("wait time:", "wait {time:"),
        LINE + 3,
        "a single brace\n{rank:d} wait {time: {wait:r}\n              ^",
        "write {{ and }} for braces",
    ),
    (
        "field twice",
        changed("{wait:r}", "{rank:r}"),
        LINE + 3,
        "two fields are named `rank`\n{rank:d} wait time: {rank:r}",
        "give each field its own name",
    ),
    (
        "body of a block",
        changed('"  {_:s}"', '"  {_}"'),
        BLOCK + 3,
        "`{_}` is not a field\n  {_}\n  ^",
        "write {name:type}, and {{ or }} for a brace",
    ),
    # --- where values go
    ("table", changed('"phases"', '"phase"'), LINE + 2, "unknown table `phase`", "did you mean `phases`?"),
    ("unit", changed('{ wait = "ms" }', '{ wait = "msec" }'), LINE + 4, "unknown unit `msec`", "did you mean `sec`?"),
    (
        "unit of nothing",
        changed('{ wait = "ms" }', '{ wiat = "ms" }'),
        LINE + 4,
        "`unit` names `wiat`, which is not a field of the template",
        "did you mean `wait`?",
    ),
    (
        "text without column",
        changed("{step_time:.6f} ms", "{what:w} ms"),
        STEP + 4,
        "string field `what` has no column in table steps",
        "name it `_`, or add it to `run`",
    ),
    (
        "set",
        changed('closes = "step"', 'set = { los = "1" }'),
        STEP + 3,
        "table steps has no column `los`",
        "did you mean `loss`?",
    ),
    (
        "compute",
        changed('closes = "step"', 'compute = { step = "stop + 1" }'),
        STEP + 3,
        "`stop` in `stop + 1` is not a field of the line",
        "did you mean `step`?",
    ),
    (
        "compute what",
        changed('closes = "step"', 'compute = { setp = "step + 1" }'),
        STEP + 3,
        "table steps has no column `setp`",
        "did you mean `step`?",
    ),
    (
        "compute how",
        changed('closes = "step"', 'compute = { step = "open(step)" }'),
        STEP + 3,
        "only arithmetic is allowed\nopen(step)\n^",
        "functions are abs, f32, if_equal, max, min, round",
    ),
    (
        "map",
        changed('closes = "step"', 'map = [["a", "b"]]'),
        STEP + 3,
        "`map` rows are [column, field, pattern, value]",
        "",
    ),
    (
        "map to nothing",
        changed('closes = "step"', 'map = [["kind", "step", "*", "x"]]'),
        STEP + 3,
        "table steps has no column `kind`",
        None,
    ),
    (
        "run",
        changed('closes = "step"', 'run = ["stp"]'),
        STEP + 3,
        "`run` names `stp`, which is not a field of the template",
        "did you mean `step`?",
    ),
    (
        "check",
        changed('closes = "step"', 'check = "step"'),
        STEP + 3,
        "`check` is `field == expression`",
        "fields: step, step_time",
    ),
    # --- scopes
    (
        "closes",
        changed('closes = "step"', 'closes = "stop"'),
        STEP + 3,
        "unknown scope `stop`",
        "declare it in `scopes`; did you mean `step`?",
    ),
    (
        "opens",
        changed('closes = "step"', 'opens = "block"'),
        STEP + 3,
        "unknown scope `block`",
        "declare it in `scopes`; known: run, step",
    ),
    (
        "before",
        changed('closes = "step"', 'before = "step"'),
        STEP + 3,
        "only a run can have lines before it",
        'write before = "run"',
    ),
    (
        "outside",
        changed('closes = "step"', 'outside = "stop"'),
        STEP + 3,
        "unknown scope `stop`",
        "declare it in `scopes`; did you mean `step`?",
    ),
    (
        "covers",
        changed('closes = "step"', 'covers = "all"'),
        STEP + 3,
        "`covers` cannot be `all`",
        'write covers = "since_previous", or a number',
    ),
    (
        "scopes",
        changed('scopes = ["run", "step"]', "scopes = 3"),
        2,
        "`scopes` must be a string or a list of strings",
        "",
    ),
    # --- ranks
    (
        "vote",
        changed('vote  = { line = "wait"', 'vote  = { line = "wiat"'),
        FINGERPRINT + 2,
        "no line is named `wiat`",
        "did you mean `wait`?",
    ),
    ("vote without line", changed('vote  = { line = "wait", ', "vote  = { "), FINGERPRINT + 2, None, None),
    ("vote without key", changed(', key = "wait" }', " }"), FINGERPRINT + 2, None, None),
    (
        "vote key",
        changed('key = "wait"', 'key = "wiat"'),
        FINGERPRINT + 2,
        "`wiat` in `wiat` is not a field of the line",
        "did you mean `wait`?",
    ),
    (
        "vote after",
        changed('key = "wait"', 'key = "wait", after = "wat"'),
        FINGERPRINT + 2,
        "no line is named `wat`",
        "did you mean `wait`?",
    ),
    (
        "vote is text",
        changed('vote  = { line = "wait", key = "wait" }', 'vote = "wait"'),
        FINGERPRINT + 2,
        "`vote` must be dict, not str",
        "",
    ),
    (
        "reads field",
        changed('reads = { wait = "wait" }', 'reads = { wait = "wiat" }'),
        FINGERPRINT + 3,
        "line `wait` has no field `wiat`",
        None,
    ),
    (
        "reads line",
        changed('reads = { wait = "wait" }', 'reads = { wiat = "wait" }'),
        FINGERPRINT + 3,
        "no line is named `wiat`",
        "did you mean `wait`?",
    ),
    ("reads number", changed('reads = { wait = "wait" }', "reads = { wait = 3 }"), FINGERPRINT + 3, None, None),
    ("reads and votes differ in length", changed('key = "wait"', 'key = ["wait", "rank"]'), None, None, None),
    (
        "adjacent",
        changed('after = "wait"', 'after = "wiat"'),
        ADJACENT + 2,
        "no line is named `wiat`",
        "did you mean `wait`?",
    ),
    # --- rates
    (
        "rate of nothing",
        GOOD + '[[rate]]\nname = "a"\nof = "wiat"\nwork = "1"\n',
        len(GOOD.splitlines()) + 3,
        "no line times a phase `wiat`",
        "did you mean `wait`?",
    ),
    (
        "rate of a number that no line says",
        GOOD + '[[rate]]\nname = "a"\nof = "step"\nwork = "2 * rnak"\n',
        len(GOOD.splitlines()) + 4,
        "`rnak` in `2 * rnak` is not a field of the line",
        "did you mean `rank`?",
    ),
    (
        "rate without work",
        GOOD + '[[rate]]\nname = "a"\nof = "step"\n',
        len(GOOD.splitlines()) + 1,
        "[[rate]] has no `work`",
        "see parsers/README.md",
    ),
    ("label", 'label = "{rank} {x"\n' + GOOD, 1, None, None),
    ("label number", "label = 3\n" + GOOD, 1, "`label` must be str, not int", ""),
    # --- blocks
    ("block sample", changed("  (a): b", "(a): b"), BLOCK + 5, "no line of the block reads `(a): b`", ""),
    ("block without end", changed('end    = ")"\n', ""), BLOCK + 4, "no line of the block reads `)`", ""),
]


@pytest.mark.parametrize(("text", "line", "reason", "help"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_broken_file_is_one_error_with_its_place(
    tmp_path: Path, text: str, line: int | None, reason: str | None, help: str | None
) -> None:
    path = given_file(tmp_path, text)
    with pytest.raises(FormatError) as error:
        load(path)
    assert reason is None or error.value.reason == reason
    assert line is None or error.value.where == (f"{path}:{line}" if line else str(path))
    assert help is None or error.value.help == help


def test_a_file_that_is_no_toml_says_where(tmp_path: Path) -> None:
    path = given_file(tmp_path, "title = \n")
    with pytest.raises(FormatError, match="line 1") as error:
        load(path)
    assert error.value.where.startswith(str(path))


@pytest.mark.parametrize("bytes", [b"\xff\xfe\x00", b'title = "\xff"'])
def test_a_file_that_is_no_text_is_one_error(tmp_path: Path, bytes: bytes) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(bytes)
    with pytest.raises(FormatError, match="cannot be read"):
        load(path)


def test_a_file_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        get(str(tmp_path / "none.toml"))


# --- samples --------------------------------------------------------------------------------------------------------


def failing(folder: Path, text: str, *others: Format) -> FormatError:
    form = load(given_file(folder, text))
    with pytest.raises(FormatError) as error:
        check_samples(form, others)
    return error.value


def test_a_sample_that_does_not_match_shows_where_it_stopped(tmp_path: Path) -> None:
    error = failing(tmp_path, changed("2 wait time: 2.414", "2 wait tine: 2.414"))
    assert error.reason == "the sample does not match the template\n2 wait tine: 2.414\n         ^ expected `me: `"
    assert error.where == f"{tmp_path}/own.toml, line `wait`"


def test_a_sample_must_be_written_back(tmp_path: Path) -> None:
    error = failing(tmp_path, changed("STEP-0: 1.500000 ms", "STEP-0: 1.5 ms"))
    assert error.reason == "the sample is written back differently\nSTEP-0: 1.5 ms\nSTEP-0: 1.500000 ms"
    assert error.help == "give the field its printed form"


def test_a_sample_must_match_no_other_line(tmp_path: Path) -> None:
    error = failing(tmp_path, changed('text   = "start"', 'text   = "{_:s}"'))
    assert error.reason == "the sample also matches line `{_:s}` of own\n2 wait time: 2.414"
    assert error.help == "make one of the two templates more specific"


def test_a_sample_must_match_no_other_format(tmp_path: Path) -> None:
    other = load(given_file(tmp_path, GOOD, "other"))
    error = failing(tmp_path, GOOD, other)
    assert error.reason.startswith("the sample also matches line `wait` of other\n")


def test_every_builtin_sample_matches_its_own_line_and_no_other() -> None:
    for name, form in known().items():
        check_samples(form, [f for f in known().values() if f.name != name])


@pytest.mark.parametrize("name", sorted(known())[::6])
def test_a_builtin_file_can_be_named_by_its_path(name: str) -> None:
    assert get(str(registry.builtin() / f"{name}.toml")).name == name


def test_a_builtin_file_says_what_it_is() -> None:
    for form in (f for f in known().values() if f.name != COMMON):
        assert form.title, form.name
        assert form.source, form.name
        assert all(x.samples for x in form.lines if x.role in ("line", "context")), form.name
        assert all(x.table in TABLES for x in form.lines if x.table is not None), form.name


@pytest.mark.parametrize("name", NAMES)
def test_no_line_of_a_log_is_read_by_two_templates(name: str) -> None:
    """Order would decide, and nobody would see it."""
    pieces = [(f.name, x) for f in known().values() for x in f.lines if x.role != "body"]
    for line in dict.fromkeys(sample_lines(name)):
        found = {(owner, x.name) for owner, x in pieces if x.template.match(line) is not None and line.strip()}
        assert len(found) <= 1, (line, found)


def test_an_unknown_name_comes_with_the_nearest() -> None:
    with pytest.raises(PerflogError) as error:
        get("moe_layr")
    assert str(error.value) == "no format is named `moe_layr`\ndid you mean `moe_layer`?"


@pytest.mark.parametrize("key", ["set", "compute", "unit"])
def test_a_key_that_must_be_a_table_and_is_a_number(tmp_path: Path, key: str) -> None:
    with pytest.raises(FormatError, match=f"`{key}` must be dict, not int"):
        load(given_file(tmp_path, changed('closes = "step"', f"{key} = 3")))


def test_a_format_names_the_result_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "judged.toml"
    path.write_text('result = "elapsed"\n' + GOOD, encoding="utf-8")
    assert load(path).result == "elapsed"


def test_a_format_names_values_whose_name_does_not_tell_which_way_is_better(tmp_path: Path) -> None:
    path = tmp_path / "log.toml"
    path.write_text('either_way = ["eval_accuracy"]\n' + GOOD, encoding="utf-8")
    assert load(path).either_way == ("eval_accuracy",)


def test_a_format_names_rates_that_are_those_of_one_gpu(tmp_path: Path) -> None:
    path = tmp_path / "log.toml"
    path.write_text('of_one_gpu = ["tokens_per_s"]\n' + GOOD, encoding="utf-8")
    assert load(path).of_one_gpu == ("tokens_per_s",)


def test_a_format_names_incidental_settings(tmp_path: Path) -> None:
    path = tmp_path / "log.toml"
    path.write_text('incidental = ["revision", "cluster.*"]\n' + GOOD, encoding="utf-8")
    assert load(path).incidental == ("revision", "cluster.*")
    path.write_text("incidental = 3\n" + GOOD, encoding="utf-8")
    with pytest.raises(FormatError, match="`incidental` must be a string or a list of strings"):
        load(path)
