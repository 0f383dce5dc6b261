"""Horovod's list of what each rank has not submitted, below the message that a collective is stalled."""

from __future__ import annotations

from msgspec import Struct, field

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.failures.failure import Failure
from perflog.tables.row_order import PART_BITS

_LISTED = "\nMissing ranks: "
_MISSING = lazy_pattern(r"^(?P<before>.*?)(?:Missing|Stalled) ranks:\s*$")
_LACKS = lazy_pattern(r"^(?P<rank>\d{1,7}): \[(?P<tensors>[^\]]+)\]?$")
"""What a rank has not submitted: the first tensors of many."""


class StalledRanks(Struct):
    """The list so far.

    Attributes:
        stall: The failure that it belongs to.
        lacking: By rank, what it has not submitted.
        prefix: What is before each of its lines.
    """

    stall: Failure
    lacking: dict[int, set[str]] = field(default_factory=dict)
    prefix: str = ""

    def read(self, position: int, line: str) -> bool:
        """Read what a rank has not submitted. Ranks that lack all that is listed are absent. False for other lines."""
        stall, lacking = self.stall, self.lacking
        if not lacking and (head := _MISSING.match(line)) is not None:
            self.prefix = head["before"]
            return True
        match = _LACKS.match(line.removeprefix(self.prefix))
        if match is None:
            return False
        lacking[int(match["rank"])] = set(match["tensors"].removesuffix(" ...").split(", "))
        every = set.union(*lacking.values())
        absent = ", ".join(str(rank) for rank, tensors in sorted(lacking.items()) if tensors == every)
        stall.message = f"{stall.message.partition(_LISTED)[0]}{_LISTED}{absent}"
        stall.values = {name: value for name, value in stall.values.items() if name != "absent"}
        stall.values |= {"absent": absent} if absent else {}
        stall.last_line = position >> PART_BITS
        return True
