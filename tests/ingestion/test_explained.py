"""What formats read of lines and logs, for a person who asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.format_files import given_file

from perflog.errors import InputError, PerflogError
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.formats.registry import known
from perflog.ingestion import explained
from perflog.ingestion.detect import Detection
from perflog.ingestion.explained import (
    FieldValue,
    LineReading,
    LostFigures,
    ReaderDetection,
    detect_logs,
    lost_figures,
    read_line,
)

FORMAT = """
title = "a program"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} of {steps:d} in {step_time_s:r} with {_:d} dropped, loss {loss:r}"
unit = { step_time_s = "ms" }
dropped = "it is in the next line"
sample = "finished step 3 of 10 in 2.5 with 7 dropped, loss 1.5"
[[line]]
name = "whole"
table = "values"
set = { key = "x" }
text = "the whole value is {value:r}"
sample = "the whole value is 2.5"
[[line]]
name = "took"
table = "values"
text = "took: {took:t} for {size:z} of {note:s}"
sample = "took: 2.5ms for 3KB of all"
[[line]]
name = "part"
table = "values"
text = "speed: {speed:r}! of the whole"
sample = "speed: 2.5! of the whole"
[[context]]
text = "page {_:d}"
sample = "page 17"
[[table]]
name = "ops"
table = "kernels"
needs = ["Name", "Calls"]
dropped = { "Sh*" = "a share", "Id" = "a name" }
sample = '''
Name  Calls  Share  Other  Id
add       3   0.25      7   1
'''
[table.columns]
"Name" = "{name:s}"
"Calls" = "{calls:d}"
"""


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Format:
    return load(given_file(tmp_path_factory.mktemp("formats"), FORMAT, "mine"))


def test_values_are_in_base_units_with_their_columns(form: Format) -> None:
    (reading,) = read_line("[rank3]:finished step 3 of 10 in 2.5 with 7 dropped, loss 1.5", [form])
    assert (reading.format, reading.line.name, reading.rank) == (form, "step", 3)
    assert reading.values == (
        FieldValue("step", "step", 3),
        FieldValue("steps", None, 10),
        FieldValue("step_time_s", "step_time_s", 0.0025, "s"),
        FieldValue("loss", "loss", 1.5),
    )
    (reading,) = read_line("the whole value is 2.5\r\n", [form])
    assert (reading.rank, reading.values) == (None, (FieldValue("value", "value", 2.5),))
    (reading,) = read_line("took: 2.5ms for 3KB of all", [form])  # the line prints the units
    assert reading.values == (
        FieldValue("took", None, 0.0025, "s"), FieldValue("size", None, 3072.0, "B"), FieldValue("note", None, "all"),
    )  # fmt: skip


def test_all_parts_of_a_torn_line_are_read_in_their_order(form: Format) -> None:
    readings = read_line("[rank1]:speed: 1.5! of the whole[rank0]:the whole value is 2.5", [form])
    assert [(reading.line.name, reading.rank, reading.values[0].value) for reading in readings] == [
        ("part", 1, 1.5), ("whole", 0, 2.5)
    ]  # fmt: skip


def test_context_is_read_without_values(form: Format) -> None:
    (context,) = (line for line in form.lines if not line.read)
    assert read_line("page 17", [form]) == [LineReading(form, context)]


def test_known_formats_read_what_those_named_do_not(form: Format) -> None:
    line = " iteration        1/      10 | consumed samples:           8 | elapsed time per iteration (ms): 10.5 |"
    line += " learning rate: 1.000E-04 | global batch size:     8 | lm loss: 1.000000E+00 |"
    assert read_line(line, [form])[0].format is known()["megatron"]


def test_formats_of_any_program_read_what_is_no_damaged_line_of_another_one(
    form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    meters = known()["meters"]
    monkeypatch.setattr(explained, "known", lambda: {"meters": meters})
    assert [reading.format for reading in read_line("wobble: 5.5 tokens/s", [form])] == [meters]
    a_third = "speed: 2.5 tokens/s lr: 1.2345"
    assert len("speed: 2.5") * 3 == len(a_third)
    assert [reading.format for reading in read_line(a_third, [form])] == [meters]
    torn = "speed: 2.5 tokens/s"
    assert read_line(torn, []) != []
    with pytest.raises(InputError, match="no template reads this line") as found:
        read_line(torn, [form])  # most of it is like a line of another format
    assert found.value.help == f"The nearest is `part` of mine:\n{torn}\n          ^ expected `! of the whole`"


def test_what_no_template_reads_has_a_nearest_one(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "known", dict)  # all known ones take a second
    with pytest.raises(InputError, match="no template reads this line") as found:
        read_line("finished step 3 of 10 in 2.5 with seven dropped", [form])
    assert "The nearest is `step` of mine:" in found.value.help
    with pytest.raises(InputError) as found:
        read_line("~", [form])
    assert found.value.help == "no template comes near it"


def test_numbers_that_no_table_takes_are_listed(form: Format) -> None:
    assert list(lost_figures(form)) == [
        LostFigures("step", 1, 0, "it is in the next line", "finished step 3 of 10 in 2.5 with 7 dropped, loss 1.5"),
        LostFigures("context", 0, 1, None, "page 17"),
        LostFigures("ops", 1, 0, "a share", "Share"),
        LostFigures("ops", 0, 1, None, "Other"),
        LostFigures("ops", 1, 0, "a name", "Id"),
    ]


def test_a_table_below_a_title_has_no_columns_of_its_own() -> None:
    assert [lost.line for lost in lost_figures(known()["cuda_p2p"])].count("connectivity") == 0


def test_each_log_has_its_formats_or_its_error(tmp_path: Path) -> None:
    step = "step: {}  loss:  8.12  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%\n"
    trace = '{"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    files = {"a.log": step.format(1) + step.format(2), "b.log": "nothing of it\n", "c.json": trace}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = dict(detect_logs([str(tmp_path / name) for name in files] + [str(tmp_path / "none")]))
    a, b, c, none = (found[str(tmp_path / name)] for name in ("a.log", "b.log", "c.json", "none"))
    assert isinstance(a, Detection) and [each.format.name for each in a.formats] == ["torchtitan"]
    assert isinstance(b, PerflogError) and isinstance(none, PerflogError)
    assert isinstance(c, ReaderDetection) and (c.files, c.format) == (1, "chrome_trace")
