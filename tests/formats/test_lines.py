"""What a [[line]] can say of its numbers: two rows, steps covered, what is not known, names that the line prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.format_files import given_file
from support.reading import Reading, read

import perflog
from perflog.errors import FormatError
from perflog.formats.loader.format_file import load
from perflog.formats.sample_checks import check_samples
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_series import step_series

HEAD = 'title = "own"\nscopes = ["run", "epoch", "step", "timer"]\n'


def reading(folder: Path, lines: str, log: str) -> Reading:
    form = load(given_file(folder, HEAD + lines))
    check_samples(form)
    return read(log.encode(), formats=[form])


def refused(folder: Path, lines: str) -> str:
    with pytest.raises(FormatError) as error:
        load(given_file(folder, HEAD + lines))
    return error.value.reason


TWO = """
[[line]]
name   = "row"
table  = "collectives"
text   = "both {bytes:d} {time:g} {wrong:S} {in_time:g} {in_wrong:S}"
unit   = { time = "us", in_time = "us" }
set    = { buffer = "out" }
again  = { set = { buffer = "in" }, time = "in_time", wrong = "in_wrong" }
sample = "both 8 1.5 0 2.5 N/A"
"""


def test_a_line_with_two_measurements_gives_two_rows(tmp_path: Path) -> None:
    log = reading(tmp_path, TWO, "both 8 1 0 4 N/A\nboth 16 3 1 4 2\n")
    found = [(r["bytes"], r["buffer"], r["time_s"], r["wrong"]) for r in log.rows("collectives")]
    assert sorted(found, key=lambda row: (row[0], row[2])) == [
        (8, "out", 1e-6, 0), (8, "in", 4e-6, None), (16, "out", 3e-6, 1), (16, "in", 4e-6, 2),
    ]  # fmt: skip
    assert log.rows("values") == []  # the fields of the second row are no numbers without a place


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('time = "in_time"', 'tiem = "in_time"'), "table collectives has no column `tiem`"),
        (('time = "in_time"', 'time = "time_in"'), "`again` names `time_in`, which is not a field of the template"),
        (
            ('table  = "collectives"', ""),
            '`again` is { column = "field", set = {...} }, of a table with one row per line',
        ),
    ],
)
def test_a_second_row_that_has_no_place(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    assert refused(tmp_path, TWO.replace(*change)) == reason


STEP = """
[[line]]
name    = "step"
table   = "steps"
text    = "step {step:d} took {step_time:g} ms, mfu {mfu:g}% loss {loss:S}"
unit    = { step_time = "ms", mfu = "%" }
unknown = { mfu = -100 }
sample  = "step 1 took 5 ms, mfu 40% loss 1.5"
"""


def test_a_number_that_stands_for_not_known_is_null(tmp_path: Path) -> None:
    log = reading(tmp_path, STEP, "step 1 took 5 ms, mfu -100% loss nan\nstep 2 took 6 ms, mfu 40.5% loss N/A\n")
    found = [(r["mfu"], r["loss"]) for r in log.rows("steps")]
    assert found == [(None, pytest.approx(float("nan"), nan_ok=True)), (pytest.approx(0.405), None)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("{ mfu = -100 }", "{ muf = -100 }"), "`unknown` names `muf`, which is not a field of the template"),
        (("{ mfu = -100 }", '{ mfu = "no" }'), "`unknown` is { field = number }"),
        (('"steps"', '"values"'), "`mfu` fills no column that can be null"),
    ],
)
def test_a_mark_of_not_known_that_has_no_place(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    assert refused(tmp_path, STEP.replace(*change).replace("{loss:S}", "{loss:g}")) == reason


@pytest.mark.parametrize(
    ("covers", "steps"),
    [("16", 16), ('"since_previous"', None), ('"since_previous"\nfirst_step = 1', 7), ("1", 1)],
)
def test_a_line_covers_so_many_steps(tmp_path: Path, covers: str, steps: int | None) -> None:
    log = reading(tmp_path, STEP + f"covers = {covers}\n", "step 7 took 5 ms, mfu 1% loss 1\n")
    assert [r["steps_averaged"] for r in log.rows("steps")] == [steps]


def covered(folder: Path, steps: list[int]) -> list[int | None]:
    """What the lines of these steps cover where each covers the steps since the line before it."""
    log = "".join(f"step {step} took 5 ms, mfu 1% loss 1\n" for step in steps)
    return [r["steps_averaged"] for r in reading(folder, STEP + 'covers = "since_previous"\n', log).rows("steps")]


@pytest.mark.parametrize(
    ("steps", "windows"),
    [
        ([10, 20, 30, 40], [10, 10, 10, 10]),
        ([31215, 31220, 31225], [5, 5, 5]),  # a resumed run does not count from 1
        ([31215, 31216, 31217], [1, 1, 1]),
        ([31215], [None]),  # nothing tells the window
        ([1, 2, 3], [1, 1, 1]),
        ([0, 20, 40], [1, 20, 20]),
        ([1, 10, 20, 30], [1, 9, 10, 10]),
        ([10, 20, 40, 50], [10, 10, 10, 10]),  # the line of step 30 is lost
        ([10, 30, 40, 50], [10, 10, 10, 10]),
        ([10, 20, 30, 50], [10, 10, 10, 10]),  # at the end
        ([10, 20, 40, 60, 70, 80], [10] * 6),  # two of them
        ([10, 20, 60, 70, 80], [10] * 5),
        ([10, 20, 30, 130, 230, 330], [10, 10, 10, 100, 100, 100]),  # another interval
        ([10, 20, 30, 34], [10, 10, 10, 4]),  # the last step
        ([1, 2, 3, 100, 200, 300], [1, 1, 1, 97, 100, 100]),  # not lost: 97 is no multiple of 100
        ([100, 200, 300, 210, 220, 230], [100, 100, 100, 10, 10, 10]),  # back to a checkpoint
        ([10, 20, 30, 10], [10, 10, 10, 10]),  # started again, and one line
    ],
)
def test_a_line_covers_the_interval_of_its_neighbours(
    tmp_path: Path, steps: list[int], windows: list[int | None]
) -> None:
    assert covered(tmp_path, steps) == windows


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_windows_do_not_depend_on_where_the_log_is_cut(tmp_path: Path, lines: int) -> None:
    """Lines that come with the next chunk tell what a line covers: the log is read again."""
    form = load(given_file(tmp_path, HEAD + STEP + 'covers = "since_previous"\n'))
    steps = [510, 520, 540, 550, 560, 570, 590, 600, 430, 440, 450]
    log = "".join(f"step {step} took 5 ms, mfu 1% loss 1\n" for step in steps)
    found = read(log.encode(), formats=[form], chunk=lines * 36)
    assert [(r["step"], r["steps_averaged"]) for r in found.rows("steps")] == [(step, 10) for step in steps]


@pytest.mark.parametrize("covers", ["0", "-3", "true", '"all"', "1.5"])
def test_what_a_line_cannot_cover(tmp_path: Path, covers: str) -> None:
    assert refused(tmp_path, STEP + f"covers = {covers}\n").startswith("`covers` cannot be")


# --- lines that print the name of what they say -----------------------------------------------------------------------

NAMED = """
[[line]]
name   = "setting"
table  = "runs"
text   = "  {key:s} .. {value:s}"
sample = "  hidden size .. 768"

[[line]]
name   = "iteration"
opens  = "step"
table  = "steps"
text   = "iteration {step:d}"
sample = "iteration 1"

[[line]]
name   = "range"
table  = "phases"
text   = "    {phase:S}: ({min:g}, {time:g})"
unit   = { min = "ms", time = "ms" }
sample = "    forward-backward: (1, 2)"

[[line]]
name   = "timer"
opens  = "timer"
text   = "timer {phase:S}"
sample = "timer forward-backward"

[[line]]
name   = "rank"
table  = "phases"
text   = "rank {rank:d}: {time:g}"
unit   = { time = "ms" }
sample = "rank 0: 1"

[[line]]
name   = "value"
table  = "values"
text   = "{key:S} = {value:g} MiB"
unit   = { value = "MiB" }
sample = "peak = 1 MiB"

[[phase]]
name = "forward_backward"
kind = "mixed"
"""


def named(folder: Path, log: str, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = sorted(reading(folder, NAMED, log).rows(table), key=lambda r: r["line"])
    return [tuple(r[name] for name in columns) for r in found]


def test_settings_are_named_by_their_line(tmp_path: Path) -> None:
    log = "  hidden size .. 768\n  lr (max) .. 1e-4\n  fp16 .. True\n  name .. a .. b\n"
    ((config,),) = named(tmp_path, log, "runs", "config")
    assert config == '{"hidden_size": 768, "lr_max": 0.0001, "fp16": "True", "name": "a .. b"}'


def test_phases_are_named_by_their_line_or_its_scope(tmp_path: Path) -> None:
    log = (
        "iteration 4\n    forward-backward: (1, 2)\n    all-reduce: (3, 4)\niteration 5\n    forward-backward: (5, 6)\n"
    )
    assert named(tmp_path, log, "phases", "step", "phase", "occurrence", "min_s", "time_s") == [
        (4, "forward_backward", 1, 1e-3, 2e-3), (4, "all_reduce", 1, 3e-3, 4e-3),
        (5, "forward_backward", 1, 5e-3, 6e-3),
    ]  # fmt: skip
    log = "iteration 4\ntimer a\nrank 0: 1\nrank 1: 2\nrank 0: 3\ntimer b\nrank 0: 4\n"
    assert named(tmp_path, log, "phases", "step", "rank", "phase", "occurrence", "time_s") == [
        (4, 0, "a", 1, 1e-3), (4, 1, "a", 1, 2e-3), (4, 0, "a", 2, 3e-3), (4, 0, "b", 1, 4e-3),
    ]  # fmt: skip


@pytest.mark.parametrize("chunk", [20, 60, 1 << 20])
def test_the_count_of_a_phase_goes_on_over_chunks(tmp_path: Path, chunk: int) -> None:
    form = load(given_file(tmp_path, HEAD + NAMED))
    lines = ["    a: (1, 2)\n", "    b: (1, 2)\n"]
    text = "".join(["iteration 1\n", *lines * 2, "iteration 2\n", *lines * 3, *lines])
    found = sorted(read(text.encode(), formats=[form], chunk=chunk).rows("phases"), key=lambda r: r["line"])
    assert [(r["step"], r["phase"], r["occurrence"]) for r in found] == [
        (step, phase, k) for step, times in ((1, 2), (2, 4)) for k in range(1, times + 1) for phase in "ab"
    ]


def test_a_phase_whose_name_was_not_printed_is_not_lost(tmp_path: Path) -> None:
    assert named(tmp_path, "rank 0: 1\ntimer a\nrank 0: 2\n", "phases", "phase") == [("unnamed",), ("a",)]


def test_values_are_named_by_their_line(tmp_path: Path) -> None:
    assert named(tmp_path, "peak = 2 MiB\n", "values", "key", "value", "unit") == [("peak", 2.0 * 2**20, "B")]


EPOCHS = """
[[line]]
name   = "epoch"
opens  = "epoch"
text   = "Epoch {epoch:d}"
sample = "Epoch 3"

[[line]]
name   = "inner"
table  = "steps"
text   = "Iteration: {step:d} Loss: {loss:.4f}"
within = "epoch"
sample = "Iteration: 10 Loss: 2.5000"

[[line]]
name   = "both"
table  = "steps"
text   = "Epoch: {epoch:d} Iteration: {step:d} Time: {step_time:.3f}"
unit   = { step_time = "s" }
within = "epoch"
covers = "since_previous"
sample = "Epoch: 2 Iteration: 10 Time: 0.500"
"""


def test_steps_that_start_again_in_each_epoch_have_one_order(tmp_path: Path) -> None:
    rows = [(epoch, step) for epoch in (0, 1, 2) for step in (10, 20, 30)]
    log = "".join(f"Epoch: {epoch} Iteration: {step} Time: {1 + epoch + step / 100:.3f}\n" for epoch, step in rows)
    found = reading(tmp_path, EPOCHS, log)
    assert [(r["epoch"], r["step"], r["copy"], r["steps_averaged"]) for r in found.rows("steps")] == [
        (*row, 1, 10) for row in rows
    ]
    assert found.rows("values") == []
    path = tmp_path / "log.txt"
    path.write_text(log, encoding="utf-8")
    (series,) = step_series(Tables(perflog.read(path, format=str(tmp_path / "own.toml"))), warmup=0)
    assert series.values.tolist() == [1.1, 1.2, 1.3, 2.1, 2.2, 2.3, 3.1, 3.2, 3.3]
    assert series.steps.tolist() == [10, 20, 30] * 3 and series.left_out == ()
    assert series.order.tolist() == [10, 20, 30, 41, 51, 61, 72, 82, 92]  # the longest epoch has steps 0 to 30


def test_an_epoch_may_stand_on_a_line_above(tmp_path: Path) -> None:
    log = "".join(f"Epoch {epoch}\n" + "".join(f"Iteration: {s} Loss: 2.5\n" for s in (1, 2, 1)) for epoch in (4, 5))
    found = [(r["epoch"], r["step"], r["copy"]) for r in reading(tmp_path, EPOCHS, log).rows("steps")]
    assert found == [(4, 1, 1), (4, 2, 1), (4, 1, 2), (5, 1, 1), (5, 2, 1), (5, 1, 2)]


@pytest.mark.parametrize("key", ['within = "step"', 'within = "epoch"\ntable = "values"', "first_step = 3"])
def test_what_cannot_be_said_of_counters(tmp_path: Path, key: str) -> None:
    table = "" if "table" in key else 'table = "steps"\n'
    line = f'[[line]]\nname = "a"\n{table}text = "a {{epoch:d}} {{step:d}}"\nsample = "a 1 2"\n{key}\n'
    assert refused(tmp_path, line).startswith(("steps cannot be counted", "`first_step` says"))


UNITS_OF_TITLES = """
[[line]]
name   = "title"
opens  = "step"
set    = { unit = "us" }
text   = "percentiles (usec):"
sample = "percentiles (usec):"

[[line]]
name   = "percentiles"
table  = "values"
text   = "p50 {p50:d} p99 {p99:d} of {what:w}"
sample = "p50 2500 p99 3500 of reads"

[[line]]
name    = "count"
table   = "values"
outside = "step"
text    = "switches {switches:d}"
sample  = "switches 12"
"""


def test_a_title_gives_its_unit_to_the_numbers_below_it(tmp_path: Path) -> None:
    log = reading(tmp_path, UNITS_OF_TITLES, "percentiles (usec):\np50 2500 p99 3500 of reads\nswitches 12\n")
    found = {r["key"]: (r["text"] if r["value"] is None else r["value"], r["unit"]) for r in log.rows("values")}
    assert found == {
        "p50": (0.0025, "s"),
        "p99": (pytest.approx(0.0035), "s"),
        "what": ("reads", None),
        "switches": (12, None),
    }
