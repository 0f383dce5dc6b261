"""Profiler tables: rows that contradict themselves, first calls, names that are no keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Seen, count, percent, seconds, some

_SHARE = 2e-4  # two decimals of a percent, and the rounding of both times
_SHARE_OF_ONE = 6e-4  # the same where a table prints one decimal
_AVERAGE = 0.01  # five digits, cut and not rounded
_FIRST, _OTHERS = 0.5, 10  # one call: of the row's time, and over the mean of the others
_TELLING = 1e-3  # of the longest row: a first call that matters
_MUCH = 0.1


@rule(
    code="row-inconsistent",
    severity="error",
    title="a row of a profile contradicts itself",
    why="Minimum, average and maximum are out of order, calls times average is not the time, or the shares are not "
    "those of the times: rows are missing, or the table was edited.",
    action="do not use the table; export the profile again",
    needs=("kernels",),
)
def row_inconsistent(seen: Seen) -> Iterator[Finding]:
    """Whether min <= avg <= max, calls x avg = time, share = time over that of its category, by printed digits."""
    for run in seen.runs:
        rows = run["kernels"]
        slack = _AVERAGE * rows["avg_s"]
        order = (rows["min_s"] > rows["avg_s"] + slack) | (rows["avg_s"] > rows["max_s"] + slack)
        product = (rows["time_s"] - rows["calls"].astype("float64") * rows["avg_s"]).abs()
        calls = product > _AVERAGE * rows["time_s"] + rows["calls"].astype("float64") * 1e-9
        groups = rows.groupby(["section", "category"], dropna=False)
        tenths = (rows["share"] * 1e3 - (rows["share"] * 1e3).round()).abs() < 1e-6
        slack_of = tenths.groupby([rows["section"], rows["category"]], dropna=False).transform("all")
        slack_of = slack_of.map({True: _SHARE_OF_ONE, False: _SHARE})
        share = (rows["share"] - rows["time_s"] / groups["time_s"].transform("sum")).abs() > slack_of
        share &= (groups["share"].transform("sum") - 1).abs() < _AVERAGE  # else the table shows its longest rows alone
        wrong = {"min <= avg <= max": order, "calls x avg = time": calls, "share = time / sum of times": share}
        failing = {k: rows[w] for k, w in wrong.items() if w.any()}
        if failing:
            said = (f"`{k}` fails on {len(w):,} of {len(rows):,} rows" for k, w in failing.items())
            at = [line for w in failing.values() for line in w["line"]]
            yield Finding(run.id, "; ".join(said), {run.id: at}, {k: len(w) for k, w in failing.items()})


@rule(
    code="first-call",
    severity="warning",
    title="one call is most of a row's time",
    why="The average of the row is that of no call: one, mostly the first, paid for set-up. Time and share of the row "
    "shrink in a longer run.",
    action="use (time - max) / (calls - 1) for a call, and tell the first one apart",
    needs=("kernels",),
)
def first_call(seen: Seen) -> Iterator[Finding]:
    """Rows of several calls whose longest is over half of their time and ten times the mean of the others."""
    for run in seen.runs:
        rows = run["kernels"]
        rows = rows[(rows["calls"] > 1) & (rows["max_s"] >= _TELLING * rows["time_s"].max())]
        rest = (rows["time_s"] - rows["max_s"]) / (rows["calls"].astype("float64") - 1)
        found = rows.assign(rest_s=rest)[(rows["max_s"] > _FIRST * rows["time_s"]) & (rows["max_s"] > _OTHERS * rest)]
        if not len(found):
            continue
        longest = found.sort_values("max_s", ascending=False).drop_duplicates("name")
        said = (
            f"{r['name']} {seconds(r['max_s'])} of {seconds(r['time_s'])} in {r['calls']} calls, the others "
            f"{seconds(r['rest_s'])} on average"
            for r in longest.to_dict("records")
        )
        message = f"{count(len(found), 'row')}: {some(said, 3)}"
        numbers = {"rows": longest[["name", "time_s", "max_s", "rest_s"]].head(10).to_dict("records")}
        yield Finding(run.id, message, {run.id: found["line"]}, numbers)


@rule(
    code="calls-unlisted",
    severity="note",
    title="costly API calls stand in no range",
    why="Tables of ranges list only calls that put work on the GPU. Waiting for it is missing there: API shares of a "
    "range are not shares of its host time.",
    action="look for waiting in the table without range",
    needs=("kernels",),
)
def calls_unlisted(seen: Seen) -> Iterator[Finding]:
    """API calls above 10 % of the API time that are in no range, where ranges list API calls."""
    for run in seen.runs:
        api = run["kernels"][run["kernels"]["kind"] == "api"]
        listed, whole = api[api["range"].notna()], api[api["range"].isna()]
        missing = whole[~whole["name"].isin(listed["name"])]
        share = missing["time_s"] / whole["time_s"].sum()
        if len(listed) and (share > _MUCH).any():
            told = zip(missing["name"][share > _MUCH], share[share > _MUCH], strict=True)
            message = f"of the API time {some(f'{n} {percent(x)}' for n, x in told)} is in no range"
            at = missing["line"][share > _MUCH]
            yield Finding(run.id, message, {run.id: at}, {"share": float(np.max(share))})


@rule(
    code="name-twice",
    severity="note",
    title="a name stands twice in one table",
    why="The name is no key: a lookup by name finds one of the rows, a join doubles them.",
    action="add the rows of a name up before looking it up",
    needs=("kernels",),
)
def name_twice(seen: Seen) -> Iterator[Finding]:
    """Rows of one section, category and name."""
    for run in seen.runs:
        rows = run["kernels"]
        twice = rows[rows.duplicated(["section", "category", "name"], keep=False)]
        if len(twice):
            message = f"{count(len(twice), 'row')}: {some(dict.fromkeys(twice['name']))}"
            yield Finding(run.id, message, {run.id: twice["line"]}, {"names": twice["name"].unique().tolist()})
