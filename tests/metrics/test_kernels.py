"""Shares of kernels: what FACTS.md says of the profile (003), and made-up profiles."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.metrics_logs import by_hand, rows
from support.profiles import WHERE, nvprof_profile, profile_of
from support.seeds import MS

import perflog
from perflog.metrics import kernels, ranges
from perflog.metrics.profiles.kernel_categories import OTHER, category
from perflog.metrics.profiles.kernels import BY_SHARES, profile_shares, with_activity
from perflog.metrics.run_tables import Tables


@pytest.fixture(scope="module", params=WHERE)
def profile(request: pytest.FixtureRequest) -> perflog.Log:
    return nvprof_profile(request.param)


# --- shares -----------------------------------------------------------------------------------------------------------


def test_printed_shares_come_out(profile: perflog.Log) -> None:
    """All 616 rows in all 36 tables: time over the sum of the table's category, within what is printed."""
    given = with_activity(Tables(profile))
    found = profile_shares(given)
    assert len(found) == 616 and found["section"].nunique() == 36
    assert ((found["share"] - given["share"]).abs() < 0.0000515).all()
    sums = found.groupby(["section", "of"])["share"].sum()
    assert len(sums) == 36 + 36 + 35 and ((sums - 1).abs() < 1e-12).all()


def test_shares_of_the_profile_by_name(profile: perflog.Log) -> None:
    found = kernels(profile)
    gpu, api = (rows(found, by="name", of=of) for of in ("gpu", "api"))
    assert (len(gpu), len(api)) == (30, 51)
    assert {r["denominator"] for r in gpu} == {"sum of GPU activities"}
    assert {r["denominator"] for r in api} == {"sum of API calls"}
    assert {round(r["denominator_s"], 2) for r in gpu} == {11.19}
    assert round(sum(r["share"] for r in gpu if "sgemm" in r["name"]), 3) == 0.885
    (sync,) = rows(found, name="cudaDeviceSynchronize")
    assert round(sync["share"], 2) == 0.69
    assert [n for n, count in Counter(r["name"] for r in api).items() if count > 1] == ["cuGetProcAddress"]


def test_shares_of_the_profile_by_category(profile: perflog.Log) -> None:
    found = kernels(profile)
    gpu = rows(found, by="category", of="gpu")
    assert gpu[0]["category"] == "gemm"
    assert (gpu[0]["calls"], round(gpu[0]["share"], 3)) == (2336, 0.885)
    assert OTHER not in {r["category"] for r in gpu}
    for of in ("gpu", "api"):
        names, kinds = (rows(found, by=by, of=of) for by in ("name", "category"))
        for column in ("time_s", "calls", "share"):
            assert sum(r[column] for r in names) == pytest.approx(sum(r[column] for r in kinds), rel=1e-12)
        assert sum(r["share"] for r in kinds) == pytest.approx(1)


def test_gpu_work_by_range_is_of_the_whole_profile(profile: perflog.Log) -> None:
    found = {r["name"]: r for r in rows(kernels(profile), by="range", of="gpu")}
    assert len(found) == 35
    assert round(found["Train step 0"]["time_s"], 3) == 8.104
    assert found["Train step 0"]["share"] == pytest.approx(8.104 / 11.1906, abs=1e-4)
    assert sum(r["share"] for r in found.values()) > 1  # ranges nest


def test_host_time_of_ranges_is_a_share_of_nothing(profile: perflog.Log) -> None:
    found = {r["name"]: r for r in rows(kernels(profile), by="range", of="range")}
    assert len(found) == 35
    assert {(r["share"], r["denominator"]) for r in found.values()} == {(None, None)}


def test_all_columns_of_a_small_profile() -> None:
    """10 s of GPU work, two names of which are one category, and 7 s of calls, one of them slow the first time."""
    work = [
        ("kernel", "GPU activities", "sgemm_a", 4, 5.0, 3.0), ("kernel", "GPU activities", "sgemm_b", 2, 1.0, 0.75),
        ("kernel", "GPU activities", "relu_kernel", 3, 3.0, 2.0),
        ("memcpy", "GPU activities", "[CUDA memcpy HtoD]", 1, 1.0, 1.0),
        ("api", "API calls", "cudaMalloc", 3, 5.0, 4.5), ("api", "API calls", "cudaLaunchKernel", 8, 2.0, 0.75),
    ]  # fmt: skip
    printed = [
        {"section": 2, "domain": "app", "kind": kind, "category": group, "name": name, "calls": calls, "time_s": time,
         "avg_s": time / calls, "max_s": most}
        for kind, group, name, calls, time, most in work
    ]  # fmt: skip
    gpu = {"of": "gpu", "denominator": "sum of GPU activities", "denominator_s": 10.0}
    api = {"of": "api", "denominator": "sum of API calls", "denominator_s": 7.0}
    first = {"first_call_s": 4.5, "avg_rest_s": 0.25}
    expected: list[dict[str, Any]] = [
        {"by": "name", "calls": calls, "time_s": time, "max_s": most, "category": category, "name": name,
         "domain": "app", "first_line": line} | of
        for line, ((*_, name, calls, time, most), category, of) in enumerate(zip(work, (
            "gemm", "gemm", "elementwise", "memcpy", "allocation", "launch"), (gpu, gpu, gpu, gpu, api | first, api),
            strict=True), 1)
    ]  # fmt: skip
    expected += [
        {"by": "category", "calls": calls, "time_s": time, "max_s": most, "category": category, "name": category,
         "domain": None, "first_line": line} | of
        for category, calls, time, most, line, of in (
            ("gemm", 6, 6.0, 3.0, 1, gpu), ("elementwise", 3, 3.0, 2.0, 3, gpu), ("memcpy", 1, 1.0, 1.0, 4, gpu),
            ("allocation", 3, 5.0, 4.5, 5, api), ("launch", 8, 2.0, 0.75, 6, api))
    ]  # fmt: skip
    same = {"run": "r", "label": None, "section": 2, "first_call_s": None, "avg_rest_s": None}
    assert rows(kernels(by_hand("kernels", printed))) == [
        same
        | row
        | {"share": pytest.approx(row["time_s"] / row["denominator_s"]), "avg_s": row["time_s"] / row["calls"]}
        for row in expected
    ]


def test_first_call_apart(profile: perflog.Log) -> None:
    found = {r["name"]: r for r in rows(kernels(profile), of="range")}
    first = found["ncclAllReduce"]
    assert (first["time_s"], first["first_call_s"]) == (629.69 * MS, 629.49 * MS)
    assert first["avg_rest_s"] == pytest.approx((629.69 - 629.49) / 3 * MS, rel=1e-9)
    assert found["gpt2_forward"]["first_call_s"] is None
    assert found["validation"]["first_call_s"] is None  # a single call is not apart from others
    api = {r["name"]: r["first_call_s"] for r in rows(kernels(profile), of="api", by="name")}
    assert api["cudaFuncGetAttributes"] == 322.29 * MS
    assert api["cudaDeviceSynchronize"] is None


@examples(30)  # each is a metric: 40 ms
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_first_call_is_the_excess_of_the_longest(times: list[int]) -> None:
    row = {"kind": "api", "category": "API calls", "name": "call", "calls": len(times), "time_s": float(sum(times))}
    row |= {"min_s": float(min(times)), "max_s": float(max(times))}
    (found,) = rows(kernels(profile_of([row])), by="name")
    others = sorted(times)[:-1]
    apart = bool(others) and max(times) - sum(others) / len(others) > sum(times) / 2
    assert (found["first_call_s"] is not None) == apart
    if apart:
        assert found["avg_rest_s"] == pytest.approx(sum(others) / len(others))


def test_kinds_are_never_mixed() -> None:
    given: list[dict[str, Any]] = [
        {"kind": "kernel", "category": "GPU activities", "name": "gemm", "calls": 1, "time_s": 3.0},
        {"kind": "memset", "category": "GPU activities", "name": "[CUDA memset]", "calls": 1, "time_s": 1.0},
        {"kind": "api", "category": "API calls", "name": "cudaLaunchKernel", "calls": 2, "time_s": 8.0},
        {"kind": None, "category": "OpenACC (excl)", "name": "acc_enter_data", "calls": 2, "time_s": 5.0},
    ]
    found = rows(kernels(profile_of(given)), by="name")
    assert [(r["of"], r["share"]) for r in found] == [("gpu", 0.75), ("gpu", 0.25), ("api", 1), ("OpenACC (excl)", 1)]


@pytest.mark.parametrize("of", ["api", "gpu"])
def test_ranges_without_a_whole_profile_have_no_shares(of: str) -> None:
    row = {"kind": {"gpu": "kernel"}.get(of, of), "range": "step", "name": "gemm", "calls": 1, "time_s": 1.0}
    found = rows(kernels(profile_of([row])))
    assert [(r["by"], r["share"]) for r in found] == [("range", None)] * (of == "gpu")
    assert len(ranges(profile_of([row]))) == 1


CUT = [("kernel", 30.0, 0.3, 1), ("kernel", 20.0, 0.2, 1)]


def cut_profile(rows_of_table: list[tuple[str, float, float, int]]) -> list[dict[str, Any]]:
    """Kernels with the shares that the profiler printed, in the tables of these numbers."""
    given = [
        {"kind": kind, "name": f"k{i}", "time_s": time_s, "share": share, "calls": 1, "section": section}
        for i, (kind, time_s, share, section) in enumerate(rows_of_table)
    ]
    return rows(kernels(profile_of(given)), by="name", of="gpu")


def test_a_table_that_is_cut_keeps_its_printed_shares() -> None:
    found = cut_profile(CUT)
    assert [row["share"] for row in found] == pytest.approx([0.3, 0.2])
    assert {row["denominator"] for row in found} == {BY_SHARES}
    assert [row["denominator_s"] for row in found] == pytest.approx([100.0, 100.0])


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([("kernel", 30.0, 0.6, 1), ("kernel", 20.0, 0.4, 1)], "all rows are listed"),
        ([("kernel", 30.0, 0.599, 1), ("kernel", 20.0, 0.398, 1)], "less is missing than rounding explains"),
        ([("kernel", 30.0, 0.3, 1), ("kernel", 20.0, 0.4, 1)], "the shares are not of one total"),
        ([("kernel", 30.0, 0.001, 1), ("kernel", 20.0, 0.001, 1)], "the shares are too rough"),
    ],
)
def test_shares_of_a_table_that_is_not_surely_cut(table: list[tuple[str, float, float, int]], why: str) -> None:
    found = cut_profile(table)
    assert [row["share"] for row in found] == pytest.approx([0.6, 0.4]), why


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernelExC", "launch"), ("hipModuleLaunchKernel", "launch"), ("cudaGraphLaunch", "launch"),
        ("cudaDeviceSynchronize", "synchronisation"), ("hipStreamSynchronize", "synchronisation"),
        ("cudaMemcpyAsync", "memcpy"), ("cudaMemsetAsync", "memset"), ("cudaMallocManaged", "allocation"),
        ("cudaFree", "allocation"), ("cudaEventRecord", "event"), ("cudaGetDevice", "device"),
    ],
)  # fmt: skip
def test_what_an_api_call_does(name: str, kind: str) -> None:
    assert category(name, api=True) == kind


def test_rounding_of_shares_explains_less_the_more_they_are() -> None:
    """Shares of 30.0 % and 20.0 %: rounding explains 0.2 % of 100 s, and a table that lacks 1 % more is whole."""
    total = [("kernel", 30.0, 0.3, 1), ("kernel", 20.0, 0.2, 1)]
    rest = [("kernel", time_s, 0.0, 1) for time_s in (48.75, 48.9)]
    cut, whole = (cut_profile([*total, more]) for more in rest)
    assert cut[0]["denominator"] == BY_SHARES and whole[0]["denominator"] == "sum of gpu"


def test_tables_without_a_number_are_sections_too() -> None:
    rows_of_table: list[dict[str, Any]] = [
        {"kind": "kernel", "name": name, "time_s": time_s, "calls": 1, "section": None}
        for name, time_s in (("a", 3.0), ("b", 1.0))
    ]
    assert [row["share"] for row in rows(kernels(profile_of(rows_of_table)), by="name")] == [0.75, 0.25]


def test_a_table_without_printed_shares_does_not_end_the_search_for_those_that_are_cut() -> None:
    found = cut_profile([("kernel", 30.0, 0.0, 1), *((*row[:3], 2) for row in CUT)])
    assert [(row["denominator"], row["share"]) for row in found] == [
        ("sum of gpu", 1), (BY_SHARES, pytest.approx(0.3)), (BY_SHARES, pytest.approx(0.2)),
    ]  # fmt: skip
