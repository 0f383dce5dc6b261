"""Horovod's list of what each rank has not submitted."""

from __future__ import annotations

from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import kinds
from perflog.parsing.failures.origins import Origin
from perflog.parsing.failures.stalled_ranks import StalledRanks
from perflog.tables.row_order import PART_BITS


def stalled() -> StalledRanks:
    return StalledRanks(Failure(5 << PART_BITS, 5, kinds()["exception"], "it stalls", {"a": "1"}, Origin(), ""))


def read(stall: StalledRanks, *lines: str) -> list[bool]:
    return [stall.read(line << PART_BITS, text) for line, text in enumerate(lines, 6)]


def test_ranks_that_lack_all_that_is_listed_are_absent() -> None:
    """Rank 1 waits for `b` alone. `...`: there are more."""
    stall = stalled()
    assert read(stall, "Missing ranks:", "2: [a, b ...]", "1: [b]", "10: [b, a]", "step 7") == [True] * 4 + [False]
    assert stall.stall.values == {"a": "1", "absent": "2, 10"}
    assert (stall.stall.message, stall.stall.last_line) == ("it stalls\nMissing ranks: 2, 10", 9)


def test_nobody_lacks_all() -> None:
    stall = stalled()
    read(stall, "[1,0]<stderr>:Stalled ranks:", "[1,0]<stderr>:0: [a]", "[1,0]<stderr>:1: [b]")
    assert stall.stall.values == {"a": "1"} and stall.stall.message == "it stalls\nMissing ranks: "
    assert stall.lacking == {0: {"a"}, 1: {"b"}}


def test_lines_before_the_list_are_none_of_it() -> None:
    stall = stalled()
    assert read(stall, "One or more tensors were submitted") == [False]
    assert (stall.stall.message, stall.stall.last_line) == ("it stalls", 5)
