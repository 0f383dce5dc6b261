"""Metric `node_pairs`: slow nodes and slow pairs among benchmarks between two nodes each."""

from __future__ import annotations

from pathlib import Path

from support.metrics_logs import row, rows
from support.pair_logs import campaign, pairs

import perflog
from perflog.metrics import node_pairs


def test_a_slow_pair_does_not_make_its_nodes_slow(tmp_path: Path) -> None:
    log = campaign(tmp_path, pairs(5) | {("n2", "n4"): 5.8})
    table = node_pairs(log)
    slow = row(table, slow=True)
    assert (slow["of"], slow["node"], slow["other"], slow["busbw"]) == ("pair", "n2", "n4", 5.8)
    assert slow["size"] == 4194304 and slow["run"] is not None
    node = row(table, of="node", node="n2")
    assert (node["pairs"], node["other"], node["lowest"]) == (4, "n4", 5.8)
    seen = perflog.overview(log)
    assert seen.reasons[0].startswith("Slow pair n2 - n4: 5.8 GB/s with 2 ranks, ")
    assert any(command.endswith(" node_pairs") for command in seen.next)


def test_a_slow_node_has_slow_pairs(tmp_path: Path) -> None:
    slow = {pair: 5.8 if "n3" in pair else value for pair, value in pairs(6).items()}
    log = campaign(tmp_path, slow)
    table = node_pairs(log)
    assert [r["node"] for r in rows(table, of="node", slow=True)] == ["n3"]
    assert all("n3" in (r["node"], r["other"]) for r in rows(table, of="pair", slow=True))
    (first, *_) = perflog.overview(log).reasons
    assert first.startswith("Slow node n3: 5.8 GB/s with 2 ranks, ") and first.endswith("over 5 pairs.")


def test_few_pairs_tell_nothing_and_the_size_is_that_of_all(tmp_path: Path) -> None:
    table = node_pairs(campaign(tmp_path, pairs(3), without_large="n1"))
    assert table["slow"].isna().all() and set(table["size"]) == {1048576}
