"""A study of `perflog compare` with few runs a side and a history of ten: false alarms, power, coverage.

Run it with `python bench/history.py [--trials N]`. Runs of one session differ little, sessions (days, hosts, jobs) do
more. Sides run in turns in one session, or in one session each; the logs tell the sessions or do not.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
from msgspec import Struct
from study import benchstat, drawn, real_runs, simulated, welch_p

from perflog.analysis.compare.aa import step_time_tests, verdicts
from perflog.analysis.compare.verdicts import VerdictRule
from perflog.arrays import Floats

RULE = VerdictRule(draws=200)
SLOWER = 0.02
FIXED = 0.01
RIVALS = ("Welch, p < 1 %", "benchstat, p < 5 %", f"fixed {FIXED:.0%}")
WITHIN, BETWEEN = 0.00075, 0.006
"""Standard deviations of real speed runs within a session, and of the same program between sessions."""


class Design(Struct, frozen=True):
    """How the runs were measured. Sessions are numbers; a run of number k shares what differs with all of this number.

    `known`: whether the logs tell the sessions. `tested`: whether the history is used.
    """

    name: str
    base: Sequence[int]
    side: Sequence[int]
    history: Sequence[int]
    known: bool = True
    tested: bool = True


TURNS, APART = ((0, 0, 0), (0, 0, 0)), ((0, 0, 0), (1, 1, 1))
PAIRS, NIGHTS = [2, 2, 3, 3, 4, 4, 5, 5, 6, 6], list(range(2, 12))
DESIGNS = (
    Design("in turns", *TURNS, PAIRS, tested=False),
    Design("in turns, history of 5 sessions", *TURNS, PAIRS),
    Design("in turns, history of 10 sessions", *TURNS, NIGHTS),
    Design("apart", *APART, PAIRS, tested=False),
    Design("apart, history of 5 sessions", *APART, PAIRS),
    Design("apart, history of 10 sessions", *APART, NIGHTS),
    Design("apart, history of 10, sessions unknown", *APART, NIGHTS, known=False),
)
TOGETHER = (Design("3 a side", *TURNS, [0] * 10, False, False), Design("3 a side, 10 known", *TURNS, [0] * 10, False))


def tried(runs: Sequence[Floats], design: Design, trial: int, between: float, change: float) -> tuple[bool, ...]:
    """Return whether the interval is right, whether the gate fails, and what the plain methods say."""
    rng = np.random.default_rng(crc32(f"{design.name} {trial}".encode()))
    levels = np.exp(rng.normal(0, between, 20))
    numbers = [*design.base, *design.side, *design.history]
    shifted = [run * levels[k] for run, k in zip(runs, numbers, strict=True)]
    n, both = len(design.base), len(design.base) + len(design.side)
    base, side, history = shifted[:n], [run * (1 + change) for run in shifted[n:both]], shifted[both:]
    groups = (design.base, design.side, design.history)
    names = [tuple(f"session {k}" for k in group) if design.known else () for group in groups]
    tests = step_time_tests((base, side), RULE, f"{trial}", history if design.tested else (), names)
    low, high = tests["mean"][0].interval(RULE.level)
    means = [np.array([run.mean() for run in of_side]) for of_side in (base, side)]
    slower = means[1].mean() > means[0].mean()
    plain = slower and welch_p(*means) < 0.01, benchstat(*means) < 0.05, means[1].mean() > (1 + FIXED) * means[0].mean()
    fails = any(verdict.fails for verdict in verdicts(tests, RULE))
    return low <= math.log1p(change) <= high, fails, *map(bool, plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared", help="folder of campaigns")
    arguments = parser.parse_args()
    families = {f"runs differ by {s:.1%}": (simulated(s, 0.002, 60), 0.0, TOGETHER) for s in (0.002, 0.005, 0.01)}
    arms = [arguments.shared / "campaigns/nanogpt_fp8" / arm for arm in ("baseline", "this_pr")]
    if all(arm.is_dir() for arm in arms):
        of_arms = [real_runs(arm) for arm in arms]
        pool = [run / np.mean([of.mean() for of in runs]) for runs in of_arms for run in runs]
        families["26 real speed runs"] = (drawn(pool), 0.0, TOGETHER)
        families["real speed runs, sessions differ by 0.6 %"] = (drawn(pool), BETWEEN, DESIGNS)
    families["runs differ by 0.075 %, sessions by 0.6 %"] = (simulated(WITHIN, 0.002, 60), BETWEEN, DESIGNS)
    print("| runs | design | coverage | perflog: alarms | found |", *(f"{rival}: alarms | found |" for rival in RIVALS))
    print("| --- | --- | ---: |" + " ---: | ---: |" * (1 + len(RIVALS)))
    for name, (family, between, designs) in families.items():
        for design in designs:
            rng = np.random.default_rng(crc32(name.encode()))
            size = len(design.base) + len(design.side) + len(design.history)
            drawn_runs = [family.draw(size, rng) for _ in range(arguments.trials)]
            equal, slower = (
                np.mean([tried(runs, design, k, between, change) for k, runs in enumerate(drawn_runs)], axis=0)
                for change in (0.0, SLOWER)
            )
            shares = (equal[0], *np.ravel(np.stack([equal[1:], slower[1:]], axis=1)))
            print(f"| {name} | {design.name} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
