"""Processes of a file that holds several: which belong together, and which rank of the job they are.

Tools that merge the traces of ranks put a label before the number of each process, as in `[TP01] 4242` and `rank3_0`.
Numbers that join events, such as correlations, belong to one label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.rank_names import rank_in_text

_LABELLED = lazy_pattern(r"(.*?[^\s_:/.-])[\s_:/.-]+(?:-?\d+|Spans|Traces)", re.DOTALL)


def process_label(process: str) -> str:
    """Return the label before the number of a process, or nothing.

    Example:
        >>> process_label("[TP01] 4242"), process_label("4242")
        ('[TP01]', '')
    """
    labelled = _LABELLED.fullmatch(process)
    return labelled[1] if labelled else ""


def merged_labels(processes: Iterable[str]) -> dict[str, str]:
    """Return the label of each process of a merged file; nothing if there are not at least two labels."""
    labels = {process: label for process in processes if (label := process_label(process))}
    return labels if len(set(labels.values())) > 1 else {}


def process_ranks(processes: Iterable[str], names: Mapping[str, str]) -> dict[str, int]:
    """Return the rank of each process that states one, in its label or in its name; nothing for a file of one rank.

    Args:
        processes: processes, as the trace's events name them.
        names: names of processes, as the trace's metadata gives them.
    """
    stated = ((process, (process_label(process), names.get(process, ""))) for process in processes)
    ranks = {
        process: rank
        for process, texts in stated
        if (rank := next((rank for text in texts if (rank := rank_in_text(text)) is not None), None)) is not None
    }
    return ranks if len(set(ranks.values())) > 1 else {}
