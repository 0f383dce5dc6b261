"""Rank labels in front of lines, as launchers and programs print them."""

from __future__ import annotations

import re

import numpy as np

from perflog.formats.template import Template
from perflog.parsing.match.numeric import Ints

LABELS = r"(?: *[0-9]{1,9}: |\[(?:default|rank)[0-9]{1,9}\]:|\[[0-9]+,[0-9]{1,9}\]<std(?:out|err)>:)"
"""A rank label in front of a line, of srun -l, torchrun --tee or mpirun --tag-output, as a pattern."""

BARE = f"^{LABELS}{{1,2}}|[ \\t]+$"
"""What `unlabelled` takes off, as a pattern."""

_LABEL = re.compile(LABELS.encode())
_RANK = re.compile(rb"([0-9]+)(?:: |\]:|\]<)")
LABELS_MOST = 2  # a launcher's, and one the program itself prints
LABEL_TEMPLATES = (
    Template("{label:d}: "), Template("[default{label:d}]:"), Template("[rank{label:d}]:"),
    Template("[1,{label:d}]<stdout>:"),
)  # fmt: skip


def labels(data: bytearray, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Rank label in front of each line, -1 if none, and where the line begins behind it."""
    label, behind = np.full(len(begin), -1, np.int64), begin.copy()
    view = memoryview(data)
    for row, (b, e) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        match = _LABEL.match(view[b : min(e + 1, b + 64)])  # one more: a label's blank may be all there is
        if match:
            label[row] = int(_RANK.search(match[0])[1])  # type: ignore[index]  # each label has a rank
            behind[row] = min(b + match.end(), e)
    return label, behind


def label_in_front(text: bytes) -> tuple[int, bytes]:
    """The rank label in front of a line, -1 if none, and the line behind it. Of two the second counts."""
    label = -1
    for _ in range(LABELS_MOST):
        match = _LABEL.match(text)
        if match:
            label = int(_RANK.search(match[0])[1])  # type: ignore[index]  # each label has a rank
            text = text[match.end() :]
    return label, text


def strip_rank_labels(text: bytes) -> bytes:
    """A line without the rank labels in front and the blanks behind."""
    return label_in_front(text)[1].rstrip(b" \t")
