"""A suggested file holds only entries that load, whose samples match nothing else; counts of what is read with it."""

from __future__ import annotations

import numpy as np
from support.drafted_lines import drafted
from support.reading import write

from perflog.formats.model import Format
from perflog.formats.registry import known
from perflog.ingestion.detect import detect
from perflog.ingestion.suggest import verification
from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.ingestion.suggest.line_shapes import ShapeCounter
from perflog.ingestion.suggest.table_roles import assign_tables
from perflog.ingestion.suggest.verification import ReadCounts, choose_disjoint, load_entries, load_text

GUESSED = 'title = "t"\nscopes = ["run", "step"]\n'


def line(name: str, text: str, sample: str, *more: str) -> str:
    return "\n".join(["[[line]]", f'name = "{name}"', f'text = "{text}"', f'sample = "{sample}"', *more, ""])


def chosen(*drafts: LineDraft, formats: list[Format] | None = None) -> tuple[list[list[str]], list[str]]:
    """The samples of the entries that are chosen, and the reasons against the others."""
    assign_tables(drafts)
    entries, refused = choose_disjoint(drafts, formats or [])
    return [samples for _, samples in entries], [reason for _, reason in refused]


def test_samples_are_the_first_the_shortest_and_the_longest() -> None:
    draft = drafted("loss 12.5", "loss 13.5", "loss 1.5", "loss 100.5", "loss 7.5", "loss 200.5")
    assert chosen(draft) == ([["loss 12.5", "loss 1.5", "loss 100.5"]], [])


def test_samples_are_lines_that_are_written_back() -> None:
    padded = drafted("loss: 12.5 a", "loss:  3.5 a")
    assert chosen(padded)[0] == [["loss: 12.5 a"]] and not padded.loose
    assert chosen(drafted("loss:  12.5 a", "loss: 3.5 a"))[0] == [["loss:  12.5 a"]]


def test_each_sample_matches_one_entry() -> None:
    """Earlier entries take what both read."""
    wide = drafted("loss 3.5 of alpha", "loss 2.5 of beta", "loss 1.5 of gamma")
    assert chosen(drafted("loss 1.5"), drafted("acc 2.5")) == ([["loss 1.5"], ["acc 2.5"]], [])
    assert chosen(wide, drafted("loss 7.5 of delta")) == ([["loss 3.5 of alpha", "loss 2.5 of beta"]], [])
    assert chosen(drafted("loss 7.5 of alpha"), wide) == ([["loss 7.5 of alpha"]], ["another entry reads it too"])


def test_what_a_known_format_reads_is_no_entry() -> None:
    form = load_text(GUESSED + line("known", "loss is {loss:r} now", "loss is 2.5 now", 'table = "values"'))
    samples, reasons = chosen(drafted("loss is 7.5 now"), drafted("other 5"), formats=[form])
    assert (samples, reasons) == ([["other 5"]], ["line `known` of suggested reads it"])
    unlike = load_text(GUESSED + line("bare", "{value:r}", "2.5", 'table = "values"'))
    assert chosen(drafted("7.5"), formats=[unlike]) == ([["7.5"]], [])  # a bare number proves no format


def test_an_entry_that_does_not_load_is_refused() -> None:
    broken = drafted("loss 2.5")
    broken.slots[-1].spec = "!"
    entries, refused = choose_disjoint([broken], [])
    assert (entries, [reason for _, reason in refused]) == ([], ["it cannot be written back exactly"])
    draft = drafted("loss 2.5")
    assign_tables([draft])
    assert [x.name for x in load_entries([(draft, ["loss 2.5"])]).lines] == ["loss"]


def counts(positions: dict[str, list[int]] | None = None, *steps: tuple[int, int]) -> ReadCounts:
    found = ReadCounts(positions=positions or {})
    for step in steps:
        found.add_step(*step)
    return found


def test_steps_start_again_at_a_step_that_is_not_larger_than_the_first() -> None:
    for numbers, restarts in (
        ([1, 2, 3], []),
        ([1, 2, 1, 2], [(1, 2)]),
        ([1, 2, 0, 1, 2, 1], [(1, 2), (4, 5)]),
        ([2, 4, 3, 4], []),  # resumed
        ([1, 1, 1], []),  # printed again
    ):
        found = counts(None, *enumerate(numbers))
        assert (found.first_step, found.restarts) == (numbers[0], restarts), numbers
        assert found.last_step == (len(numbers) - 1, numbers[-1])


def test_an_entry_that_starts_runs_is_at_each_start_and_nowhere_else() -> None:
    steps = [(10, 1), (20, 2), (30, 1), (40, 2), (50, 1)]
    for positions, expected in (
        ([5, 25, 45], True), ([5, 6, 25, 26, 45], True), ([25, 45], False), ([5, 25], False), ([5, 25, 45, 55], False),
        ([5, 25, 35, 45], False), ([], False), ([10, 25, 45], True), ([20, 25, 45], False),
    ):  # fmt: skip
        assert counts({"a": positions}, *steps).starts_runs("a") is expected, positions
    assert not counts({"a": [5]}, (10, 1), (20, 2)).starts_runs("a")
    assert not counts({}, *steps).starts_runs("a")


def test_lines_that_precede_step_lines_belong_to_them() -> None:
    found = ReadCounts(
        counts={"step": 5, "other": 5, "few": 4, "late": 9}, firsts={"step": 10, "other": 9, "few": 9, "late": 10},
        lasts={"step": 50, "other": 49, "few": 49, "late": 49},
    )  # fmt: skip
    assert [found.precedes_steps(name, ["step", "none"]) for name in ("other", "few", "late", "none")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert not found.precedes_steps("other", ["none"])
    found.lasts["other"] = 50
    assert not found.precedes_steps("other", ["step"])


def test_lines_of_a_log_are_counted_by_who_reads_them() -> None:
    form = load_text(
        GUESSED
        + line("size", "size {size:d}", "size 5", 'table = "runs"')
        + line("step", "step {step:d} rank {rank:d} took {step_time_s:r}", "step 1 rank 0 took 0.5", 'table = "steps"',
               'closes = "step"', 'covers = 1')
        + line("loss", "loss {value:r}", "loss 1.5", 'table = "values"', 'set = { key = "loss" }')
    )  # fmt: skip
    text = (
        b"size 5\nstep 1 rank 0 took 0.5\nstep 1 rank 1 took 0.5\nunknown line\n\nloss 2.5\nstep 2 rank 0 took 0.5\n"
        b"size 6\nstep 1 rank 0 took 0.5\nunknown other\n"
    )
    source, unread = write(text), ShapeCounter(bytes)
    found = verification.count_lines(source, [form], detect(source.head(), [form]), unread)
    assert (found.total, found.blank, found.others, found.unread) == (10, 1, 0, 2)
    assert found.counts == {"size": 2, "step": 4, "loss": 1}
    assert (found.firsts, found.lasts) == ({"size": 1, "step": 2, "loss": 6}, {"size": 8, "step": 9, "loss": 6})
    assert [position >> 20 for position in found.positions["size"]] == [1, 8]
    assert [(low >> 20, high >> 20) for low, high in found.restarts] == [(7, 9)]
    assert sum(shape.count for shape in unread.shapes.values()) == 2
    steps = found.evidence["step", "step"]
    assert (steps.count, steps.least, steps.most) == (4, 1, 2)
    assert found.evidence["step", "rank"].most == 1 and np.isfinite(steps.last[0])
    other = verification.count_lines(source, [form, known()["torchtitan"]], detect(source.head(), [form]), unread)
    assert (other.others, other.counts, other.first_step) == (7, {}, None)
