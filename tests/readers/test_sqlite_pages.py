"""Pages of SQLite files, made by hand: whether they are trees, and which hold the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from perflog.readers.databases.sqlite_pages import LEAF_OF_TABLE, Pages, _children

LEAF, INNER, INDEX, INDEX_LEAF = LEAF_OF_TABLE, 5, 2, 10
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


def first(kind: int = LEAF, children: Sequence[int] = (), size: int = SIZE, reserved: int = 0) -> bytes:
    """The first page, with the header of the file before its own."""
    data = bytearray(page(kind, children, header=100))
    data[16:18] = size.to_bytes(2, "big")
    data[20] = reserved
    return bytes(data)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A function that opens a file of these pages."""
    with ExitStack() as stack:

        def pages(*content: bytes) -> Pages:
            (tmp_path / "a").write_bytes(b"".join(content))
            return stack.enter_context(closing(Pages(tmp_path / "a")))

        yield pages


def test_the_sizes_of_a_page(opened: Opened) -> None:
    for content, sizes in ((first(), (512, 512)), (first(size=4096, reserved=32), (4096, 4064))):
        pages = opened(content)
        assert (pages.size, pages.usable) == sizes
    assert opened(first(size=1)).size == 65536


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


@pytest.mark.parametrize(
    ("pages", "root", "leaves"),
    [
        ([first(), page(LEAF)], 2, [2]),
        ([first(), page(INNER, (4, 3, 5)), page(LEAF), page(LEAF), page(INNER, (6,)), page(LEAF)], 2, [4, 3, 6]),
        ([first(), page(INNER, (4, 3)), page(LEAF), page(INNER, (5, 6)), page(LEAF), page(LEAF)], 2, [5, 6, 3]),
        ([first()], 1, None),
        ([first()], 2, None),  # beyond the file
        ([first(), page(LEAF)], 0, None),
        ([first(), page(INDEX, (3,)), page(INDEX_LEAF)], 2, None),
        ([first(), page(INNER, (3,)), page(INDEX_LEAF)], 2, None),
        ([first(), page(INNER, (2,))], 2, None),  # without end
        ([first(), page(INNER, (3, 4, 5)), page(LEAF), page(LEAF), page(LEAF)], 2, [3, 4, 5]),
    ],
)  # fmt: skip
def test_leaves_are_in_the_order_of_the_rows(
    opened: Opened, pages: list[bytes], root: int, leaves: list[int] | None
) -> None:
    assert opened(*pages).leaves(root) == leaves


def test_as_many_pages_as_the_file_has_may_be_on_the_ways_to_the_rows(opened: Opened) -> None:
    """A page that is found twice is noticed where there would be more."""
    assert opened(first(), page(INNER, (3, 3)), page(LEAF)).leaves(2) == [3, 3]
    assert opened(first(), page(INNER, (3, 3, 3)), page(LEAF)).leaves(2) is None


def test_bytes_of_pages_in_any_order(opened: Opened) -> None:
    pages = opened(first(), *(bytes([number]) * SIZE for number in (2, 3, 4)))
    data = pages.read([3, 4, 2, 4, 9], 3)
    assert len(data) == 5 * SIZE + 3
    firsts, lasts = data[: 5 * SIZE : SIZE].tolist(), data[SIZE - 1 : 5 * SIZE : SIZE].tolist()
    assert firsts == lasts == [3, 4, 2, 4, 0]
    assert data[5 * SIZE :].tolist() == [0, 0, 0]


def test_a_file_that_grows_is_looked_at_again(opened: Opened, tmp_path: Path) -> None:
    pages = opened(first())
    assert pages.leaves(2) is None
    with (tmp_path / "a").open("ab") as file:
        file.write(page(LEAF))
    assert pages.leaves(2) == [2]


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
