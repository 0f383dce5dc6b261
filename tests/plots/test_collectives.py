"""The bus bandwidth of collectives over the size of their messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.drawings import xs, ys
from support.pair_logs import campaign, pairs

import perflog
from perflog import plots
from perflog.errors import UsageError

HEAD = """\
# nThread 1 nGpus 1
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
MEASURED = "{time:7.2f}  {rate:5.2f}  {rate:5.2f}      0"
ROW = "{size:12d}  {count:12d}     float     sum      -1  {out}  {in_place}\n"
SIZES = [2**k for k in range(20, 26)]


def log_of(path: Path, factor: float = 1.0) -> None:
    rows = (
        ROW.format(
            size=size,
            count=size // 4,
            out=MEASURED.format(time=79.4, rate=factor * (10 + k)),
            in_place=MEASURED.format(time=79.4, rate=factor * (20 + k)),
        )
        for k, size in enumerate(SIZES)
    )
    path.write_text(HEAD + "".join(rows))


def test_a_line_for_each_buffer_over_the_sizes(tmp_path: Path) -> None:
    log_of(tmp_path / "a.log")
    (axes,) = plots.collectives(perflog.read(tmp_path / "a.log")).axes
    assert (axes.get_xscale(), axes.get_ylabel()) == ("log", "bus bandwidth (GB/s)")
    out, in_place = axes.lines
    assert (out.get_label(), in_place.get_label()) == ("out of place", "in place")
    assert [list(xs(line)) for line in (out, in_place)] == [SIZES, SIZES]
    assert list(ys(out)) == [10 + k for k in range(6)]
    assert list(ys(in_place)) == [20 + k for k in range(6)]


def test_several_runs_have_a_line_each(tmp_path: Path) -> None:
    for name, factor in (("a.log", 1.0), ("b.log", 0.5)):
        log_of(tmp_path / name, factor)
    figure = plots.collectives(perflog.read(tmp_path))
    (axes,) = figure.axes
    slow = {line.get_label(): list(ys(line)) for line in axes.lines}["b.log, out of place"]
    assert slow == [0.5 * (10 + k) for k in range(6)]
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(axes.lines) == 4


def test_few_sizes_are_no_curve(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to draw for `collectives`"):
        plots.collectives(campaign(tmp_path, pairs(4)))


def test_the_columns_of_a_message_are_no_curves(tmp_path: Path) -> None:
    """nccl-tests prints the number of elements of each message, which rises by powers of two."""
    log_of(tmp_path / "a.log")
    log = perflog.read(tmp_path / "a.log")
    assert "count" in set(log.table("values")["key"])
    assert [plot.name for plot in plots.possible(log)] == ["collectives"]
    assert not len(perflog.metrics.curves(log))
