"""Names of runs that are shown together."""

from __future__ import annotations

from itertools import count, islice, product
from string import ascii_uppercase

import pytest

from perflog.analysis.run_names import letters, run_marks, run_names, run_places, without_common_folder
from perflog.log import RunKey


def keys(*runs: tuple[str, str | None, str]) -> list[RunKey]:
    """Runs of logs, with a label, of these hashes; each has its index among the runs of its hash."""
    numbers: dict[str, int] = {}
    made = []
    for place, (log, label, sha256) in enumerate(runs):
        numbers[sha256] = numbers.get(sha256, 0) + 1
        made.append(RunKey(f"id{place}", label, log, sha256, numbers[sha256]))
    return made


ONE_LOG = keys(("x/a.txt", None, "a"), ("x/a.txt", None, "a"))
TWO_LOGS = keys(("x/a.txt", None, "a"), ("x/y/b.txt", None, "b"), ("x/y/b.txt", None, "b"))
SAME_NAME = keys(("x/a.txt", None, "a"), ("x/a.txt", None, "b"), ("x/c.txt", None, "c"))


def test_marks() -> None:
    assert list(run_marks(ONE_LOG).values()) == ["#1", "#2"]
    assert list(run_marks(TWO_LOGS).values()) == ["A", "B", "C"]


def test_names_are_labels_if_all_differ() -> None:
    assert list(run_names(keys(("a", "one", "a"), ("a", "two", "a"))).values()) == ["one", "two"]
    assert list(run_names(keys(("a", "one", "a"), ("b", "one", "b"))).values()) == ["a", "b"]
    assert list(run_names(keys(("a", "one", "a"), ("b", None, "b"))).values()) == ["a", "b"]
    assert list(run_names(ONE_LOG).values()) == ["a.txt#1", "a.txt#2"]
    assert list(run_names(TWO_LOGS).values()) == ["a.txt", "y/b.txt#1", "y/b.txt#2"]


def test_places_are_different() -> None:
    assert list(run_places(ONE_LOG).values()) == ["#1", "#2"]
    assert list(run_places(ONE_LOG[:1]).values()) == ["a.txt"]
    assert list(run_places(TWO_LOGS).values()) == ["a.txt", "y/b.txt#1", "y/b.txt#2"]
    assert list(run_places(SAME_NAME).values()) == ["id0", "id1", "c.txt"]


@pytest.mark.parametrize(
    ("paths", "short"),
    [
        (["a/b/c", "a/b/d"], ["c", "d"]),
        (["a/b/c", "a/x/c"], ["b/c", "x/c"]),
        (["a/b", "a/b"], ["b", "b"]),
        (["a/b", "a/b/c"], ["b", "b/c"]),
        (["a/b", "c/b"], ["a/b", "c/b"]),
        (["a"], ["a"]),
        (["a/b/node{0/rank_0,1/rank_1}.log"], ["node{0/rank_0,1/rank_1}.log"]),
        ([], []),
    ],
)
def test_paths_without_their_common_folder(paths: list[str], short: list[str]) -> None:
    assert without_common_folder(paths) == short


def test_letters_count_on() -> None:
    every = ("".join(word) for size in count(1) for word in product(ascii_uppercase, repeat=size))
    assert [letters(number) for number in range(800)] == list(islice(every, 800))
