"""What all readers share: the proof of a file whose events are in tables, and what a reader may do unless told."""

from __future__ import annotations

from support.reading import write

from perflog.readers.interface import ReaderEntry, ReadOptions, proof_by_counts


def test_the_proof_names_the_first_position_of_each_table_that_has_events() -> None:
    counts = [("kernels", 3), ("markers", 0), ("copies", 2), ("counters", 1)]
    assert proof_by_counts(counts, "rows") == [
        (1, "kernels", "3 rows"),
        (4, "copies", "2 rows"),
        (6, "counters", "1 rows"),
    ]


def test_a_reader_forks_only_if_told_and_is_asked_before_those_that_take_every_file() -> None:
    assert not ReadOptions().processes and ReadOptions().threads == 1
    assert not ReaderEntry("package.module:Class", (b"MAGIC",)).fallback


def test_bytes_that_were_read_are_reported_to_who_asks() -> None:
    seen: list[int] = []
    ReadOptions(progress=seen.append).done(write(b"a trace"))
    ReadOptions().done(write(b"another"))
    assert seen == [7]


def test_one_name_is_for_the_only_run_and_names_by_number_for_several() -> None:
    assert ReadOptions(label="base").label_of(1) == "base"
    assert [ReadOptions(label=lambda: {2: "new"}).label_of(number) for number in (1, 2)] == [None, "new"]
    assert ReadOptions().label_of(1) is None
