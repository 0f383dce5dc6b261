"""Pages of SQLite files, made by hand: whether they are trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from perflog.readers.databases.sqlite_pages import Pages, _children

LEAF, INNER, INDEX, INDEX_LEAF = 13, 5, 2, 10
SIZE = 512

Opened = Callable[..., Pages]


def page(kind: int, children: Sequence[int] = (), header: int = 0) -> bytes:
    """A page that leads to children: the last one is in its header, the others are in cells at its end."""
    *cells, last = children or (0,)
    data = bytearray(SIZE)
    data[header] = kind
    data[header + 3 : header + 5] = len(cells).to_bytes(2, "big")
    data[header + 8 : header + 12] = last.to_bytes(4, "big")
    for number, child in enumerate(cells):
        place = SIZE - 4 * (number + 1)
        data[header + 12 + 2 * number : header + 14 + 2 * number] = place.to_bytes(2, "big")
        data[place : place + 4] = child.to_bytes(4, "big")
    return bytes(data)


def first(kind: int = LEAF, children: Sequence[int] = (), size: int = SIZE) -> bytes:
    """The first page, with the header of the file before its own."""
    data = bytearray(page(kind, children, header=100))
    data[16:18] = size.to_bytes(2, "big")
    return bytes(data)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A function that opens a file of these pages."""
    with ExitStack() as stack:

        def pages(*content: bytes) -> Pages:
            (tmp_path / "a").write_bytes(b"".join(content))
            return stack.enter_context(closing(Pages(tmp_path / "a")))

        yield pages


def test_the_size_of_a_page(opened: Opened) -> None:
    assert [opened(first(size=size)).size for size in (512, 4096, 1)] == [512, 4096, 65536]


@pytest.mark.parametrize(
    ("pages", "roots", "trees"),
    [
        ([first(), page(LEAF)], [1, 2], True),
        ([first(), page(INNER, (3, 4)), page(LEAF), page(LEAF)], [1, 2], True),
        ([first(), page(INNER, (3, 3)), page(LEAF)], [2], False),
        ([first(), page(INNER, (3, 4)), page(LEAF), page(INNER, (2,))], [2], False),  # back to its root
        ([first(), page(INNER, (3,)), page(LEAF)], [2, 3], False),  # of two trees
        ([first(), page(INNER, (2,))], [2], False),
        ([first(), page(INDEX, (3, 3)), page(INDEX_LEAF)], [2], False),
        ([first(INNER, (2, 2)), page(LEAF)], [1], False),  # the header of the first page comes later
        ([first(INNER, (2, 3)), page(LEAF), page(LEAF)], [1], True),
        ([first(), page(LEAF, (3, 3)), page(LEAF)], [2], True),  # a leaf leads to nothing
        ([first(), page(INNER, (0, 0, 4, 4))], [2, 0, 9], True),  # outside the file
        ([first(), page(INNER, (3, 3)), page(LEAF)], [9, 2], False),
        ([first(), page(INNER, (3, 3))], [2], True),  # ... by one page
        ([first(), page(LEAF)], [2, 2], True),  # a root that is named twice
        ([first(), page(INNER, (3, 3)), page(LEAF)[:-1]], [2], True),  # no whole page
        ([first(INNER, (1,), size=256)], [1], True),  # no size of SQLite's
    ],
)  # fmt: skip
def test_pages_are_trees_unless_one_is_found_twice(
    opened: Opened, pages: list[bytes], roots: list[int], trees: bool
) -> None:
    assert opened(*pages).are_trees(iter(roots)) == trees


def test_a_file_that_grows_is_looked_at_again(opened: Opened, tmp_path: Path) -> None:
    pages = opened(first(), page(INNER, (3, 3)))
    assert pages.are_trees([2])  # the page lies outside the file
    with (tmp_path / "a").open("ab") as file:
        file.write(page(LEAF))
    assert not pages.are_trees([2])


def children(data: bytes, header: int = 0) -> list[int]:
    return _children(np.frombuffer(data, np.uint8), header)


def test_children_of_a_page() -> None:
    assert children(page(INNER, (7, 70_000, 9))) == [7, 70_000, 9]
    assert children(page(INNER, (7, 8, 9), header=100), 100) == [7, 8, 9]
    assert children(page(INNER, (9,))) == [9]


def test_a_pointer_beyond_the_page_is_passed_over() -> None:
    data = bytearray(page(INNER, (7, 8, 9)))
    data[12:14] = (SIZE - 3).to_bytes(2, "big")
    assert children(bytes(data)) == [8, 9]
    data[12:14] = (SIZE - 4).to_bytes(2, "big")
    assert children(bytes(data)) == [7, 8, 9]


def test_a_page_has_no_more_pointers_than_bytes() -> None:
    data = bytearray(page(INNER, (9,)))
    data[3:5] = b"\xff\xff"
    assert len(children(bytes(data))) == (SIZE - 12) // 2 + 1
    assert len(children(bytes(data[:-1]))) == (SIZE - 13) // 2 + 1
    data[3:5] = b"\x01\x00"  # 256 cells
    assert len(children(bytes(data))) == (SIZE - 12) // 2 + 1
    data[3:5] = b"\x00\x02"
    assert len(children(bytes(data))) == 3
