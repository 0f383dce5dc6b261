"""Names of logs: one file, several, and names with braces of their own."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perflog.parsing.input.log_names import LogName


@given(st.lists(st.integers(0, 200), min_size=2, max_size=8, unique=True), st.booleans())
def test_names_of_several_files(numbers: list[int], padded: bool) -> None:
    names = [f"/x/run1_rank{n:03d}.7.json" if padded else f"/x/run1_rank{n}.7.json" for n in sorted(numbers)]
    joined = LogName.from_files(names)
    assert joined is not None and joined.files == tuple(names)
    assert LogName.parse(joined.log) == joined


def test_names_with_braces_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a{1,2}.json").write_text("")
    path = str(tmp_path / "a{1,2}.json")
    assert LogName.parse(path) == LogName.from_file(path)
    assert LogName.from_files(["a1{.json", "a2{.json"]) is None
    for text in ("a{1}.json", "a{9..1}"):
        assert LogName.parse(text).files == (text,)
