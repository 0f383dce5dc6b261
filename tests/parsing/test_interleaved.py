"""Where a line is cut into records: in front of a known head, but not behind a prefix or a progress bar."""

from __future__ import annotations

from perflog.parsing.match.interleaved import RecordCutter


def test_many_bars_with_descriptions_are_cut_in_short_time() -> None:
    """Each bar can be read in several ways; a line of 40 bars is cut as one of two."""
    bar = b"train:  1%|#   | 3/211 [00:10<10:14,  2.95s/it]  "
    assert RecordCutter([])(bar * 40 + b"no bar: it") == [bar * 40 + b"no bar: it"]
    assert RecordCutter([])(b"words, " + bar * 40) == [b"words, train:", bar[6:] + bar * 39]
