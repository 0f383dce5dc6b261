"""Rates of one GPU: which rates of table `steps` count the work of one GPU, although the run has many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from perflog.formats.vocabulary import plain_name, quantities
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.semantics import semantics_by_run
from perflog.tables.columns import Rows

_RATE = "tokens_per_s"
_PRINTED = lazy_pattern(rf"(?P<before>[^{{}}]*)\{{{_RATE}(?::[^{{}}]*)?\}}(?P<after>[^{{}}]*)(?P<next>\{{)?")
_FIELD = lazy_pattern(r"\{(\w+)(?::[^{}]*)?\}")
_BLANKS = "{_:b}"
_BETWEEN_CELLS = lazy_pattern(r"\s*[,;|]\s*|\s+")


@computed_once
def rates_of_one_gpu(tables: Tables) -> Mapping[str, frozenset[str]]:
    """Return by run the columns of table `steps` with rates of one GPU.

    The format of the run says so, or a line prints the rate under such a name: `tok/s/gpu: 6301`, `6301 tokens/s/GPU`.
    Else the header of a table does, or the only series of a rate: `perf/tokens_per_sec_per_gpu`.
    """
    found = {run: set(semantics.of_one_gpu) for run, semantics in semantics_by_run(tables.rows("runs")).items()}
    lines = tables.rows("lines")
    shapes = [shape for shape in lines.counts("shape") if f"{{{_RATE}" in shape and _PRINTED.search(shape)]
    printed = lines.where(lines.one_of("shape", shapes))
    named = {shape for shape in shapes if _names_one_gpu(shape)}
    runs = set()
    for run, shape in printed.records("run", "shape"):
        if shape in named or (_is_row(shape) and _heads_one_gpu(tables.rows_of("lines", run), shape)):
            runs.add(run)
    steps = tables.rows("steps")
    unprinted = steps.where(steps.known(_RATE)).counts("run").keys() - printed.counts("run").keys()
    runs |= {run for run in unprinted if _is_series_of_one_gpu(tables.rows_of("values", run).counts("key"))}
    return {run: frozenset(names | ({_RATE} if run in runs else set())) for run, names in found.items()}


def _is_row(shape: str) -> bool:
    """Return whether a line has values alone, below a header: `{step:d},{tokens_per_s:r}`."""
    return not any(map(str.isalpha, _FIELD.sub("", shape)))


def _heads_one_gpu(lines: Rows, row: str) -> bool:
    """Return whether a header of a run names the rate in a row as one of one GPU."""
    fields = _FIELD.findall(row.replace(_BLANKS, ""))
    texts = (shape.replace(_BLANKS, "").strip() for shape in lines.counts("shape"))
    headers = (_BETWEEN_CELLS.split(text) for text in texts if "{" not in text)
    cells = [header[fields.index(_RATE)] for header in headers if len(header) == len(fields)]
    return any(plain_name(cell) in quantities()[_RATE].gpu_names for cell in cells)


def _is_series_of_one_gpu(keys: Iterable[str]) -> bool:
    """Return whether the only series of the rate, if any, is of one GPU."""
    names = {plain_name(part) for key in keys for part in (key, re.split("[/.]", key)[-1])}
    rate = quantities()[_RATE]
    return not rate.gpu_names.isdisjoint(names) and names.isdisjoint({*rate.names} - rate.gpu_names)


def _names_one_gpu(shape: str) -> bool:
    """Return whether a line prints the rate after or before a name of a rate of one GPU.

    What is between two numbers is the name of the second one, if the first has its own: `tps: 8000, tps/gpu: 1000`.
    """
    printed = _PRINTED.search(shape)
    if printed is None:
        return False
    rate = quantities()[_RATE]
    before, after = (plain_name(printed[part]).split("_") for part in ("before", "after"))
    most = range(1, max(name.count("_") for name in rate.names) + 2)
    own = ["_".join(before[-n:]) for n in most]
    if not rate.gpu_names.isdisjoint(own):
        return True
    is_name = printed["next"] and not printed["after"].rstrip().endswith((",", ";", "|", ")"))
    is_of_next = is_name and "_".join(after) in rate.gpu_names and not {*rate.names}.isdisjoint(own)
    return not is_of_next and not rate.gpu_names.isdisjoint("_".join(after[:n]) for n in most)
