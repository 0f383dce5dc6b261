"""The account of figures: stored in a table + declared as dropped + unread = the numbers on the lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run
from support.format_files import given_file
from support.reading import NAMES, labelled, sample

import perflog
from perflog.errors import InputError
from perflog.formats.loader.format_file import load
from perflog.formats.registry import known
from perflog.parsing.assemble.runs.figure_account import LineFigures, figures_of, figures_of_text

OWN = """
title = "own"
scopes = ["run", "step"]
[[line]]
name = "head"
opens = "run"
table = "runs"
text = "program of {world_size:d} ranks, seed {_:d}, options {options:s}"
sample = "program of 4 ranks, seed 17, options a=1 b=2"
[[line]]
name = "step"
opens = "step"
table = "steps"
text = "[{_:S} {_:S}] [loop.py:{_:d}] step {step:d} of {_:d}: loss {loss:f}, {_:s}"
dropped = "the same in each line"
sample = "[2024-09-16 22:59:19] [loop.py:12] step 3 of 9: loss 2.5, lr 0.5 fp16"
[[line]]
name = "orphan"
text = "orphan {number:d}"
sample = "orphan 3"
[[line]]
name = "tail"
table = "values"
text = "tail {speed:f} {_:s}"
sample = "tail 2.0 x"
[[context]]
text = "warned {_:d} times"
sample = "warned 3 times"
[[context]]
text = "ignored {_:d} times"
dropped = "a count of warnings"
sample = "ignored 3 times"
[[pairs]]
name = "pairs"
table = "values"
head = "now"
pair = " {key}: {value},"
dropped = { "seed*" = "given by the user" }
sample = "now time: 2.5, note: none"
[pairs.keys]
"seed" = "{_:d} of"
"lost" = "{_:d} of"
"""
LOG = """\
program of 4 ranks, seed 17, options a=1 b=2
[2024-09-16 22:59:19] [loop.py:12] step 3 of 9: loss 2.5, lr 0.5 fp16
[2024-09-16 22:59:20] [loop.py:12] step 4 of 9: loss 2.4, lr 0.5 and 7
orphan 3
tail 2.0 of 30, 40
warned 3 times
ignored 3 times
ignored 4 times
now time: 2.5, note: none, seed: 8 of, lost: 9 of
some text with 2 figures 5
"""


def account(tmp_path: Path, text: str, form: str = OWN) -> dict[str, tuple[int, int, int, str | None]]:
    """Return the figures by the first word of the line shapes: stored, dropped, unread, reason."""
    path = tmp_path / "log.txt"
    path.write_text(text, encoding="utf-8")
    log = perflog.read(path, format=str(given_file(tmp_path, form)))
    rows = log.arrow("lines").to_pylist()
    assert len({(row["run"], row["shape"]) for row in rows}) == len(rows)  # all figures of a shape are in one row
    names = [f"figures_{what}" for what in ("stored", "dropped", "unread")]
    by_line: dict[str, tuple[int, int, int, str | None]] = {}
    for row in rows:
        if any(row[n] for n in names):
            word = row["shape"].split()[0]
            stored, dropped, unread = map(
                sum, zip(by_line.get(word, (0, 0, 0))[:3], (row[n] for n in names), strict=True)
            )
            by_line[word] = stored, dropped, unread, row["dropped_because"]
    sums = {what: sum(row[f"figures_{what}"] for row in rows) for what in ("stored", "dropped", "unread")}
    assert log.figure_account == {"total": sum(sums.values()), **sums}
    return by_line


def test_each_figure_is_stored_dropped_for_a_reason_or_unread(tmp_path: Path) -> None:
    assert account(tmp_path, LOG) == {
        "program": (1 + 2, 0, 1, None),  # the number of ranks, two in the text of a setting; the seed
        "[{_:S}": (2 * 2, 2 * 1 + 1 + 2, 0, "the same in each line"),  # step, loss; `of 9`; 0.5; 0.5 and 7
        "orphan": (0, 0, 1, None),  # no table, no scope: the number goes nowhere
        "tail": (1, 0, 2, None),
        "warned": (0, 0, 1, None),
        "ignored": (0, 2, 0, "a count of warnings"),
        "now": (1, 1, 1, "given by the user"),
        "some": (0, 0, 2, None),
    }


LINES = """
title = "lines"
scopes = ["run", "step"]
"""
OTHER = """
[[line]]
name = "other"
table = "values"
text = "other {number:d}"
sample = "other 1"
"""


@pytest.mark.parametrize(
    ("declared", "text", "counts"),
    [
        ('table = "values"\ntext = "a {x:.1f} of {y:.1f}"', "a 2.5 of 3.5", (2, 0, 0)),
        ('table = "values"\ntext = "a {x:.1f} of {_:.1f}"', "a 2.5 of 3.5", (1, 0, 1)),
        ('table = "values"\ndropped = "why"\ntext = "a {x:.1f} of {_:.1f}, {_:.1f}"', "a 2.5 of 3.5, 4.5", (1, 2, 0)),
        ('table = "values"\ntext = "a at a.py:{_:d} {x:.1f}"', "a at a.py:12 2.5", (1, 0, 0)),  # a line of a program
        ('table = "values"\ntext = "a {x:.1f} {_:s}"', "a 2.5 b 3 of 4 v5", (1, 0, 2)),
        ('table = "values"\ndropped = "why"\ntext = "a {x:.1f} {_:s}"', "a 2.5 b 3 of 4 v5", (1, 2, 0)),
        ('text = "a {x:.1f} {y:.1f}"', "a 2.5 3.5", (0, 0, 2)),  # without a table they go nowhere
        ('opens = "run"\ntext = "a {x:.1f} {y:.1f}"', "a 2.5 3.5", (2, 0, 0)),
        ('run = ["y"]\ntext = "a {x:.1f} {y:.1f}"', "a 2.5 3.5", (1, 0, 1)),
        ('run = ["y"]\ntext = "a {y:s}"', "a b 3 of 4 v5", (2, 0, 0)),
        ('table = "runs"\ntext = "a {key:w} = {value:s}"', "a b7 = 3 of 4", (2, 0, 0)),
        ('table = "steps"\ntext = "a {step:d} {loss:s}"', "a 3 2.5", (2, 0, 0)),
        ('table = "values"\ntext = "a {x:.1f} of [{y:l}]"', "a 2.5 of [3, 4.5, 7]", (4, 0, 0)),
        ('table = "values"\ntext = "a in k7: {x:.1f} {_:s}"', "a in k7: 2.5 b 3 of 4 v5", (1, 0, 2)),  # digits between
        ('table = "steps"\ntext = "a {step:d} {loss:s}"', "a 3 2.5/4.5", (1, 0, 2)),  # it becomes null
        ('table = "steps"\ntext = "a {step:d} {printed:s}"', "a 3 1714564803.5", (2, 0, 0)),  # a time since 1970
        ('table = "milestones"\nset = {kind = "checkpoint"}\ntext = "a {step:d} {name:s}"', "a 3 to 4 of 5", (1, 0, 0)),
    ],
)  # fmt: skip
def test_the_figures_of_a_line(tmp_path: Path, declared: str, text: str, counts: tuple[int, int, int]) -> None:
    """Stored, dropped for a reason, unread: alone, among lines of the same shape, and twice."""
    form = LINES + f'[[line]]\nname = "a"\n{declared}\nsample = "{text}"\n' + OTHER
    found = account(tmp_path, f"other 1\n{text}\nother 2\n{text}\n", form)
    stored, dropped, unread = counts
    reason = "why" if dropped else None
    assert found == {"other": (2, 0, 0, None), text[:1]: (2 * stored, 2 * dropped, 2 * unread, reason)}
    loaded = load(given_file(tmp_path, form))
    line = next(line for line in loaded.lines if line.name == "a")
    of_text = figures_of_text(loaded, line, text)
    assert of_text == (counts if "/" not in text else (3, 0, 0))  # of a string that becomes null too


def test_a_time_since_1970_has_its_digits(tmp_path: Path) -> None:
    form = LINES + (
        '[[line]]\nname = "a"\ntable = "steps"\ntext = "a {step:d} {printed:s}"\nsample = "a 3 1714564803.5"\n'
    )
    assert account(tmp_path, "a 3 1714564803.5\na 4 2.5\n", form) == {"a": (3, 0, 1, None)}


def test_lines_of_a_block_have_no_figures() -> None:
    """Perflog keeps them as they are."""
    for form in known().values():
        for line in form.lines:
            if line.role in ("begin", "body", "end"):
                assert figures_of(form, line) == LineFigures()


def test_rank_labels_are_no_figures_and_records_on_one_line_count_each(tmp_path: Path) -> None:
    lines = account(tmp_path, "0: program of 4 ranks, seed 17, options a\n1: tail 2.0 of 30\n")
    assert lines == {"program": (1, 0, 1, None), "tail": (1, 0, 1, None)}
    lines = account(tmp_path, "orphan 3orphan 5\n\n" + LOG)
    assert lines["orphan"] == (0, 0, 3, None)


def test_an_unread_part_of_a_read_line_counts(tmp_path: Path) -> None:
    lines = account(tmp_path, "  3%| 1.5 it\r 50%| 2 it\rtail 2.0 x\n" + LOG)
    assert lines["tail"] == (2, 0, 2, None)
    assert lines["#%|"] == (0, 0, 4, None)


@pytest.mark.parametrize("name", NAMES)
def test_labels_and_copies_change_no_figure(name: str, tmp_path: Path) -> None:
    plain, again, with_labels = (tmp_path / f"{x}.txt" for x in "abc")
    plain.write_bytes(sample(name))
    again.write_bytes(sample(name) * 3)
    with_labels.write_bytes(labelled(sample(name), b"%d: "))
    once, thrice = perflog.read(plain).figure_account, perflog.read(again).figure_account
    assert thrice == {what: 3 * count for what, count in once.items()} and once["stored"] > 0
    if name != "nvprof":  # its tables begin with a mark of the process in front
        assert perflog.read(with_labels).figure_account == once


def test_strict_ends_at_an_unread_figure(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    form = str(given_file(tmp_path, OWN))
    path.write_text("program of 4 ranks, seed 17, options a\ntail 2.0 x\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"(?s)1 figure is unread, in lines such as line 1:\n  program of"):
        perflog.ingest(path, store=tmp_path / "store", format=form, strict=True)
    path.write_text("tail 2.0 x\nignored 3 times\n", encoding="utf-8")
    perflog.ingest(path, store=tmp_path / "store", format=form, strict=True)


def test_ingest_show_and_check_say_it(tmp_path: Path) -> None:
    path, form = tmp_path / "log.txt", given_file(tmp_path, OWN)
    path.write_text(LOG.rpartition("some")[0], encoding="utf-8")
    told = run("ingest", path, "--format", form, "--store", tmp_path / "store").output
    assert "figures         23 = 9 stored + 8 dropped + 6 unread" in told, told
    assert "unread figures  in lines such as line 1: program of 4 ranks" in told
    shown = run("show", told.split("runs            1: ")[1].split()[0], "--store", tmp_path / "store").output
    assert "figures  total 23, stored 9, dropped 8, unread 6" in shown, shown
    assert "unread figures of known lines" in shown and "figures that the format drops" in shown
    assert "a count of warnings" in shown
    checked = run("formats", "check", form).output
    assert "figures of the samples that no table takes" in checked
    assert [line.split()[:3] for line in checked.splitlines() if "program of 4" in line] == [["head", "0", "1"]]
