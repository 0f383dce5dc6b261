"""Words of programs and of English that tell what a number beside them is."""

from __future__ import annotations

COUNTERS = frozenset(
    "epoch epochs step steps iter iters iteration iterations it batch rank round episode update".split()
)
"""Words that name the whole number behind them, wherever they stand."""

SENTENCE_WORDS = frozenset(
    "in at of on for with from to by and or but than then after before over within about into as if was were are be is "
    "has have had using per out the a an not no only some all each every will would should can could until "
    "since took takes take ran running loaded loading saved saving finished done got found uses left "
    "processed completed started starting".split()
)
"""Words of sentences: no names of figures."""
