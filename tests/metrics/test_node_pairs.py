"""Metric `node_pairs`: slow nodes and slow pairs among benchmarks between two nodes each."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from support.metrics_logs import row, rows

import perflog
from perflog.metrics import node_pairs

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


def test_a_slow_pair_does_not_make_its_nodes_slow(tmp_path: Path) -> None:
    log = campaign(tmp_path, pairs(5) | {("n2", "n4"): 5.8})
    table = node_pairs(log)
    slow = row(table, slow=True)
    assert (slow["of"], slow["node"], slow["other"], slow["busbw"]) == ("pair", "n2", "n4", 5.8)
    assert slow["size"] == 4194304 and slow["run"] is not None
    node = row(table, of="node", node="n2")
    assert (node["pairs"], node["other"], node["lowest"]) == (4, "n4", 5.8)
    seen = perflog.overview(log)
    assert seen.reasons[0].startswith("Slow pair n2 - n4: 5.8 GB/s in ")
    assert any(command.endswith(" node_pairs") for command in seen.next)


def test_a_slow_node_has_slow_pairs(tmp_path: Path) -> None:
    slow = {pair: 5.8 if "n3" in pair else value for pair, value in pairs(6).items()}
    log = campaign(tmp_path, slow)
    table = node_pairs(log)
    assert [r["node"] for r in rows(table, of="node", slow=True)] == ["n3"]
    assert all("n3" in (r["node"], r["other"]) for r in rows(table, of="pair", slow=True))
    (first, *_) = perflog.overview(log).reasons
    assert first.startswith("Slow node n3: 5.8 GB/s in ") and first.endswith("over 5 pairs.")


def test_few_pairs_tell_nothing_and_the_size_is_that_of_all(tmp_path: Path) -> None:
    table = node_pairs(campaign(tmp_path, pairs(3), without_large="n1"))
    assert table["slow"].isna().all() and set(table["size"]) == {1048576}
