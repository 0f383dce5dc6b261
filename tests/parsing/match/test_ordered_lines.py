"""Three passes read what only the order of lines shows; what is open after a batch goes on in the next one."""

from __future__ import annotations

from collections.abc import Sequence

from perflog.formats.registry import known
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.ordered.ordered_lines import OpenAtEnd, OrderedLines
from perflog.parsing.match.rank_labels import Labels
from perflog.parsing.match.records import lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

ADVICE = "    OPT   This kernel grid is too small to fill the available resources"
MORE = "          waves across all SMs"
RULE = "=============================================================================="


def read(
    text: str, before: OpenAtEnd | None = None, names: Sequence[str] = ("ncu", "rocm_smi")
) -> tuple[list[int], OpenAtEnd, bool]:
    """The lines that stay unread, what is open after them, and whether the next batch decides."""
    reader, lines = OrderedLines(), lines_of(known()[name] for name in names)
    batch, after = reader.read(lines, Scanner(lines, Labels()).scan(as_chunk(text.encode())), before or OpenAtEnd())
    assert reader.warnings == []
    return [place >> PART_BITS for place in batch.unread.tolist()], after, reader.undecided(lines, batch)


def test_a_block_goes_on_in_the_next_batch() -> None:
    unread, after, _ = read(f"a line of another program\n{ADVICE}\n")
    assert unread == [1]
    assert [line.template.match(ADVICE) is not None for _, line in after.blocks.values()] == [True]
    assert list(after.above) == ["a line of another program", ADVICE]
    assert read(f"{MORE}\n{MORE}\n", after)[:1] == ([],)
    assert read(f"{MORE}\n{MORE}\n")[:1] == ([1, 2],)


def test_only_the_next_batch_shows_what_a_rule_is() -> None:
    """It may begin a block of rocm-smi, or be above the header of a table."""
    for names, text, expected in (
        (["ncu"], f"{ADVICE}\n{MORE}\n", False),
        ([], f"{ADVICE}\n{RULE}\n", False),
        (["rocm_smi"], f"{ADVICE}\n{RULE}\n", True),
        (["ncu"], f"{ADVICE}\n{RULE}\n", True),
    ):
        assert read(text, names=names)[2] is expected, names
