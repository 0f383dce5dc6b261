"""Rank labels in front of lines, printed by programs or launchers (srun -l, torchrun --tee, mpirun --tag-output)."""

from __future__ import annotations

import re

import numpy as np

from perflog.formats.template import Template
from perflog.parsing.match.numeric import Ints

RANK_LABEL = r"(?: *[0-9]{1,9}: |\[(?:default|rank)[0-9]{1,9}\]:|\[[0-9]+,[0-9]{1,9}\]<std(?:out|err)>:)"
"""Pattern of one rank label: `0: `, `[default3]:`, `[rank1]:`, or `[1,0]<stdout>:`."""

MAX_LABELS = 2
"""Rank labels in front of a line: the launcher's, and one that the program itself prints."""

LABELS_AND_TRAILING_BLANKS = f"^{RANK_LABEL}{{1,{MAX_LABELS}}}|[ \\t]+$"
"""Pattern of what `strip_rank_labels` takes off."""

LABEL_TEMPLATES = (
    Template("{label:d}: "), Template("[default{label:d}]:"), Template("[rank{label:d}]:"),
    Template("[1,{label:d}]<stdout>:"),
)  # fmt: skip
"""Rank labels as templates: a log whose lines mostly have the same label is read with it as part of each template."""

_LABEL = re.compile(RANK_LABEL.encode())
_RANK = re.compile(rb"([0-9]+)(?:: |\]:|\]<)")
_MAX_LENGTH = 64  # bytes of a line in which its label ends


def find_rank_labels(data: bytearray, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the rank label in front of each line data[begin:end], -1 if none, and where the line begins after it."""
    labels, text_begin = np.full(len(begin), -1, np.int64), begin.copy()
    view = memoryview(data)
    for row, (start, stop) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        # One byte more: of a line that is a label alone, the label's blank was cut off as a trailing one.
        match = _LABEL.match(view[start : min(stop + 1, start + _MAX_LENGTH)])
        if match:
            labels[row] = _rank_of(match[0])
            text_begin[row] = min(start + match.end(), stop)
    return labels, text_begin


def split_rank_label(text: bytes) -> tuple[int, bytes]:
    """Return the rank label in front of a line, -1 if none, and the line after it. Of two labels the second counts."""
    label = -1
    for _ in range(MAX_LABELS):
        match = _LABEL.match(text)
        if match:
            label = _rank_of(match[0])
            text = text[match.end() :]
    return label, text


def strip_rank_labels(text: bytes) -> bytes:
    """Return a line without the rank labels in front and the blanks at its end."""
    return split_rank_label(text)[1].rstrip(b" \t")


def _rank_of(label: bytes) -> int:
    return int(_RANK.search(label)[1])  # type: ignore[index]  # each label has a rank
