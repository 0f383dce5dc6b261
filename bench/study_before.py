"""Answers with the comparison of an earlier commit: `bench/study.py --before CHECKOUT` runs it with that perflog.

Reads pickled pairs of sides from standard input, one after the other, and writes what that method says of each.
"""

from __future__ import annotations

import math
import pickle
import sys
from importlib import import_module
from typing import Any

DRAWS = 250
THRESHOLD = 0.01
"""That of the study. This method came with a threshold of 5 % and called changes below 2 % equivalent."""


def main() -> None:
    rows: Any = import_module("perflog.analysis.compare.rows")
    verdicts: Any = import_module("perflog.analysis.compare.verdicts")
    measure = import_module("perflog.analysis.compare.measures").STEP_MEASURES[0]
    rule = verdicts.VerdictRule(threshold=THRESHOLD, equivalence=THRESHOLD, draws=DRAWS)
    while True:
        try:
            base, side, name = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        samples = [rows.draw_sample(runs, rule, f"{name}/{k}") for k, runs in enumerate((base, side))]
        ratio = rows.ratio_of(measure, *samples, rule)  # base / side
        verdict = verdicts.decide(ratio, rule)
        slower = verdicts.without_exploratory(verdict.words) == "regression"
        low, high = (-math.log(end) if end > 0 else math.nan for end in (ratio.high, ratio.low))
        pickle.dump((slower, verdict.fails, low, high), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
