"""The spec with which a program prints a number."""

from __future__ import annotations

import pytest

from perflog.ingestion.suggest.number_specs import format_number, spec_of


@pytest.mark.parametrize(
    ("texts", "spec"),
    [
        (["1", "20"], "d"), (["+1", "-2"], "d"), (["0"], "d"), (["01", "02"], "02d"), (["001", "2"], None),
        (["-01"], None), (["+01"], None), (["1" * 18], "d"), (["1" * 19], None), (["-" + "1" * 18], "d"),
        (["1,000", "2"], ",d"), (["1.5", "1,000.5"], ",.1f"), (["1.50", "2.25"], ".2f"), (["1.5", "2.25"], "r"),
        (["5", "1.5"], "g"), (["1.5e-05", "2.5e-05"], ".1e"), (["9" * 37 + ".5"], ".1f"), (["9" * 39 + ".5"], None),
        (["9" * 38 + ".5"], ".1f"), (["007"], "03d"), (["1e5", "2e5"], "r"),
    ],
)  # fmt: skip
def test_the_spec_that_writes_most_numbers_back(texts: list[str], spec: str | None) -> None:
    assert spec_of(texts) == spec


@pytest.mark.parametrize(
    ("text", "spec", "printed"),
    [("1,000.50", ",.2f", "1,000.50"), ("2.5", "r", "2.5"), ("2.50", "r", "2.5"), ("1e-3", ".3f", "0.001")],
)  # fmt: skip
def test_a_number_is_printed_again(text: str, spec: str, printed: str) -> None:
    assert format_number(text, spec) == printed
