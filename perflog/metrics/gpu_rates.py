"""Rates of one GPU: which rates of table `steps` count the work of one GPU, although the run has many."""

from __future__ import annotations

from collections.abc import Mapping

from perflog.formats.vocabulary import plain_name, quantities
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.semantics import semantics_by_run

_RATE = "tokens_per_s"
_PRINTED = lazy_pattern(rf"(?P<before>[^{{}}]*)\{{{_RATE}(?::[^{{}}]*)?\}}(?P<after>[^{{}}]*)(?P<next>\{{)?")


@computed_once
def rates_of_one_gpu(tables: Tables) -> Mapping[str, frozenset[str]]:
    """Return by run the columns of table `steps` with rates of one GPU.

    The format of the run says so, or a line prints the rate under such a name: `tok/s/gpu: 6301`, `6301 tokens/s/GPU`.
    """
    found = {run: set(semantics.of_one_gpu) for run, semantics in semantics_by_run(tables.rows("runs")).items()}
    lines = tables.rows("lines")
    shapes = [shape for shape in lines.counts("shape") if f"{{{_RATE}" in shape and _names_one_gpu(shape)]
    runs = lines.where(lines.one_of("shape", shapes)).counts("run") if shapes else {}
    return {run: frozenset(names | ({_RATE} if run in runs else set())) for run, names in found.items()}


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
