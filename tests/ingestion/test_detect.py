"""The formats and rank labels that the first lines of a log show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from perflog.formats.model import Line
from perflog.formats.registry import known
from perflog.ingestion import detect as detection
from perflog.ingestion.detect import LiteralIndex, detect, detect_together, has_training_bar, prints_steps
from perflog.ingestion.joined_logs import JoinedLogs, UnlikeLogsError
from perflog.parsing.input.chunks import SLACK, Chunk, as_chunk
from perflog.parsing.match.rank_labels import NO_LABELS, Labels
from perflog.parsing.match.records import Records, lines_of
from perflog.parsing.match.scanner import Scanner

STEP = "step: {:2}  loss:  8.12  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%"
FORMATS = [known()[name] for name in ("torchtitan", "megatron", "nccl_tests")]


def chunk(*lines: str) -> Chunk:
    return as_chunk("".join(f"{line}\n" for line in lines).encode())


def test_numbers_that_count_are_no_ranks() -> None:
    """Of ranks that each print once, the numbers grow from 0 without a gap."""
    for labels, expected in (
        ([0, 1, 2], False), ([1, 2, 3], True), ([0, 2], True), ([3], False), ([], False), ([0, 1, 1], False),
        ([5, 4], False), (range(4097), True), (range(4096), False),
    ):  # fmt: skip
        assert detection._is_counter([*labels]) is expected


def test_rank_labels_before_half_of_the_lines() -> None:
    step = STEP.format(1)
    launcher = Labels(has_launcher_labels=True, has_labels=True)
    for lines, expected in (
        ([step] * 2, NO_LABELS),
        ([f"[rank{k}]:{step}" for k in range(2)], Labels(has_launcher_labels=True, has_labels=True, bare_is_rare=True)),
        ([f"[Rank {k}] {step}" for k in range(2)], Labels(has_labels=True, bare_is_rare=True)),
        ([f"[Rank 0] {step}", step], Labels(has_labels=True, bare_is_rare=True)),
        ([f"[Rank 0] {step}", step, step], NO_LABELS),
        ([f"{k}: {step}" for k in (0, 1, 0)], launcher),
        ([f"{k}: {step}" for k in (7, 8, 9)], NO_LABELS),  # it counts
        ([f"{k}: {step}" for k in (0, 1)] + ["", " "], launcher),
    ):
        found = detection._labels(chunk(*lines))
        assert (found.has_labels, found.has_launcher_labels, found.bare_is_rare) == (
            expected.has_labels, expected.has_launcher_labels, expected.bare_is_rare,
        ), lines  # fmt: skip
        assert (found.template is not None) == expected.has_launcher_labels


def test_the_width_of_labels() -> None:
    for labels, width in (
        ([" 3", "13"] * 4, 2), (["3"] * 8, 1), (["3"] * 7, 0), (["3"] * 9 + ["13"], 1), (["3"] * 8 + ["13"], 0),
        ([], 0),
    ):  # fmt: skip
        assert detection._label_width("".join(f"\n{label}: x" for label in labels).encode() + b"\n") == width, labels


def test_formats_are_proved_by_telling_lines() -> None:
    found = detect(chunk("a title", "", STEP.format(1), STEP.format(2)), FORMATS)
    (form,) = found.formats
    assert (form.format.name, form.lines, form.gives_rows) == ("torchtitan", 2, True)
    assert form.share == pytest.approx(2 / 3)  # of the lines with content
    assert [(line, text) for line, _, text in form.proof] == [(3, STEP.format(1))]
    assert prints_steps(found.lines, found.batch) and not has_training_bar(found.lines, found.batch)
    assert FORMATS[0] in found.formats_tried and FORMATS[1] not in found.formats_tried and not found.per_rank
    assert detect(chunk("a title", "5"), FORMATS).formats == ()


def test_the_head_is_not_scanned_again_with_lines_that_were_tried() -> None:
    found = detect(chunk("a title", STEP.format(1), STEP.format(2)), FORMATS)
    same = Scanner([*lines_of(FORMATS[:1]), *found.shown])
    batch = found.scanned_as(same)
    assert batch is not None
    assert {same.lines[kind][1].name: len(records) for kind, records in batch.records.items()} == {"step": 2}
    assert {kind: positions.tolist() for kind, positions in batch.owner.items() if len(positions)} == {
        kind: positions.tolist() for kind, positions in same.scan(found.scanned.chunk).owner.items() if len(positions)
    }
    assert found.scanned_as(Scanner(lines_of(FORMATS))) is None  # of a format that was not tried
    assert found.scanned_as(Scanner(lines_of(FORMATS[:1]))) is None  # without the line that has records


def test_lines_are_found_by_their_literals() -> None:
    index = LiteralIndex(FORMATS)
    data = STEP.format(1).encode() + b"\n" + bytes(SLACK)
    held = [(form.name, x.name) for form, x in index.held(data, len(data) - SLACK)]
    assert ("torchtitan", "step") in held and len(held) < len(lines_of(FORMATS))
    proofs = [(form.name, x.name) for form, x in index.proofs(data, len(data) - SLACK)]
    assert ("torchtitan", "step") in proofs and set(proofs) <= set(held)
    assert index.held(bytes(SLACK), 0) == []


def test_several_ranks_that_close_steps_print_each_their_own() -> None:
    no_template: Any = None
    lines: Any = [
        (None, Line("step", no_template, closes="step")), (None, Line("run", no_template, closes="run")),
        (None, Line("value", no_template)),
    ]  # fmt: skip
    for kind, labels, expected in (
        (0, [0, 1], True), (0, [1, 1], False), (0, None, False), (1, [0, 1], False), (2, [0, 1], False),
    ):  # fmt: skip
        records = Records(np.arange(2), labels=None if labels is None else np.array(labels))
        batch: Any = type("Batch", (), {"records": {kind: records}})
        assert detection._per_rank(lines, batch) is expected


def test_what_logs_have_shown_is_kept_for_a_few() -> None:
    kept = detection._ShownBefore()
    line = (FORMATS[0], FORMATS[0].lines[0])
    assert kept.of(FORMATS, [line]) == ()
    kept.keep(FORMATS, [line], [line])
    assert kept.of(FORMATS, [line]) == (line,)
    assert kept.of(FORMATS[:1], [line]) == ()
    others = [[(FORMATS[0], Line(str(k), line[1].template))] for k in range(64)]
    for other in others:
        kept.keep(FORMATS, other, other)
    assert kept.of(FORMATS, [line]) == () and kept.of(FORMATS, others[0]) == tuple(others[0])


def test_a_csv_begins_with_its_header() -> None:
    """After comments and empty lines; it needs a row with as many cells, or none at all."""
    generic = tuple(form for form in known().values() if form.generic)
    for lines, expected in (
        (["epoch,loss,acc", "1,2.5,0.5"], True),
        (["", "# a comment", "epoch,loss,acc", "1,2.5,0.5"], True),
        (["epoch,loss,acc"], True),
        (["epoch,loss,acc", *["a line of prose"] * 8, "1,2.5,0.5"], False),
        (["a line of prose", "epoch,loss,acc", "1,2.5,0.5"], False),
        ([], False),
    ):
        headers = [line.template.text for _, line in detection._first_headers(chunk(*lines), generic)]
        assert headers == ["epoch,loss,acc"] * expected, lines


NCCL = (
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0"
)
PAIRS = ["epoch 1 loss 2.5", "epoch 2 loss 2.4"]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([NCCL, *PAIRS], {"meters": 2, "nccl_tests": 1}),
        ([STEP.format(1), *PAIRS], {"torchtitan": 1}),  # a program that prints its steps: what else it prints is none
        (PAIRS, {"meters": 2}),
        ([NCCL, "prose without a number"], {"nccl_tests": 1}),
        (["loss 2.5"] * 3, {}),  # a pair alone proves nothing
        (["epoch,loss,acc", "1,2.5,0.5"], {"csv": 2}),
        (["prose without a number"], {}),
    ],
)
def test_formats_of_any_program_read_what_the_proven_ones_do_not(lines: list[str], found: dict[str, int]) -> None:
    generic = [form for form in known().values() if form.generic]
    detected = detect(chunk(*lines), [*FORMATS, *generic])
    assert {each.format.name: each.lines for each in detected.formats} == found
    if not found:  # what no format is proved by is unread, and the error shows it
        assert len(detected.batch.unread) == len(lines)


GENERIC = [form for form in known().values() if form.generic]


@pytest.mark.parametrize(
    ("logs", "groups"),
    [
        ([[STEP.format(1), STEP.format(2)], [STEP.format(3), STEP.format(4)]], None),
        ([[STEP.format(1), "unread"], [STEP.format(3), "other"]], None),
        ([[STEP.format(1)], ["unread"]], [[0], [1]]),
        ([["unread"], [STEP.format(1)], ["unread"]], [[0, 2], [1]]),
        ([[f"[rank{k}]:{STEP.format(1)}" for k in range(2)]] * 2, []),  # labels of a launcher: each is read alone
        ([[f"[Rank {k}] {STEP.format(1)}" for k in range(2)]] * 2, None),
        ([[f"[Rank {k}] {STEP.format(1)}" for k in range(2)], [STEP.format(1)] * 2], []),
        ([["epoch,loss,acc", "1,2.5,0.5"]] * 2, []),  # a table from its first line on
        ([[STEP.format(1), *["unread"] * 9], [STEP.format(1), "unread"]], None),
        ([[STEP.format(1), *["unread"] * 10], [STEP.format(1), "unread"]], [[0], [1]]),  # less than a tenth is read
        ([[STEP.format(1), NCCL], [NCCL, STEP.format(1)]], None),
        ([[STEP.format(1), STEP.format(2), NCCL], [STEP.format(1), NCCL, NCCL]], [[0], [1]]),  # another one is first
    ],
)
def test_logs_that_look_alike_are_detected_together(logs: list[list[str]], groups: list[list[int]] | None) -> None:
    """As each of them alone. Else the error says which of them look alike, as far as is known."""
    heads = [chunk(*lines) for lines in logs]
    if groups is not None:
        with pytest.raises(UnlikeLogsError) as caught:
            detect_together(JoinedLogs.of(heads), [*FORMATS, *GENERIC])
        assert sorted(map(list, caught.value.groups)) == groups
        return
    found = detect_together(JoinedLogs.of(heads), [*FORMATS, *GENERIC])
    for head in heads:
        alone = detect(head, [*FORMATS, *GENERIC])
        assert [each.format.name for each in found.formats] == [each.format.name for each in alone.formats]
        assert (found.labels.has_labels, found.per_rank) == (alone.labels.has_labels, alone.per_rank)
    if all("unread" not in lines for lines in logs):
        assert sum(each.lines for each in found.formats) == sum(map(len, logs))


TABLE = ["| step | loss | ms |", "|---|---|---|", "| 1 | 2.5 | 30.5 |", "| 2 | 2.4 | 30.6 |"]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["a title", *TABLE, "the end"], 5),
        (["a title", *TABLE[:2], "the end"], 0),  # a header alone
        ([f"[rank{rank}]: {line}" for line in ["a title", *TABLE] for rank in (0, 1)], 10),  # between each other's rows
        (["a title", "one | two", "a | b", "the end"], 0),  # no figure
    ],
)
def test_a_table_inside_a_log_is_known_by_its_rows(lines: list[str], found: int) -> None:
    detected = detect(chunk(*lines), [*FORMATS, *GENERIC])
    assert sum(each.lines for each in detected.formats) == found


def test_formats_with_rows_come_before_formats_with_settings() -> None:
    """Then the one that reads more."""
    found = [each.format.name for each in detect(chunk(*[NCCL] * 3, STEP.format(1)), FORMATS).formats]
    assert found == ["torchtitan", "nccl_tests"]


@pytest.mark.parametrize(("read", "proves"), [(1, True), (0, False)])
def test_a_line_that_is_known_in_part_proves_its_format_where_a_tenth_of_the_log_is_of_it(
    read: int, proves: bool
) -> None:
    line = Line("part", FORMATS[0].lines[0].template, partial=True)
    form = replace(FORMATS[0], lines=(line,))
    owner = {0: np.arange(1 + read), -1: np.arange(0)}
    batch: Any = type("Batch", (), {
        "records": {0: Records(np.arange(1 + read) << 32)}, "owner": owner, "chunk": chunk(*["x"] * 20),
        "text": lambda self, position: "x",
    })()  # fmt: skip
    found = detection._detected([form], [(form, line)], batch)
    assert [(each.lines, each.share) for each in found] == ([(2, 0.1)] if proves else [])


def test_a_generic_format_beside_the_steps_of_a_program_reads_no_steps() -> None:
    forms = [form for each in GENERIC if (form := detection._without_steps(each)) is not None]
    assert 0 < len(forms) < len(GENERIC)
    for form in forms:
        assert form.library and not form.lines and form.families
        families: Any = form.families
        shapes = [family.shape for family in families]
        assert all(shape.beside_steps and not shape.line.fills_steps for shape in shapes)
    assert detection._without_steps(FORMATS[0]) is None
