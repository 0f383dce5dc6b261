"""A study of `perflog track`: how often it tells a change that is none, and after how many nights it confirms one.

Run it with `python bench/track.py [--trials N] [--otava PYTHON]`. Each trial is a series of nights; a change comes
after `BEFORE` of them. Scatter between nights is normal, or has heavy tails (Student's t with 3 degrees of freedom, the
same scatter).

A second table counts cuts in series of 60 nights with none or two changes, whose nights also follow each other, drift,
or have outliers. PYTHON is the interpreter of an environment with apache-otava, whose cuts are counted beside.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.many_runs.version_levels import LAST_P
from perflog.statistics.levels import course

BEFORE, AFTER = 20, 10
SCATTERS = (0.002, 0.005, 0.01)
CHANGES = (0.01, 0.02, 0.05)

LENGTH, CUTS, NEAR = 60, (20, 40), 3  # nights of a series; where a stretch of it is slower; how far off a cut may be
KINDS = ("normal", "heavy tails", "5 % outliers", "AR(0.3)", "AR(0.6)", "drift of 3 sd")
STRETCHES = (0.0, 2.0, 4.0)  # how much slower, in standard deviations of a night
OTAVA_P = (0.001, 0.05)
OTAVA = f"""
import json, sys
from otava.analysis import compute_change_points
found = [[[int(cut.index) for cut in compute_change_points(figures, max_pvalue=p)[0]] for p in {OTAVA_P}]
         for figures in json.load(sys.stdin)]
print(json.dumps(found))
"""


def nights(kind: str, scatter: float, rng: np.random.Generator, count: int) -> Floats:
    """Logarithms of a figure in nights of equal programs."""
    if kind == "normal":
        return rng.normal(0, scatter, count)
    return scatter / math.sqrt(3) * rng.standard_t(3, count)


def course_of_nights(kind: str, rng: np.random.Generator) -> Floats:
    """Figures of nights of equal programs, with a standard deviation of 1 beside outliers and drift."""
    if kind == "heavy tails":
        return nights(kind, 1.0, rng, LENGTH)
    figures = rng.normal(0, 1, LENGTH)
    if kind == "5 % outliers":
        far = rng.random(LENGTH) < 0.05
        figures[far] += rng.choice([-10, 10], far.sum())
    elif kind.startswith("AR"):
        follows = float(kind[3:-1])
        for k in range(1, LENGTH):
            figures[k] = follows * figures[k - 1] + math.sqrt(1 - follows**2) * figures[k]
    elif kind.startswith("drift"):
        figures += np.linspace(0, 3, LENGTH)
    return figures


def counted(found: Sequence[int], true: Sequence[int]) -> tuple[int, int, list[int]]:
    """Return the number of false cuts, that of missed ones, and how far off the others are, in nights."""
    left, off = list(true), []
    for cut in found:
        if near := [each for each in left if abs(each - cut) <= NEAR]:
            best = min(near, key=lambda each: abs(each - cut))
            left.remove(best)
            off.append(abs(best - cut))
    return len(found) - len(off), len(left), off


def print_cuts(trials: int, otava: str | None) -> None:
    """Print false cuts and missed ones of a series, and the mean distance in nights of the others, by tool."""
    tools = ["perflog", *(f"Otava, p {p}" for p in OTAVA_P if otava)]
    print("| nights | slower by |", *(f"{tool}: false | missed | off |" for tool in tools))
    print("| --- | ---: |" + " ---: | ---: | ---: |" * len(tools))
    for kind in KINDS:
        for slower in STRETCHES:
            rng = np.random.default_rng(crc32(kind.encode()))
            series = [course_of_nights(kind, rng) for _ in range(trials)]
            for figures in series:
                figures[slice(*CUTS)] += slower
            cuts = [[[level.start for level in course(figures).levels[1:]]] for figures in series]
            if otava:
                texts = json.dumps([(100 + figures).tolist() for figures in series])
                ran = subprocess.run([otava, "-c", OTAVA], input=texts, capture_output=True, text=True, check=True)
                cuts = [mine + theirs for mine, theirs in zip(cuts, json.loads(ran.stdout), strict=True)]
            cells = []
            for found in zip(*cuts, strict=True):
                false, missed, off = zip(*(counted(each, CUTS if slower else ()) for each in found), strict=True)
                distance = np.mean(np.concatenate(off)) if any(off) else math.nan
                cells += [
                    f"{np.mean(false):.2f}",
                    f"{np.mean(missed):.2f}",
                    "" if math.isnan(distance) else f"{distance:.1f}",
                ]
            print(f"| {kind} | {f'{slower:g} sd' if slower else 'no change'} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--otava", metavar="PYTHON", help="interpreter that has apache-otava")
    arguments = parser.parse_args()
    trials = arguments.trials
    print_cuts(trials, arguments.otava)
    print()
    print(
        "| scatter | nights | equal: a level | equal: last night | change | first night | confirmed 2nd | 3rd | 5th |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in ("normal", "heavy tails"):
        for scatter in SCATTERS:
            rng = np.random.default_rng(crc32(f"{kind} {scatter}".encode()))
            equal = [course(nights(kind, scatter, rng, BEFORE)) for _ in range(trials)]
            false = (
                np.mean([len(each.levels) > 1 for each in equal]),
                np.mean([each.last_p <= LAST_P for each in equal]),
            )
            for change in CHANGES:
                told = np.zeros((trials, 4))
                for trial in range(trials):
                    figures = nights(kind, scatter, rng, BEFORE + AFTER)
                    figures[BEFORE:] += math.log1p(change)
                    told[trial, 0] = course(figures[: BEFORE + 1]).last_p <= LAST_P
                    for k, after in enumerate((2, 3, 5), 1):
                        levels = course(figures[: BEFORE + after]).levels
                        told[trial, k] = len(levels) > 1 and abs(levels[-1].start - BEFORE) <= 1
                shares = " | ".join(f"{share:.1%}" for share in (*false, change, *told.mean(axis=0)))
                print(f"| {kind}, {scatter:.1%} | {BEFORE} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
