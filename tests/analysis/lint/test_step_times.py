"""Rules on step times over a run: warm-up, outliers, drift, coarse and derived times, cold starts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pytest
from support.linted import TableRow, linted, messages, steps

NEAR = [1.0, 1.001, 0.999, 1.002, 0.998]


def timed(times: Sequence[float], column: str = "step_time_s", **more: object) -> list[TableRow]:
    return [row for n, time in enumerate(times, 1) for row in steps(n, **{"step_time_s": None, column: time, **more})]


def test_too_few_steps() -> None:
    assert messages("few-steps", timed([1.0] * 5)) == ["5 step times: neither warm-up nor scatter can be judged"]
    assert messages("few-steps", timed([1.0])) == ["1 step time: neither warm-up nor scatter can be judged"]
    assert messages("few-steps", timed([1.0] * 6)) == [] == messages("few-steps", timed([1.0] * 3, "loss"))


def test_the_warm_up() -> None:
    (finding,) = linted("warm-up", timed([3.0, *[1.0] * 39]))
    assert finding.message.endswith(
        ": step 1 takes 3 s, 3.00 times the steady median 1 s; the mean of all steps, 1.05 s, differs by +5.0 % "
        "from the mean of the steady steps"
    )
    assert finding.numbers == {"cut": 1, "first_over_median": 3.0} and finding.evidence["lines"] == {"r": [1]}
    assert messages("warm-up", timed(NEAR * 8)) == []
    (slower,) = messages("warm-up", timed([6.0, *[2.0] * 39]))
    assert "step 1 takes 6 s, 3.00 times the steady median 2 s; " in slower and "2.1 s, differs by +5.0 %" in slower


def test_steady_steps_that_take_much_longer() -> None:
    times = [*NEAR * 4, 2.0, *NEAR * 4, 1.5]
    (finding,) = linted("outliers", timed(times))
    assert finding.message == (
        "2 steady steps beyond 1.02 times the median of 1 s: step 21 2 s, step 42 1.5 s; effect on the steady mean: "
        "+3.6 %"
    )
    assert finding.numbers == {"steps": [21, 42], "longest": 2.0, "median": pytest.approx(1.0)}
    assert finding.evidence["lines"] == {"r": [21, 42]}
    wide = [0.9, 1.0, 1.1, 1.0, 0.95, 1.05] * 5
    assert messages("outliers", timed([*wide, 1.45])) == []
    (beyond,) = messages("outliers", timed([*wide, 1.7]))
    assert beyond.startswith("1 steady step beyond median + 10 MAD (1 s + 500 ms): step 31 1.7 s")


@pytest.mark.parametrize(("time", "is_far"), [(1.0201, True), (1.0199, False)])
def test_a_quiet_run_has_outliers_from_two_percent_on(time: float, is_far: bool) -> None:
    assert bool(messages("outliers", timed([*[1.0, 1.0001] * 10, time, *[1.0] * 8]))) == is_far


def test_the_next_value_of_a_coarse_clock_is_no_outlier() -> None:
    times = [*[14.0] * 20, 14.5, 14.5, *[14.0] * 8]
    rows = [row | {"step_time_by": "bar"} for row in timed(times)]
    assert messages("outliers", rows) == []
    (beyond,) = messages("outliers", [*rows, timed([*times, 16.0])[-1] | {"step_time_by": "bar"}])
    assert beyond.startswith("1 steady step beyond")


@pytest.mark.parametrize(("column", "unit"), [("tokens_per_s", "tokens/s"), ("tflops", "TFLOP/s")])
def test_slow_steps_by_their_rate(column: str, unit: str) -> None:
    rates = [100.0, 100.1, 99.9, 100.2] * 5
    (finding,) = linted("outliers", timed([*rates, 50.0, *rates], column))
    assert finding.message == f"1 steady step far below the median of 100 {unit}: step 21 50 {unit}"
    assert finding.numbers["slowest"] == 50.0
    both = [row | {"step_time_s": 1.0} for row in timed([*rates, 50.0, *rates], column)]
    assert messages("outliers", both) == []  # the times count


@pytest.mark.parametrize(
    ("by", "words"),
    [("line", "time stamps of the lines"), ("bar", "at least 20 s apart"), ("rate", "a printed rate"), (None, None)],
)
def test_times_that_are_derived(by: str | None, words: str | None) -> None:
    rows = [*steps(1), *steps(2, 3, step_time_by=by), *steps(4, step_time_by=by, step_time_s=None)]
    found = linted("derived-times", rows)
    assert [each.numbers for each in found] == ([{"steps": 2}] if words else [])
    assert all(words in each.message and each.first_line == 2 for each in found if words)


def test_the_halves_of_a_run_differ() -> None:
    """From step 20 on each step takes a little longer: there are no levels."""

    def slower(each: float) -> list[float]:
        return [1.0 + 0.0002 * (n % 3) + max(0, n - 20) * each for n in range(60)]

    (finding,) = linted("drift", timed(slower(0.0015)))
    first, second = median(slower(0.0015)[:30]), median(slower(0.0015)[30:])
    change = second / first - 1
    assert finding.numbers == pytest.approx({"first_half": first, "second_half": second, "drift": change})
    assert finding.message.startswith(f"{100 * change:+.1f} % from the first half to the second: the median is 1")
    assert "over steps 1 to 30 and " in finding.message and finding.message.endswith(
        " over steps 31 to 60; their 95 % intervals do not overlap"
    )
    assert finding.evidence["lines"] == {"r": [1, 31, 60]}
    assert linted("drift", timed(NEAR * 12)) == []
    assert linted("drift", timed(slower(0.0003))) == []  # 0.8 %


def test_the_levels_of_a_run() -> None:
    levels = [1.0] * 29 + [1.001] + [1.1] * 29 + [1.101]
    (finding,) = linted("drift", timed(levels))
    assert finding.message.startswith("since step 31: +10.0 %: the median is 1")
    assert finding.message.endswith(" 30, then 1.1 s over steps 31 to 60")
    assert finding.numbers["drift"] == pytest.approx(0.1) and finding.evidence["lines"]["r"][1] == 31
    (three,) = messages("drift", timed([*levels, *[1.3] * 29, 1.301]))
    assert three.startswith("30.0 % between levels: the median is 1") and three.count(" over steps ") == 3


def test_a_level_before_a_change_of_speed_is_no_warm_up() -> None:
    rows = timed([*[0.5, 0.51] * 30, *[0.7, 0.71] * 40])
    assert (linted("warm-up", rows), len(linted("drift", rows))) == ([], 1)


def test_times_that_are_printed_coarsely() -> None:
    coarse = [0.31, 0.32, 0.31, 0.33] * 5
    (finding,) = linted("coarse-times", timed(coarse))
    assert finding.message.startswith("all 20 steady steps take multiples of 10 ms, 3.2 % of their median 315 ms; ")
    assert finding.numbers == {"unit": 0.01, "median": 0.315, "mean": pytest.approx(0.3175)}
    assert linted("coarse-times", timed(coarse[:19])) == []
    assert linted("coarse-times", timed([*coarse, 0.315])) == []  # a millisecond
    assert linted("coarse-times", timed([0.31] * 20)) == []
    assert linted("coarse-times", timed([time + 1 for time in coarse])) == []  # less than 1 %


def test_impossible_times() -> None:
    rows = [*timed([1.0] * 8), *steps(9, step_time_s=-1.0), *steps(10, forward_s=-2.0, backward_s=0.5)]
    phases = [{"table": "phases", "step": 1, "phase": "forward", "time_s": time} for time in (0.5, -3.0)]
    (finding,) = linted("time-impossible", [*rows, *phases])
    assert finding.message == "3 impossible times: step_time -1 s, forward -2 s, time -3 s"
    assert finding.evidence["lines"] == {"r": [9, 10, 12]} and finding.numbers == {"times": 3}
    assert linted("time-impossible", [*rows[:8], phases[0]]) == []


def of_runs(**times: Sequence[float]) -> list[TableRow]:
    """Runs of these step times; the first is `r`."""
    others: list[TableRow] = [{"table": "runs", "run": run} for run in times if run != "r"]
    return others + [row for run, of_run in times.items() for row in timed(of_run, run=run)]


@pytest.mark.parametrize(
    ("code", "clean", "spoiled"),
    [
        ("outliers", NEAR * 8, [*NEAR * 4, 2.0, *NEAR * 4]),
        ("coarse-times", NEAR * 8, [0.31, 0.32, 0.31, 0.33] * 5),
        ("drift", NEAR * 12, [1.0 + max(0, n - 20) * 0.0015 for n in range(60)]),
        ("few-steps", NEAR * 8, NEAR),
    ],
)
def test_each_run_is_judged_by_itself(code: str, clean: list[float], spoiled: list[float]) -> None:
    assert [each.run for each in linted(code, of_runs(r=clean, s=spoiled))] == ["s"]
    assert [each.run for each in linted(code, of_runs(r=spoiled, s=clean))] == ["r"]


COLD, WARM = [3.0, *[1.0] * 9], [1.0] * 10


def test_only_some_runs_of_a_process_have_a_cold_first_step() -> None:
    (finding,) = linted("cold-start-differs", of_runs(r=COLD, s=WARM), process=1)
    assert finding.run == "r" and finding.numbers == {"first_over_median": {"r": 3.0, "s": 1.0}}
    assert finding.lines.keys() == {"r", "s"}
    for runs in ({"r": COLD, "s": COLD}, {"r": WARM, "s": WARM}, {"r": COLD}, {"r": [1.9, *WARM], "s": WARM},
                 {"r": COLD, "s": [1.6, *WARM]}):  # fmt: skip
        assert linted("cold-start-differs", of_runs(**runs), process=1) == []
    assert linted("cold-start-differs", of_runs(r=COLD, s=WARM)) == []  # nothing says that they are of one process
