"""Sentences about one log that contradict one another, or the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import perflog
from perflog.analysis.diagnosis import diagnose
from perflog.analysis.lint import findings
from perflog.analysis.overview import Overview, overview_of
from perflog.metrics import Options
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.cause import Cause
from perflog.metrics.registry import Tables

_HEADLINE = "Bottleneck:"
_BINDS = re.compile(r"\b(?:bottlenecks?|bound by|binds|limited by|dominat\w+|-bound by)\b", re.IGNORECASE)
_IDLES = re.compile(r"^The GPU idles (\d+) % of the time")
_SUMS = re.compile(r"^(?:On the critical path|GPU time by range):")
_SHARE = re.compile(r"(\d+) %")
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_TIMES_NOTHING = "it times nothing inside a step"
PART_OF_STEP = re.compile(
    r"\b(?:fwd|bwd|forward|backward|optimi[sz]er|data[ _-]?(?:load(?:ing)?|time|wait)|all[_-]?reduce)"
    r"(?:[ _-]?(?:time|ms|s))?(?: \((?:ms|s)\))?\s*[:=]\s*(?!0+\b(?!\.))\d+(?:\.\d+)?(?:e-?\d+)?\s*(?:ms|us|s|sec)\b",
    re.IGNORECASE,
)  # fmt: skip


def contradictions(log: perflog.Log, text: str = "") -> Iterator[str]:
    """Yield what contradicts, in words. `text`: what the log holds, if it is text."""
    tables = Tables(log)
    seen = overview_of(log, tables, Options())
    lint, verdict = findings(tables), diagnose(log)
    others = [each.message for each in lint] + [verdict.verdict, verdict.why, verdict.cost, *verdict.speed]
    yield from what_binds(seen, [*seen.reasons, *others])
    yield from shares(seen)
    yield from sums(seen.reasons)
    yield from _not_in_the_log(seen.reasons, tables, text)
    for run, causes in causes_by_run(tables, Options()).items():
        if sum(each.binds for each in causes) != any(each.binds for each in causes[:1]):
            yield f"{run}: what binds is not the first cause"
        if any(each.share > 1 + 1e-9 or each.gain > 1 + 1e-9 for each in causes):
            yield f"{run}: a cause is more than the whole"


def what_binds(seen: Overview, sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences that name what binds beside the headline, or another thing than the first cause."""
    heads = [each for each in sentences if _HEADLINE in each]
    if len(seen.groups) == 1 and len(heads) > 1:
        yield f"several bottlenecks: {heads}"
    for each in sentences:
        if each not in heads and (found := _BINDS.search(each)):
            yield f"`{found[0]}` beside the headline: {each}"
    bound = [each for each in seen.causes if each.binds]
    if len(seen.groups) == 1 and heads:
        words = heads[0].lower()
        if not bound or not any(str(word).lower() in words for word in _names_of(bound[0]) if word):
            yield f"the first cause is {bound and (bound[0].subject, bound[0].name)}: {heads[0]}"


def _names_of(cause: Cause) -> tuple[object, ...]:
    alike = {"launch": "launches", "data": "data", "communication": "communication", "kernel": "kernel"}
    short = str(cause.name)[:12] if cause.name else None
    return cause.subject, cause.name, short, alike.get(cause.subject), "products" if cause.name == "gemm" else None


def shares(seen: Overview) -> Iterator[str]:
    """Yield the sentences that tell another share of a part than the list of the parts."""
    of_part: Mapping[str, float] = {part.name: part.share for part in seen.parts}
    if sum(of_part.values()) > 1.001:
        yield f"the parts are {sum(of_part.values()):.3f} of the whole"
    if len(seen.groups) != 1:
        return
    for each in seen.reasons:
        if (found := _IDLES.match(each)) and abs(int(found[1]) / 100 - of_part.get("idle", 0.0)) > 0.0051:
            yield f"idle is {of_part.get('idle')}: {each}"
        if each.startswith(_HEADLINE) and "would be" not in each:
            for name, share in of_part.items():
                told = re.match(rf"{_HEADLINE} {re.escape(name)}, (\d+) %", each)
                if told and abs(int(told[1]) / 100 - share) > 0.0051:
                    yield f"{name} is {share}: {each}"


def sums(sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences whose parts are more than their whole, each rounded."""
    for each in sentences:
        if _SUMS.match(each):
            outer = list(map(int, _SHARE.findall(_IN_BRACKETS.sub("", each))))
            if sum(outer) > 100 + len(outer) / 2:
                yield f"more than the whole: {each}"


def _not_in_the_log(sentences: Sequence[str], tables: Tables, text: str) -> Iterator[str]:
    if not any(_TIMES_NOTHING in each for each in sentences):
        return
    for name in ("phases", "events"):
        if tables.count(name):
            yield f"{_TIMES_NOTHING}, but table {name} has {tables.count(name)} rows"
    if found := PART_OF_STEP.search(text):
        yield f"{_TIMES_NOTHING}, but `{text[max(found.start() - 60, 0) : found.end() + 20]!r}`"
