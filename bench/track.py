"""A study of `perflog track`: how often it tells a change that is none, and after how many nights it confirms one.

Run it with `python bench/track.py [--trials N]`. Each trial is a series of nights; a change comes after `BEFORE` of
them. Scatter between nights is normal, or has heavy tails (Student's t with 3 degrees of freedom, the same scatter).
"""

from __future__ import annotations

import argparse
import math
from zlib import crc32

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.version_levels import LAST_P
from perflog.statistics.levels import course

BEFORE, AFTER = 20, 10
SCATTERS = (0.002, 0.005, 0.01)
CHANGES = (0.01, 0.02, 0.05)


def nights(kind: str, scatter: float, rng: np.random.Generator, count: int) -> Floats:
    """Logarithms of a figure in nights of equal programs."""
    if kind == "normal":
        return rng.normal(0, scatter, count)
    return scatter / math.sqrt(3) * rng.standard_t(3, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=500)
    trials = parser.parse_args().trials
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
