"""Tables below the time stamps of a CI system are read as tables."""

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
    return "".join(f"{stamp % k} {line}\n" for k, line in enumerate(text.splitlines())).encode()


@pytest.mark.parametrize(
    "stamp", ["[2026-02-24T08:52:1%d.373Z]", "2026-02-24T08:52:1%d.3731234Z", "[2026-02-24 08:52:1%d]"]
)
def test_a_table_below_stamps_is_read(stamp: str) -> None:
    rows = read(stamped(TABLE, stamp)).rows("values")
    assert [row["value"] for row in rows if row["key"] == "Avg_Lat"] == pytest.approx([17.8e-6, 9.8e-6, 17.7e-6])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TABLE, True),
        ("step 1 loss 2.5\n" * 5, False),  # no table: a prefix as any other
        ("gpu0 45 W\n" * 3 + "-" * 20 + "\n" * 1, True),
        ("-" * 20 + "\n" + "a\n" * 2, False),  # too few lines
        ("INFO " + "-" * 20 + "\n" + "a\n" * 5, False),  # the rule of a logger
    ],
)
def test_stamps_count_above_a_table(text: str, found: bool) -> None:
    assert are_stamped(stamped(text, "2026-02-24T08:52:1%d.373Z")) == found
    assert not are_stamped(text.encode())
