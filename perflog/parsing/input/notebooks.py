"""Notebooks as logs: the outputs of the code cells of a Jupyter notebook, in their order.

What a program printed is kept as it is. A table in HTML, such as the table that Hugging Face's Trainer fills while it
trains, becomes the rows of a Markdown table. Pictures and widgets are left out. Lines are numbered in this output, not
in the file.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from perflog.lazy_patterns import lazy_pattern

MOST_BYTES = 1 << 28
"""Bytes of a notebook that is read; of a larger file the lines are read as they are."""

_CELLS = lazy_pattern(rb'\A\s*\{(?s:.*?)"(?:cells|worksheets)"\s*:\s*\[')
_ANSI = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]")


def is_notebook(head: bytes) -> bool:
    """Return whether a file is a notebook, given its first bytes."""
    return head.lstrip()[:1] == b"{" and b'"cell_type"' in head and _CELLS.match(head) is not None


def outputs(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield what the cells of a notebook printed, given its bytes.

    A file that is cut off or too large stays as it is.
    """
    blocks, held = iter(blocks), bytearray()
    for block in blocks:
        held += block
        if len(held) > MOST_BYTES:
            yield bytes(held)
            yield from blocks
            return
    try:
        cells = json.loads(held)["cells"]
        texts = [text for cell in cells for output in cell.get("outputs", ()) for text in _texts(output)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield bytes(held)
        return
    yield from (f"{text.removesuffix(chr(10))}\n".encode("utf-8", "surrogateescape") for text in texts)


def _texts(output: dict[str, Any]) -> Iterator[str]:
    """The strings of one output of a cell."""
    data = output.get("data", {})
    if "text" in output:  # a stream
        yield _joined(output["text"])
    elif "traceback" in output:
        yield _ANSI.sub("", "\n".join(output["traceback"]))
    elif "<table" in (html := _joined(data.get("text/html", ""))):
        from perflog.parsing.input.html_tables import markdown_rows

        yield "\n".join(markdown_rows(html))
    elif "text/plain" in data:
        yield _joined(data["text/plain"])


def _joined(text: str | list[str]) -> str:
    return "".join(text)  # of one string or several
