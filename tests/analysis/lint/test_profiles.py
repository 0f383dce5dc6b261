"""Rules on profiler tables: rows that contradict themselves, first calls, names, and ranges that mislead."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from support.linted import TableRow, linted, messages

from perflog.analysis.lint import Finding
from perflog.analysis.lint import profiles as module


def row(name: str, calls: int, time_s: float, section: int = 1, **more: Any) -> TableRow:
    """A kernel in the table without a range, with calls that all take equally long."""
    each = time_s / calls
    usual = {"table": "kernels", "kind": "kernel", "category": "GPU activities", "share": None}
    times = {"name": name, "calls": calls, "time_s": time_s, "min_s": each, "avg_s": each, "max_s": each}
    return usual | times | {"section": section} | more


def span(name: str, calls: int, host_s: float, section: int, *work: TableRow) -> list[TableRow]:
    """A range with its own table, and the GPU rows in it."""
    own = row(name, calls, host_s, section, kind="range", category="Range", range=name)
    return [own, *(each | {"section": section, "range": name} for each in work)]


def one(code: str, rows: list[TableRow]) -> Finding:
    (finding,) = linted(code, rows)
    return finding


# --- rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "formula"),
    [
        ({"min_s": 1.0099}, None),
        ({"min_s": 1.011}, "min <= avg <= max"),
        ({"max_s": 0.9901}, None),
        ({"max_s": 0.989}, "min <= avg <= max"),
        ({"min_s": 0.0, "max_s": 50.0}, None),
        ({"time_s": 4.041}, "calls x avg = time"),
        ({"time_s": 4.04}, None),
        ({"time_s": 3.961}, None),
        ({"time_s": 3.96}, "calls x avg = time"),
    ],
)
def test_an_average_out_of_order_and_a_product_that_is_not_the_time(changed: dict[str, float], formula: str) -> None:
    """Both have 1 % of slack: an average is printed with five digits."""
    found = linted("row-inconsistent", [row("a", 4, 4.0) | changed, row("b", 2, 1.0)])
    assert [each.numbers for each in found] == ([{formula: 1}] if formula else [])
    assert [each.message for each in found] == ([f"`{formula}` fails on 1 of 2 rows"] if formula else [])


def test_short_calls_may_differ_by_a_nanosecond_each() -> None:
    """A tool prints whole nanoseconds."""
    short = row("a", 1000, 1e-5)  # 10 ns each
    assert linted("row-inconsistent", [short | {"time_s": 1.1e-5}]) == []
    assert len(linted("row-inconsistent", [short | {"time_s": 1.2e-5}])) == 1


@pytest.mark.parametrize(
    ("shares", "wrong"),
    [
        ((0.75, 0.25), 0),
        ((0.75019, 0.25), 0),  # two decimals of a percent
        ((0.75021, 0.25), 1),
        ((0.74979, 0.25), 1),
        ((0.745, 0.255), 2),
        ((0.748, 0.252), 2),  # one decimal of a percent: three times the slack, and this is more
        ((0.70, 0.25), 0),  # rows are missing: the shares do not add up
        ((None, 0.25), 0),
    ],
)
def test_shares_that_are_not_of_the_times(shares: tuple[float | None, ...], wrong: int) -> None:
    rows = [row(name, 1, time, share=share) for name, time, share in zip("ab", (3.0, 1.0), shares, strict=True)]
    found = linted("row-inconsistent", rows)
    assert [each.numbers for each in found] == ([{"share = time / sum of times": wrong}] if wrong else [])


def test_shares_with_one_decimal_have_more_slack() -> None:
    """Of a percent; 49.95 % are printed as 50.0 %."""
    rows = [row("a", 1, 4995.0, share=0.5), row("b", 1, 5005.0, share=0.5)]
    assert linted("row-inconsistent", rows) == []
    apart = [row("a", 1, 4930.0, share=0.5), row("b", 1, 5070.0, share=0.5)]
    assert one("row-inconsistent", apart).numbers == {"share = time / sum of times": 2}
    # A share with more decimals shows that the table prints two.
    assert one("row-inconsistent", [*rows, row("c", 1, 1.0, share=0.00015)]).numbers == {
        "share = time / sum of times": 2
    }


def test_shares_are_of_the_section_and_the_category() -> None:
    halves = [row(name, 1, 2.0, share=0.5, **place) for name in "ab" for place in (
        {"section": 1}, {"section": 2, "category": None}, {"section": 1, "category": "API calls", "kind": "api"},
    )]  # fmt: skip
    assert linted("row-inconsistent", halves) == []
    halves[1]["share"], halves[4]["share"] = 0.6, 0.4  # of no category
    assert one("row-inconsistent", halves).numbers == {"share = time / sum of times": 2}


def test_the_lines_of_all_formulas_that_fail() -> None:
    rows = [row("a", 4, 4.0), row("b", 4, 4.0, min_s=2.0), row("c", 4, 4.0) | {"time_s": 9.0}]
    finding = one("row-inconsistent", rows)
    assert finding.message == "`min <= avg <= max` fails on 1 of 3 rows; `calls x avg = time` fails on 1 of 3 rows"
    assert list(finding.lines["r"]) == [2, 3]


@pytest.mark.parametrize(
    ("calls", "time_s", "max_s", "found"),
    [
        (11, 20.0, 10.1, True),  # the others take 0.99 on average
        (11, 20.0, 10.0, False),  # half of the time
        (5, 20.0, 10.1, False),  # only 4 times the others
        (11, 2.0, 1.1, True),
        (2, 11.0, 10.0, False),  # 10 times the other one
        (2, 11.0, 10.01, True),
        (1, 10.0, 10.0, False),
    ],
)
def test_a_call_that_takes_most_of_the_time_of_its_row(calls: int, time_s: float, max_s: float, found: bool) -> None:
    rows = [row("a", calls, time_s, max_s=max_s)]
    assert len(linted("first-call", rows)) == found


def test_a_short_first_call_does_not_matter() -> None:
    """It takes less than a thousandth of the longest row."""
    first = row("a", 11, 2.0, max_s=1.5)
    assert len(linted("first-call", [row("long", 1, 1500.0), first])) == 1
    assert linted("first-call", [row("long", 1, 1500.1), first]) == []


def test_first_calls_are_listed_once_for_each_name_the_longest_first() -> None:
    rows = [
        row("a", 11, 20.0, max_s=15.0),
        row("a", 11, 30.0, max_s=25.0, section=2, range="forward"),
        row("step", 11, 40.0, max_s=30.0, section=3, kind="range", range="step"),
        row("c", 11, 2.0, max_s=1.5),
        row("even", 10, 50.0),
    ]
    finding = one("first-call", rows)
    assert finding.message == (
        "4 rows: one call of range step takes 30 s of 40 s in 11 calls (the others 1 s on average), one call of a in "
        "range forward takes 25 s of 30 s in 11 calls (the others 500 ms on average), one call of c takes 1.5 s of 2 s "
        "in 11 calls (the others 50 ms on average)"
    )
    assert finding.numbers["rows"][1] == {"name": "a", "time_s": 30.0, "max_s": 25.0, "rest_s": 0.5}
    assert list(finding.lines["r"]) == [1, 2, 3, 4]


def test_the_numbers_of_ten_rows_are_evidence() -> None:
    """A message names three."""
    finding = one("first-call", [row(f"{n:02}", 11, 20.0 + n, max_s=15.0 + n) for n in range(12)])
    assert [each["name"] for each in finding.numbers["rows"]] == [f"{n:02}" for n in range(11, 1, -1)]
    assert finding.message.count("one call of") == 3


def api(name: str, time_s: float, **more: Any) -> TableRow:
    return row(name, 1, time_s, kind="api", category="API calls") | more


@pytest.mark.parametrize(
    ("waited", "in_range", "found"),
    [
        (2.0, "launch", True),
        (1.0, "launch", False),
        (1.01, "launch", True),
        (9.0, "wait", False),
        (9.0, None, False),
    ],
)
def test_calls_of_the_api_that_no_range_lists(waited: float, in_range: str | None, found: bool) -> None:
    """From 10 % of the API time on. A profile without tables of ranges lists no call in one."""
    rows = [row("gemm", 1, 99.0), api("launch", 10.0 - waited), api("wait", waited)]
    if in_range:
        rows.append(api(in_range, 1.0, section=2, range="step"))
        rows[1] |= {"name": in_range} if in_range == "wait" else {}
    findings = linted("calls-unlisted", rows)
    assert len(findings) == found
    for each in findings:
        assert each.numbers["share"] == pytest.approx(waited / 10)
        assert each.message == f"API time outside of ranges: {waited * 10:.1f} % in wait"
        assert list(each.lines["r"]) == [3]


def test_a_name_that_occurs_twice_in_a_table() -> None:
    rows = [row("a", 1, 1.0), row("b", 1, 1.0), row("a", 2, 1.0)]
    finding = one("name-twice", rows)
    assert (finding.message, finding.numbers) == ("2 rows share a name: a", {"names": ["a"]})
    assert list(finding.lines["r"]) == [1, 3]
    apart = [row("a", 1, 1.0), row("a", 1, 1.0, section=2), row("a", 1, 1.0, category="API calls")]
    assert linted("name-twice", apart) == []


# --- ranges -------------------------------------------------------------------------------------------------------


def held(shared: float, calls: int = 2, inner_calls: int = 1, inner: float = 8.0) -> list[TableRow]:
    """A range of 10 s of work, and one that shares a row of it."""
    same = row("gemm", 4, shared)
    return [
        *span("outer", calls, 11.0, 2, same, row("relu", 1, 10.0 - shared)),
        *span("inner", inner_calls, 9.0, 3, same, row("norm", 1, inner - shared)),
    ]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (held(8.0, inner=8.5), True),
        (held(7.9, inner=8.5), False),  # of the outer range
        (held(8.0, calls=2, inner_calls=2, inner=8.5), False),  # a range around another one
        (held(8.0, calls=2, inner_calls=3, inner=8.5), False),
        (held(8.0, calls=2, inner_calls=1, inner=10.5), False),  # the longer one was entered less often
    ],
)
def test_a_range_that_holds_the_work_of_another_one(rows: list[TableRow], found: bool) -> None:
    """At least 80 % of its GPU time, in rows with equal calls and times; and it was entered more often."""
    findings = linted("range-holds-more", rows)
    assert len(findings) == found
    for each in findings:
        assert each.message == (
            "outer (2 calls, 10 s of GPU time) contains inner (1 call, 8.5 s): 1 row with the same calls and time "
            "in both, 8 s"
        )
        assert each.numbers == {"outer": "outer", "inner": "inner", "shared": 8.0}
        assert list(each.lines["r"]) == [1, 4]


def test_equal_rows_have_the_same_calls() -> None:
    rows = held(8.0, inner=8.5)
    rows[4] |= {"calls": 5}
    assert linted("range-holds-more", rows) == []


@pytest.mark.parametrize(("gpu", "found"), [(1.5, False), (1.51, True)])
def test_a_range_that_takes_less_time_than_its_work(gpu: float, found: bool) -> None:
    rows = [
        *span("short", 1, 1.0, 2, row("gemm", 1, gpu - 0.5), row("copy", 1, 0.25, kind="memcpy"),
            row("set", 1, 0.25, kind="memset"), api("launch", 9.0)),
        *span("even", 1, 3.0, 3, row("gemm", 1, 3.0)),
        *span("host alone", 1, 3.0, 4, api("launch", 3.0)),
        *span("longer", 1, 2.0, 5, row("gemm", 1, 4.0)),
    ]  # fmt: skip
    finding = one("range-host-time", rows)
    listed = "longer 2 s on the host and 4 s on the GPU" + ", short 1 s on the host and 1.51 s on the GPU" * found
    assert finding.message == f"{1 + found} of 3 ranges launch more work than fits their time: {listed}"
    ratios = {"longer": 2.0} | ({"short": gpu} if found else {})
    assert finding.numbers["gpu_over_host"] == pytest.approx(ratios)


@pytest.mark.parametrize(("inner", "found"), [(0.4, False), (0.6, True)])
def test_ranges_that_are_nested(inner: float, found: bool) -> None:
    """Together they take over 5 % more than the whole profile."""
    rows = [
        row("gemm", 1, 10.0),
        api("launch", 100.0),
        *span("outer", 1, 10.0, 2, row("gemm", 1, 10.0)),
        *span("inner", 1, 1.0, 3, row("gemm", 1, inner)),
    ]
    found_messages = messages("ranges-overlap", rows)
    assert found_messages == ["2 ranges add up to 10.6 s of GPU time, the whole profile to 10 s"] * found
    assert messages("ranges-overlap", rows[1:]) == []  # no table without a range


def numbered(*times: float, left: int = 0) -> list[TableRow]:
    """The profile, with calls left over, and ranges `step 0`, ... of this GPU time, with calls of two kernels."""
    ranges = [span(f"step {n}", 1, t, n + 2, row("gemm", 4, t / 2), row("relu", 2, t / 2)) for n, t in enumerate(times)]
    whole = [row("gemm", 4 * len(times) + 2 * left, sum(times)), row("relu", 2 * len(times) + left, sum(times))]
    return [*whole, *(each for rows in ranges for each in rows)]


def test_a_profile_that_was_cut_in_a_range() -> None:
    (finding,) = linted("profile-cut", numbered(1.0, 1.0, 1.0, left=2))
    assert finding.message == (
        "6 kernel calls are outside of step 0 to step 2, of each kernel as many as in step 0: one more range began and "
        "did not end"
    )
    assert finding.numbers == {"kernel_calls_left": 6, "like": "step 0"}
    assert list(finding.lines["r"]) == [3, 6, 9]


def test_each_sequence_of_ranges_may_be_cut() -> None:
    """An epoch ends with each of two steps; neither the last step nor its epoch did."""
    rows = numbered(1.0, 1.0, left=2)
    for n in range(2):
        rows += span(f"epoch {n}", 1, 1.0, 7 + n, row("gemm", 4, 0.5), row("relu", 2, 0.5))
    (finding,) = linted("profile-cut", [*rows, {"table": "values", "key": "invalid_ranges", "value": 2.0}])
    assert finding.message.count("one more range began") == 2
    assert finding.numbers == {"kernel_calls_left": 6, "like": "step 0", "invalid_ranges": 2.0}
    assert list(finding.lines["r"]) == [9, 12, 3, 6, 15]


def test_a_profile_with_no_calls_left_or_others_is_not_cut() -> None:
    assert linted("profile-cut", numbered(1.0, 1.0)) == []
    assert linted("profile-cut", numbered(1.0, 1.0, left=1)) == []  # half a range
    assert linted("profile-cut", numbered(1.0, left=2)) == []  # one range is no sequence
    twice = [each | {"calls": 2} if each["kind"] == "range" else each for each in numbered(1.0, 1.0, left=2)]
    assert linted("profile-cut", twice) == []  # each entered twice
    same = [each | {"name": "step 0"} if each["kind"] == "range" else each for each in numbered(1.0, 1.0, left=2)]
    assert linted("profile-cut", same) == []
    assert linted("profile-cut", numbered(1.0, 1.0, left=2)[2:]) == []  # no table of the whole profile


def test_the_profiler_reports_that_it_was_cut() -> None:
    printed = {"invalid_range_markers": 2.0, "invalid_ranges": 0.0, "loss": 3.0, "invalid_calls": 1.0}
    values = [{"table": "values", "key": key, "value": value} for key, value in printed.items()]
    rows = [row("gemm", 1, 1.0), *values]
    (finding,) = linted("profile-cut", rows)
    assert finding.message == ("the profiler reports invalid range markers: 2; the profiler reports invalid calls: 1")
    assert finding.numbers == {"invalid_range_markers": 2.0, "invalid_calls": 1.0}
    assert list(finding.lines["r"]) == [2, 5]


def test_a_numbered_range_that_takes_longer_than_twice_the_median() -> None:
    assert linted("range-outlier", numbered(1.0, 1.0, 2.0)) == []
    extra = span("validation", 1, 1.0, 9, row("eval", 1, 1.1))
    for rows, cause in ((numbered(1.0, 1.0, 2.1), ""), ([*numbered(1.0, 1.0, 2.1), *extra], "validation")):
        finding = one("range-outlier", rows)
        said = f"; the difference is the time of {cause}" if cause else ""
        assert finding.message == f"step 2 has 2.1 s of GPU time, the median is 1 s{said}"
        assert finding.numbers == {"gpu": pytest.approx(2.1), "median": 1.0}
        assert list(finding.lines["r"]) == [9]


@pytest.mark.parametrize(("time", "said"), [(1.112, False), (1.11, True), (1.09, True), (1.088, False)])
def test_the_cause_of_a_long_range_takes_within_1_percent_of_the_difference(time: float, said: bool) -> None:
    rows = [*numbered(1.0, 1.0, 2.1), *span("validation", 1, 1.0, 9, row("eval", 1, time))]
    assert one("range-outlier", rows).message.endswith("validation") == said


@pytest.mark.parametrize(
    ("least", "most", "fails"), [(1.0e-3, 1.0e-3, False), (1.009e-3, 2e-3, False), (1.011e-3, 2e-3, True),
                                 (0, 0.991e-3, False), (0, 0.989e-3, True)],
)  # fmt: skip
def test_an_average_outside_its_range(least: float, most: float, fails: bool) -> None:
    """By more than a hundredth: it may be cut after five digits."""
    rows = pd.DataFrame([{"min_s": least, "avg_s": 1e-3, "max_s": most}])
    assert module._average_outside(rows).tolist() == [fails]


@pytest.mark.parametrize(
    ("time", "fails"), [(1.0, False), (1.009, False), (1.011, True), (0.991, False), (0.989, True)]
)
def test_a_time_that_is_not_its_calls(time: float, fails: bool) -> None:
    rows = pd.DataFrame([{"calls": 4, "avg_s": 0.25, "time_s": time}])
    assert module._product_differs(rows).tolist() == [fails]
    tiny = pd.DataFrame([{"calls": 4, "avg_s": 0.0, "time_s": seconds} for seconds in (4e-9, 5e-9)])
    assert module._product_differs(tiny).tolist() == [False, True]  # averages in whole ns
