"""Lines under the first line of a printed frame, such as that of nvidia-smi, belong to it."""

from __future__ import annotations

from parsing.match.test_opening_block import SMI, STEPS, read_text


def test_rows_of_other_tables_are_no_rows_of_the_frame() -> None:
    """A row of the frame has the address of a GPU."""
    rows = "|   0  mean of the layers             On  |   0.25             Off |                    0 |\n"
    reading = read_text(f"{STEPS}\n{rows}")
    assert reading.done.lines["unread"] == 1
    reading = read_text(f"{STEPS}\n{SMI}another line\n{rows}")
    assert reading.done.lines["unread"] == 2


def test_a_frame_may_begin_where_a_chunk_ends() -> None:
    for chunk in range(60, 400, 20):
        assert read_text(f"{STEPS}\n{SMI}", chunk).done.lines["unread"] == 0, chunk


def test_the_frame_may_have_a_rank_label() -> None:
    labelled = "".join(f"0: {line}\n" for line in f"{STEPS}\n{SMI}".splitlines())
    assert read_text(labelled).done.lines["unread"] == 0
