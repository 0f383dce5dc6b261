"""Plain lines: a name and a value in words that any program may print, such as `Training time: 12.5s`.

One of them proves no program, however many letters it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from perflog.formats.model import Line
from perflog.formats.vocabulary import PLACES
from perflog.lazy_patterns import lazy_pattern

FEW = 3
"""Different plain lines that prove a program together."""

_GAPS = 3  # between columns: fewer may be in a line that only aligns its value
_WORD = lazy_pattern(r"[A-Za-z]+")
_OTHER_MARKS = lazy_pattern(r"[^\w\s:=.,()/-]|--|==")
_WORDS = frozenset(
    "memory mem used usage peak max min total average avg mean median time times elapsed duration latency "
    "throughput training trained train started starting finished done loss val valid validation test eval "
    "evaluation step steps iter iters iteration iterations epoch epochs batch batches size sizes number num count "
    "of per second seconds sec secs s ms us ns minutes m h wall tokens token samples sample requests request "
    "images req tok it rate speed bandwidth tflops tflop flops gflops gb mb kb gib mib kib byte bytes parameters "
    "params trainable layers heads vocab vocabulary hidden dim model data array world local rank ranks gpu gpus "
    "cpu cuda hip device devices node nodes backend concurrency seed successful failed completed prompt prompts "
    "input output generated in on to from for with at and the a using running run loading loaded load saving "
    "saved writing wrote final checkpoint resuming resumed collecting warmup benchmark measured forward backward "
    "fwd bwd optimizer wait compute communication comm sync allocated reserved lr learning accuracy acc score "
    "reward perplexity ppl non nbatches nsteps".split()
)
"""Words of names, units and sentences that any program may print."""


@lru_cache(1 << 12)
def is_plain(line: Line) -> bool:
    """Return whether any program may print a line: common words and at most one value, perhaps of a rank or a step."""
    fields = [f for f in line.template.fields if not f.is_dropped and f.name not in PLACES]
    texts = line.template.literals
    words = [word.lower() for text in texts for word in _WORD.findall(text)]
    gaps = sum(f.type == "b" for f in line.template.fields)  # of any width: between the names of columns
    is_pair = len(fields) <= 1 and gaps < _GAPS and line.header_of is None and not line.under_header
    return is_pair and _WORDS.issuperset(words) and not any(map(_OTHER_MARKS.search, texts))


def are_few(lines: Sequence[Line]) -> bool:
    """Return whether some lines are plain and few: they prove no program."""
    return len({line.name for line in lines}) < FEW and all(map(is_plain, lines))
