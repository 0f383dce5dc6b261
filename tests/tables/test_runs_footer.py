"""The footer of a runs file: what is written is read again, and anything else is refused."""

from __future__ import annotations

import pytest

from perflog.tables.store.runs_footer import LogNotes, Origin, RunsFooter

NOTES = LogNotes(
    {"b": Origin(("/x", "/\udc80"), 7), "a": Origin(("s3://b/k",), 9)},
    {"b": "2026-01-02", "a": "2026-01-01"},
    {"a": {"commit": "1"}, "b": {}},
)
FOOTER = RunsFooter(("a", "b"), NOTES, {"steps": 1 << 31, "events": 0})


def test_what_is_written_is_read_again() -> None:
    texts = FOOTER.texts()
    assert RunsFooter.parse(texts | {"other": "x"}) == FOOTER
    assert texts["ingested"] == '{"a": "2026-01-01", "b": "2026-01-02"}'  # in one order, whoever writes it
    assert [texts[name].index('"a"') for name in ("origins", "provenance")] == [1, 1]


@pytest.mark.parametrize("name", sorted(FOOTER.texts()))
def test_each_string_must_be_there_and_of_its_kind(name: str) -> None:
    texts = FOOTER.texts()
    with pytest.raises(ValueError, match=f"its footer has no {name}"):
        RunsFooter.parse({key: text for key, text in texts.items() if key != name})
    for text in ("5", "{", '{"a": 5.5}', '["a", 5]'):
        with pytest.raises(ValueError):  # noqa: PT011  # of JSON or of msgspec
            RunsFooter.parse(texts | {name: text})


def test_an_origin_of_both_has_each_path_once() -> None:
    assert Origin(("x", "y"), 7) | Origin(("y", "z"), 7) == Origin(("x", "y", "z"), 7)


def test_of_two_notes_the_later_count() -> None:
    other = LogNotes({"b": Origin(("/new",), 8)}, {"c": "2026-01-03"}, {"a": {"commit": "2"}})
    both = NOTES | other
    assert (both.origins["b"], both.origins["a"]) == (Origin(("/new",), 8), NOTES.origins["a"])
    assert list(both.ingested) == ["b", "a", "c"]
    assert both.provenance == {"a": {"commit": "2"}, "b": {}}


def test_notes_of_some_logs() -> None:
    assert NOTES.of(["a", "x"]) == LogNotes(
        {"a": Origin(("s3://b/k",), 9)}, {"a": "2026-01-01"}, {"a": {"commit": "1"}}
    )  # fmt: skip
    assert NOTES.of([]) == LogNotes()
