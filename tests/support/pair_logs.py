"""Logs of a benchmark between two nodes each, as a campaign over all pairs of a cluster leaves them."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import perflog

PAIR = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 2210029 on {first} device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 948885 on {second} device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
  1048576       1048576     float     sum      -1    32.51   32.25   {small}       0    32.42   32.34    {small}      0
{large}# Avg bus bandwidth    : 1.00
"""
LARGE = (
    "  4194304      4194304     float     sum      -1    90.00   46.60  {value}    0    91.00   46.09  {value}    0\n"
)


def campaign(folder: Path, bandwidths: dict[tuple[str, str], float], without_large: str = "") -> perflog.Log:
    """The logs of pairs of nodes with these bandwidths at 1 MiB and 4 MiB."""
    for (first, second), value in bandwidths.items():
        large = "" if without_large == first else LARGE.format(value=f"{value:.2f}")
        text = PAIR.format(first=first, second=second, small=f"{value:.2f}", large=large)
        (folder / f"{first}_{second}.log").write_text(text)
    return perflog.read(folder)


def pairs(nodes: int) -> dict[tuple[str, str], float]:
    """Like pairs of as many nodes, which differ by up to half a percent."""
    names = [f"n{k}" for k in range(1, nodes + 1)]
    return {pair: 13.5 + 0.01 * k for k, pair in enumerate(combinations(names, 2))}
