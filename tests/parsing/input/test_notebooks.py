"""Notebooks: what the cells printed is the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from support.reading import read

from perflog.parsing.input.notebooks import is_notebook, outputs

if TYPE_CHECKING:
    import pytest


def notebook(*found: dict[str, Any]) -> bytes:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["step 5 | loss: 1.0"]},
        {"cell_type": "code", "metadata": {}, "source": ["train()"], "execution_count": 1, "outputs": list(found)},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def test_what_a_cell_prints() -> None:
    stream = {
        "output_type": "stream",
        "name": "stdout",
        "text": ["step 1 | loss: 2.5 | dt: 10.5ms\n", "step 2 | loss: 2.25 | dt: 11.5ms"],
    }
    got = read(notebook(stream))
    assert [(row["step"], row["loss"], row["step_time_s"]) for row in got.rows("steps")] == [
        (1, 2.5, 0.0105), (2, 2.25, 0.0115),
    ]  # fmt: skip


def test_the_table_of_a_trainer() -> None:
    rows = "".join(f"<tr><td>{step}</td><td>{loss}</td></tr>" for step, loss in ((10, "2.500000"), (20, "2.250000")))
    html = (
        '<div><progress value="20" max="20"></progress>[20/20 01:00]</div><table border="1" class="dataframe"><thead>'
        f"<tr><th>Step</th><th>Training Loss</th></tr></thead><tbody>{rows}</tbody></table>"
    )
    shown = {
        "output_type": "display_data",
        "data": {"text/html": [html], "text/plain": ["<IPython.core.display.HTML>"]},
    }
    assert [(row["step"], row["loss"]) for row in read(notebook(shown)).rows("steps")] == [(10, 2.5), (20, 2.25)]


def test_an_exception_is_told() -> None:
    lines = [
        "\x1b[0;31mTraceback\x1b[0m (most recent call last)",
        "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",
    ]
    stream = {"output_type": "stream", "name": "stdout", "text": "step 1 | loss: 2.5 | dt: 10.5ms\n"}
    text = b"".join(
        outputs([notebook(stream, {"output_type": "error", "ename": "E", "evalue": "", "traceback": lines})])
    )
    assert text.splitlines()[1:] == [b"Traceback (most recent call last)", lines[1].encode()]


def test_other_files_are_no_notebooks() -> None:
    assert not is_notebook(b'{"cells": 5, "cell_type": "x"}')
    assert not is_notebook(b"step 1 | loss: 2.5\n")


@given(st.integers(0, 400), st.integers(1, 64))
def test_a_cut_notebook_stays_as_it_is(end: int, size: int) -> None:
    data = notebook({"output_type": "stream", "name": "stdout", "text": "a\n"})
    cut = data[: min(end, len(data) - 1)]
    assert b"".join(outputs(cut[k : k + size] for k in range(0, len(cut), size))) == cut


def test_what_is_shown_without_a_table_is_plain_text_and_a_large_notebook_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"output_type": "execute_result", "data": {"text/html": "<b>2.5</b>", "text/plain": ["loss\n", "2.5"]}}
    book = notebook(shown, {"output_type": "display_data", "data": {"image/png": "x"}})
    assert list(outputs([book[:40], book[40:]])) == [b"loss\n2.5\n"]
    monkeypatch.setattr("perflog.parsing.input.notebooks.MOST_BYTES", len(book))
    assert list(outputs([book])) == [b"loss\n2.5\n"]
    monkeypatch.setattr("perflog.parsing.input.notebooks.MOST_BYTES", len(book) - 1)
    assert b"".join(outputs([book[:40], book[40:60], book[60:], b"more"])) == book + b"more"
    assert list(outputs([book[:60]])) == [book[:60]]  # cut off
