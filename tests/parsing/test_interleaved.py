"""Where a line is cut into records: in front of a known head, but not behind a prefix or a progress bar."""

from __future__ import annotations

from support.cost import cpu_growth

from perflog.formats.registry import known
from perflog.parsing.match.interleaved import RecordCutter


def test_many_bars_with_descriptions_are_cut_in_short_time() -> None:
    """Each bar can be read in several ways; a line of 40 bars is cut as one of two."""
    bar = b"train:  1%|#   | 3/211 [00:10<10:14,  2.95s/it]  "
    assert RecordCutter([])(bar * 40 + b"no bar: it") == [bar * 40 + b"no bar: it"]
    assert RecordCutter([])(b"words, " + bar * 40) == [b"words, train:", bar[6:] + bar * 39]


def test_blanks_inside_a_record_are_not_tried_in_all_ways() -> None:
    """A line that was cut in the middle of a word, and whose rest is blanks, took Python more than 20 s."""
    cutter = RecordCutter(known()["mlperf"].families)
    assert cpu_growth(lambda blanks: cutter(b':::MLLOG {"key": "run_stop", "file' + b" " * blanks), 300, 900) < 20
