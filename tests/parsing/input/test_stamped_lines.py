"""Below the time stamps of a CI system tables are read as tables, and labels as labels."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.parsing.input.stamped_lines import are_stamped

TABLE = (
    "Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)\n"
    "--------------------------------------------------------------\n"
    "4096                1              0.229964       17.8\n"
    "4096                2              0.415997       9.8\n"
    "8192                1              0.462063       17.7\n"
)


def stamped(text: str, stamp: str) -> bytes:
    return "".join(f"{stamp % (k % 10)} {line}\n" for k, line in enumerate(text.splitlines())).encode()


@pytest.mark.parametrize(
    "stamp", ["[2026-02-24T08:52:1%d.373Z]", "2026-02-24T08:52:1%d.3731234Z", "[2026-02-24 08:52:1%d]"]
)
def test_a_table_below_stamps_is_read(stamp: str) -> None:
    rows = read(stamped(TABLE, stamp)).rows("values")
    assert [row["value"] for row in rows if row["key"] == "Avg_Lat"] == pytest.approx([17.8e-6, 9.8e-6, 17.7e-6])


ROW = "   536870912     134217728     float     sum      -1   1806.7  297.16  586.06      0   1835.9  292.43  576.74\n"


@pytest.mark.parametrize(
    ("text", "stamp", "found"),
    [
        (TABLE, "2026-02-24 08:52:1%d", True),
        ("# header\n" * 3 + ROW, "2026-02-24 08:52:1%d", True),  # nccl-tests
        ("step 1 loss 2.5\n" * 5, "2026-02-24 08:52:1%d", False),  # of a logger: no table
        ("step 1 loss 2.5\n" * 5, "2026-02-24T08:52:1%d.373Z", True),
        ("INFO step 1 loss 2.5\n" * 5, "2026-02-24T08:52:1%d.373Z", False),
        (TABLE + "a 1\n" * 9, "2026-02-24T08:52:1%d.373Z", True),
        ("-" * 20 + "\n" + "a\n" * 2, "2026-02-24T08:52:1%d.373Z", False),  # too few lines
        ("INFO " + "-" * 20 + "\n" + "INFO a\n" * 5, "2026-02-24T08:52:1%d.373Z", False),  # the rule of a logger
    ],
)
def test_stamps_that_are_not_the_programs_own(text: str, stamp: str, found: bool) -> None:
    log = stamped(text, stamp)
    assert are_stamped(log) == found
    assert not are_stamped(text.encode())


def test_a_table_whose_column_the_stamps_are_keeps_it() -> None:
    rows = stamped("4 5 6 7\n" * 20, "2026-02-24T08:52:1%d.373Z")
    assert are_stamped(rows) and not are_stamped(b"timestamp power util mem\n" + rows)


def test_the_rank_behind_a_stamp_is_the_rank() -> None:
    text = "".join(f"[rank{k % 2}]: step: {k // 2 + 1} loss: 2.5 step_time: 0.{k + 1} s\n" for k in range(8))
    rows = read(stamped(text, "2026-02-24T08:52:1%d.3731234Z")).rows("steps")
    assert {row["rank"] for row in rows} == {0, 1}
