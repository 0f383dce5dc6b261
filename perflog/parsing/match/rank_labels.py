"""Rank labels before lines, printed by programs or launchers (srun -l, torchrun --tee, mpirun --tag-output).

A label is a number: the rank, or for torchrun's `[default3]:` a number that holds the rank on the node (`local_label`).
It is below 0 without a rank: -1 for no label, `NO_RANK` for the name of a process, below it for the name of a pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.formats.template import Template
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.arrow import bytes_array

_PROCESS = r"\([A-Za-z_][A-Za-z0-9_.:-]* pid=[0-9]+(?:, ip=[0-9a-f.:]+)?\) "
_POD = r"\[pod/[A-Za-z0-9_./-]+(?: [0-9]{4}-[0-9-]{5}T[0-9:.]+(?:Z|[+-][0-9:]+)?)?\] "
CLOSED_LABEL = rf"\[(?:default|rank)[0-9]{{1,9}}\]:|\[[0-9]+,[0-9]{{1,9}}\]<std(?:out|err)>:|{_PROCESS}|{_POD}"
"""Pattern of the labels that are known wherever they are in a line: `[default3]:`, `[rank1]:`, `[1,0]<stdout>:`, Ray's
`(Worker pid=7, ip=10.0.0.1) `, which names a process and no rank, and kubectl's `[pod/...] `.

After the name of the pod there may be the time at which it printed the line (`input.containers`)."""

BARE_LABEL = r" *[0-9]{1,9}: "
"""Pattern of the labels of srun: `3: `. Inside a line they are known only by what follows."""

_TORN_PROCESS = r"(?:[A-Za-z0-9_.:-]* )?p?i?d?=[0-9]+(?:, ip=[0-9a-f.:]+)?\) "
LAUNCHER_LABEL = rf"(?:{BARE_LABEL}|{CLOSED_LABEL}|{_TORN_PROCESS})"
"""Pattern of one label that a launcher prints before each line: a closed one, or `0: `.

The suffix of a torn `(Worker pid=7, ip=10.0.0.1) ` is a label too: `d=7, ip=10.0.0.1) ` is no value of a record."""

PRINTED_LABEL = r"\[[Rr]ank[ :=]?[0-9]{1,9}\]:? "
"""Pattern of a label that a program prints before a line: `[Rank 3] `."""

WHOLE_LABEL = rf"(?:{BARE_LABEL}|{CLOSED_LABEL}|{PRINTED_LABEL})"
"""Pattern of one label before a line that is not torn. It is faster than the pattern of any label."""

RANK_LABEL = rf"(?:{LAUNCHER_LABEL}|{PRINTED_LABEL})"
"""Pattern of one label before a line: of a launcher, or `[Rank 3] `, which may belong to the line."""

ANY_LABELS = f"^{RANK_LABEL}*"
"""Pattern of the beginning of a line with any number of labels, or none."""

MAX_LABELS = 2
"""Rank labels before a line: the launcher's, and one that the program itself prints."""

NO_LABEL = -1
NO_RANK = -2
"""Label of a line that begins with the name of a process, and has no rank."""

_POD_NAME = lazy_pattern(rb"(?:[^ ]* )?\[pod/([A-Za-z0-9_./-]+)")
STREAMS = (b"stdout", b"stderr")  # instead of the name of a pod that no record states
_POD_BIT = 1 << 29  # of the numbers of nodes that are pods; the rest is a hash of the name
_LAST_POD = -3

LOCAL = "local_label"
"""Field of a label's template that holds a local rank."""

LABEL_TEMPLATES = (
    Template("{label:d}: "), Template(f"[default{{{LOCAL}:d}}]:"), Template("[rank{label:d}]:"),
    Template("[1,{label:d}]<stdout>:"),
)  # fmt: skip
"""Rank labels as templates: if most lines of a log have the same label, it is read as part of each template."""


class Labels(Struct, frozen=True):
    """The rank labels before the lines of a log, as its first lines show them.

    Attributes:
        template: The label that most lines have, if they have the same one: the fast path reads it.
        has_launcher_labels: Whether most lines have a label of a launcher.
        has_labels: Whether most lines have a label, of a launcher or of the program: a number without one is no line.
        bare_is_rare: Whether hardly any line has a label of srun: `7: ` is then the tail of a torn line.
        width: The width of srun's labels, if all have the same: `13: ` of three ranks is a torn `1` and `3: `; else 0.
    """

    template: Template | None = None
    has_launcher_labels: bool = False
    has_labels: bool = False
    bare_is_rare: bool = False
    width: int = 0


NO_LABELS = Labels()

_FEW = 16  # lines, up to which compiling a pattern for RE2 takes longer than reading them one by one
_LABELS_AND_TRAILING_BLANKS = f"^{LAUNCHER_LABEL}{{1,{MAX_LABELS}}}|[ \\t]+$"
_LABEL = lazy_pattern(LAUNCHER_LABEL.encode())
_ANY_LABEL = lazy_pattern(RANK_LABEL.encode())
BARE = lazy_pattern(BARE_LABEL.encode())
BARE_AT_END = lazy_pattern(rb"[0-9]: [ \t]*\Z")
_RANK = lazy_pattern(rb"([0-9]+)(?:: |\]:? ?|\]<[a-z]*>:)\Z")
_LOCAL_BIT = 1 << 60  # of labels that hold a local rank
_NESTED_BIT = 1 << 61  # of labels that hold the numbers of two labels
_DEVICE_BIT = 1 << 62  # of labels that hold the device of a process
_NODE_BITS = 30  # the outer number or node + 1 is above the bits of the rank; 0 if it is not known
_MAX_LENGTH = 160  # bytes of a line in which its label ends


def local_label(local_ranks: Ints) -> Ints:
    """Return local ranks as labels."""
    return local_ranks | _LOCAL_BIT


def device_label(devices: Ints) -> Ints:
    """Return devices that lines name inside as labels: local ranks, if they distinguish processes."""
    return devices | _LOCAL_BIT | _DEVICE_BIT


def is_device(labels: Ints) -> Mask:
    """Return which labels are devices."""
    return (labels >= 0) & (labels & _DEVICE_BIT > 0)


def is_local(labels: Ints) -> Mask:
    """Return which labels hold a local rank."""
    return (labels >= 0) & (labels & _LOCAL_BIT > 0)


def is_nested(labels: Ints) -> Mask:
    """Return which labels hold the numbers of two labels, with neither known to be local."""
    return (labels >= 0) & (labels & _NESTED_BIT > 0)


def local_rank_of(labels: Ints) -> Ints:
    """Return the local rank of labels that hold one, the second number of labels that hold two."""
    return labels & ((1 << _NODE_BITS) - 1)


def node_of(labels: Ints) -> Ints:
    """Return the node of labels that hold a local rank, -1 if it is not known; the first number of those with two."""
    return ((labels & (_LOCAL_BIT - 1)) >> _NODE_BITS) - 1


def nested_labels(outer: Ints, inner: Ints) -> Ints:
    """Return the labels of lines with two of them. The second counts: it is the program's own, and more precise.

    A label before a local rank is the number of the node: srun and mpirun start one torchrun on each. Of two plain
    numbers both are kept, since torchrun with `--role rank` writes the local rank as `[rank0]:`.
    """
    outer = np.where(is_pod(outer) & (inner >= 0), pod_of(outer), outer)
    plain_outer = (outer >= 0) & ~is_local(outer) & ~is_nested(outer) & (outer < (1 << _NODE_BITS) - 1)
    plain_inner = (inner >= 0) & ~is_local(inner) & (inner < 1 << _NODE_BITS)
    has_node = plain_outer & (is_local(inner) | plain_inner)
    both = inner | ((np.maximum(outer, 0) + 1) << _NODE_BITS) | np.where(plain_inner, _NESTED_BIT, 0)
    either = np.where(outer >= 0, outer, np.minimum(inner, outer))
    return np.where(has_node, both, np.where(inner >= 0, inner, either))


def is_pod(labels: Ints) -> Mask:
    """Return which labels are the name of a pod alone."""
    return labels <= _LAST_POD


def pod_of(labels: Ints) -> Ints:
    """Return the numbers of the nodes for labels with nothing but the name of a pod."""
    return _POD_BIT | (_LAST_POD - labels)


def pod_name(text: str) -> tuple[int, str]:
    """Return the number and the name of the pod in the label before a line; -1 and "" if there is none."""
    match = _POD_NAME.match(text.encode("utf-8", "surrogateescape"))
    return (int(pod_of(np.array(_pod_label(match[1])))), match[1].decode()) if match else (-1, "")


def _pod_label(name: bytes) -> int:
    return NO_RANK if name in STREAMS else _LAST_POD - (crc32(name) >> 6)


def process_labels(labels: Ints) -> Ints:
    """Return labels that are equal for lines of one process: of two equal numbers one, as after a single label."""
    same = is_nested(labels) & (node_of(labels) == local_rank_of(labels))
    return np.where(same, local_rank_of(labels), labels)


def find_rank_labels(data: bytearray, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the rank in the label before each line data[begin:end], -1 if none, and where the label ends."""
    labels, text_begin = np.full(len(begin), NO_LABEL, np.int64), begin.copy()
    view = memoryview(data)
    for row, (start, stop) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        # One byte more: of a line that is a label alone, the label's space was cut off as a trailing one.
        match = _ANY_LABEL.match(view[start : min(stop + 1, start + _MAX_LENGTH)])
        if match:
            labels[row] = _rank_of(match[0])
            text_begin[row] = min(start + match.end(), stop)
    return labels, text_begin


def split_rank_label(text: bytes) -> tuple[int, bytes]:
    """Return the label of a launcher before a line, -1 if none, and the line after it."""
    labels, text = _launcher_labels(text)
    return _label_of(labels), text


def carried_labels(texts: Iterable[bytes]) -> list[int]:
    """Return the label that each of some records has from the record before it; -1 if none.

    A launcher that labels lines labels the first record of one. A record with as many labels of its own is of another
    process: its lines were labelled before they met.
    """
    found, front = [], list[int]()
    for text in texts:
        own = _launcher_labels(text)[0]
        carried = front[: max(len(front) - len(own), 0)]
        found.append(_label_of(carried))
        front = carried + own
    return found


def _launcher_labels(text: bytes) -> tuple[list[int], bytes]:
    """Return the labels of launchers before a line, and the line after them."""
    labels: list[int] = []
    while len(labels) < MAX_LABELS and (match := _LABEL.match(text)):
        labels.append(_rank_of(match[0]))
        text = text[match.end() :]
    return labels, text


def _label_of(labels: Iterable[int]) -> int:
    """Return the label that several in a row make."""
    return reduce(lambda outer, inner: int(nested_labels(np.array([outer]), np.array([inner]))[0]), labels, NO_LABEL)


def strip_rank_labels(text: bytes) -> bytes:
    """Return a line without the labels of launchers before it and trailing whitespace."""
    return split_rank_label(text)[1].rstrip(b" \t")


def without_printed_label(text: bytes) -> bytes:
    """Return a line without the `[Rank 3] ` that the program prints before it."""
    match = _ANY_LABEL.match(text)
    return text[match.end() :] if match else text


def without_each_label(text: bytes) -> list[bytes]:
    """Return a line, and what is after each of the labels before it."""
    begins = [text]
    while (rest := without_printed_label(begins[-1])) != begins[-1]:
        begins.append(rest)
    return begins


def bare_texts(texts: pa.Array) -> pa.Array:
    """Return lines without the labels of launchers and trailing whitespace, as `strip_rank_labels` does."""
    if len(texts) <= _FEW:
        return bytes_array([*map(strip_rank_labels, texts.to_pylist())])
    return pc.replace_substring_regex(texts, _LABELS_AND_TRAILING_BLANKS, "")


@lru_cache(1 << 12)
def _rank_of(label: bytes) -> int:
    if pod := _POD_NAME.match(label):
        return _pod_label(pod[1])
    rank = None if label[-2:] == b") " else _RANK.search(label)
    if rank is None:
        return NO_RANK
    return int(rank[1]) | _LOCAL_BIT if b"default" in label else int(rank[1])
