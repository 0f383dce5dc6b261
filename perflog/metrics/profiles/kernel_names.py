"""Short names of kernels, for sentences, tables and plots: what they compute, without types and arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern

LONGEST = 34
"""Characters of a short name, which fits a table of 80 columns; of a longer one the middle is cut."""

_HEAD = 14  # characters: kernels with the same short beginning are distinguished by other words
_WORDS = LONGEST - _HEAD  # characters of these words
_CUTLASS = lazy_pattern(r"^cutlass::Kernel2?<(\w+)>")  # its kernels differ in the argument alone


def short_kernel(name: str) -> str:
    """Return a kernel's name without return type, namespaces, template arguments and parameters.

    Example:
        >>> short_kernel("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, 2>(float*, long)")
        'indexSelectLargeIndex'
    """
    name = re.sub(r"^void ", "", name)
    name = _CUTLASS.sub(r"\1", name)
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", name)) != name:
        name = shorter
    name = re.split(r"[<(]", name)[0].rsplit("::", 1)[-1].strip() or name
    name = re.sub(r"^nccl(Dev)?Kernel_([A-Za-z]+)_.*", r"\2", name)
    return _cut(name)


def short_kernels(names: Iterable[str]) -> dict[str, str]:
    """Return a short name for each kernel, all of them different.

    Kernels with the same short name keep the fewest words that distinguish them; if no word does, a number.

    Example:
        >>> list(short_kernels(["copy<float>(int)", "copy<half>(int)", "gemm<float>(int)"]).values())
        ['copy<float>', 'copy<half>', 'gemm']
    """
    alike = grouped((short_kernel(name)[:_HEAD], name) for name in dict.fromkeys(names))
    labels: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for members in alike.values():
        for name, telling in zip(members, _telling_words(members), strict=True):
            label = _labelled(short_kernel(name), telling)
            taken[label] += 1
            labels[name] = f"{label} #{taken[label]}" if taken[label] > 1 else label
    return labels


def _telling_words(names: Sequence[str]) -> Iterator[str]:
    """Yield for each name the fewest words that distinguish it from the others; empty for names that need none."""
    shorts = list(map(short_kernel, names))
    words = [dict.fromkeys(_words(name)) for name in names]
    counts, times = Counter(chain(*words)), Counter(shorts)
    for short, name_words in zip(shorts, words, strict=True):
        alike: list[dict[str, None]] = []
        if times[short] > 1 or len(short) == LONGEST:
            alike = [others for others in words if others is not name_words]
        chosen: set[str] = set()
        for word in sorted(name_words, key=lambda word: (counts[word], word.isdigit())):
            left = [others for others in alike if word in others]
            if len(left) < len(alike):
                chosen.add(word)
                alike = left
        yield " ".join(word for word in name_words if word in chosen)


def _words(name: str) -> Iterator[str]:
    for word in re.findall(r"\w+", name):
        yield from word.split("_") if len(word) > _WORDS else [word]


def _labelled(short: str, telling: str) -> str:
    if not telling:
        return short
    telling = _cut(telling, _WORDS)
    return f"{_cut(short, LONGEST - len(telling) - 2)}<{telling}>"


def _cut(name: str, longest: int = LONGEST) -> str:
    end = 3 * longest // 8
    return name if len(name) <= longest else f"{name[: longest - end - 1]}…{name[-end:]}"
