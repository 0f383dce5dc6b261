"""Times and shares in messages of findings."""

from __future__ import annotations

from perflog.analysis.lint.wording import percent, seconds, time_range


def test_times_have_a_unit_that_suits_them() -> None:
    assert [seconds(value) for value in (0.0031, 2, 90)] == ["3.1 ms", "2 s", "90 s"]
    assert time_range([0.004, 0.0031, 0.0035]) == "3.1 ms to 4 ms"
    assert time_range([0.00400001, 0.004]) == "4 ms"


def test_shares_below_one_percent_have_another_digit() -> None:
    assert [percent(share) for share in (0.1234, -0.5, 0.01, 0.0099, -0.00999)] == [
        "12.3 %", "-50.0 %", "1.0 %", "0.99 %", "-1.00 %"
    ]  # fmt: skip
    assert [percent(share, sign=True) for share in (0.1234, -0.5, 0.001)] == ["+12.3 %", "-50.0 %", "+0.10 %"]
