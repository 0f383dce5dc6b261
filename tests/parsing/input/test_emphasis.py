"""Marks of emphasis around names and numbers in lists of Markdown are not there for templates."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.parsing.input.emphasis import has_emphasis, without_emphasis

MARKED = {
    "- **TTFT**: 12.5 ms": "- TTFT: 12.5 ms",
    "* `tok/s` = 3201": "* tok/s = 3201",
    "  2. training time: `116.30` min": "  2. training time: 116.30 min",
    "**Latency (p99):** 12.1 ms": "Latency (p99): 12.1 ms",
    "- Step time: **412 ms**": "- Step time: 412 ms",
}


@pytest.mark.parametrize(("line", "plain"), MARKED.items())
def test_marks_in_pairs_are_removed(line: str, plain: str) -> None:
    assert has_emphasis(line.encode())
    for size in (1, 5, 100):
        data = f"{line}\nx = **2** `a`\n{line}".encode()
        text = b"".join(without_emphasis(data[k : k + size] for k in range(0, len(data), size)))
        assert text.decode() == f"{plain}\nx = **2** `a`\n{plain}"


@pytest.mark.parametrize("text", ["step 1, loss 2.5", "use `pip install`: 3 ways", "a ** b", "| **x** | **1** |"])
def test_other_logs_have_none(text: str) -> None:
    assert not has_emphasis(text.encode())


def test_figures_are_read() -> None:
    rows = read(b"## Results\n\n- **TTFT**: 12.5 ms\n- **Throughput**: 1,234.5 tok/s\n").rows("values")
    assert {row["key"]: row["value"] for row in rows if row["value"] is not None} == {
        "TTFT": 0.0125, "Throughput_tokens_per_s": 1234.5,
    }  # fmt: skip
