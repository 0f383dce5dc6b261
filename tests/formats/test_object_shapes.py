"""The shape of a line that holds an object: what is between its values, and the kinds of these."""

from __future__ import annotations

import pytest

from perflog.formats.object_shapes import ObjectShape, ObjectShapes, bare, split


def shape_of(text: bytes, **parts: tuple[tuple[int, bytes], ...]) -> ObjectShape:
    found = split(text)
    assert found is not None
    return ObjectShape(found[0], parts.get("fixed", ()), (), ())


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (b'{"a": 1, "b": -1.5, "c": nan, "d": 1e999}', b"integer number number word"),
        (b'{"a": null, "b": None, "c": true, "d": False, "e": x}', b"null null boolean boolean word"),
        (b'{"a": 1234567890123456789, "b": 99999999999999999999}', b"integer number"),  # above 64 bits
        (b'{"a": "x", "b": "5", "c": "1.5", "d": "", "e": "5 ms", "f": "0:03:02"}',
         b'"text "integer "number "text "text "duration'),
        (b"{'a': 'x', 'b': '5'}", b"'text 'integer"),
        (b'{"a": [1, 2], "b": [], "c": ["x", "y"], "d": [x, y]}', b'numbers numbers words" words'),
    ],
)  # fmt: skip
def test_values_have_kinds(text: bytes, kinds: bytes) -> None:
    assert shape_of(text).key[2] == tuple(kinds.split())


def test_a_line_is_cut_into_values_and_what_is_between_them() -> None:
    assert split(b'x {"a": {"b": 1}, "c": "y"} ,') == (
        (b"x ", (b'{"a": {"b": ', b'}, "c": '), (b"integer", b'"text'), b"} ,"), (b"1", b'"y"')
    )  # fmt: skip


def test_items_of_a_mixed_list_are_values() -> None:
    assert split(b'{"a": [1, "x"], "b": 2}') == (
        (b"", (b'{"a": [', b", ", b'], "b": '), (b"integer", b'"text', b"integer"), b"}"), (b"1", b'"x"', b"2")
    )  # fmt: skip
    assert split(b'{"a": [[1, 2], 3]}') == (
        (b"", (b'{"a": [', b", "), (b"numbers", b"integer"), b"]}"), (b"[1, 2]", b"3")
    )  # fmt: skip


def test_a_line_without_a_plain_object_has_no_shape() -> None:
    assert [split(text) for text in (b"no", b"{}", b'{"a": 1} (x', b'{"a": "x')] == [None] * 4


def test_a_value_without_its_quotes_or_brackets() -> None:
    assert [bare(text) for text in (b'"x"', b"'x'", b"[1]", b"x")] == [b"x", b"x", b"1", b"x"]


def test_lines_of_one_key_differ_by_their_fixed_values() -> None:
    shapes = ObjectShapes[str]()
    assert not shapes
    shapes.add("train", shape_of(b'{"kind": "train", "x": 1}', fixed=((0, b'"train"'),)))
    copy = shapes.copy()
    shapes.add("any", shape_of(b'{"kind": "train", "x": 1}'))
    assert shapes.find(b'{"kind": "train", "x": 2}') == ("train", (b'"train"', b"2"))
    assert shapes.find(b'{"kind": "test", "x": 2}') == ("any", (b'"test"', b"2"))
    assert copy and copy.find(b'{"kind": "test", "x": 2}') is None  # a copy learns nothing more
    assert shapes.find(b'{"x": 2}') is shapes.find(b"words") is None
