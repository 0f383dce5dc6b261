"""Lines with a step and a number without a name."""

from __future__ import annotations

from perflog.formats.families.unnamed_values import parts_of


def test_the_number_after_a_step_has_no_name() -> None:
    assert parts_of("x step 00010: 3.21") == ("x ", "step {step:05d}: {unnamed:.2f}", "")
    assert parts_of("Iter 12, 3.21") == ("", "Iter {step:d}, {unnamed:.2f}", "")
    assert parts_of("step 12/20 - 1e-5 3.1 ms") == ("", "step {step:d}/{__:d} - {unnamed:r}", " 3.1 ms")


def test_a_whole_number_may_be_a_count_and_a_step_has_64_bits() -> None:
    others = ("step 12: 3", "step 12:3.21", "12: 3.21", f"step {2**64}: 3.2")
    assert [parts_of(text) for text in others] == [None] * 4
