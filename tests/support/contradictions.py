"""Sentences about one log that contradict one another, or the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import perflog
from perflog.analysis.diagnosis import diagnose
from perflog.analysis.lint import findings
from perflog.analysis.overview import Overview, overview_of
from perflog.metrics import Options, device_time, stuck_ranks
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.cause import Cause
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_time import wholes_of_traces

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


def contradictions(
    log: perflog.Log,
    text: str = "",
    report: bool = False,
    tables: Tables | None = None,
    seen: Overview | None = None,
) -> Iterator[str]:
    """Yield what contradicts, in words. `text`: what the log holds, if it is text. `report`: its sentences too.

    `tables` and `seen`: the tables and the overview of the log, where they have been computed.
    """
    tables = tables or Tables(log)
    seen = seen or overview_of(log, tables, Options())
    lint, verdict = [finding for doubt in seen.doubts for finding in doubt.findings], diagnose(log)
    others = [each.message for each in lint] + [verdict.verdict, verdict.why, verdict.cost, *verdict.speed]
    told = [each for each in report_sentences(log) if each not in seen.reasons] if report else []
    yield from what_binds(seen, [*seen.reasons, *others, *told])
    yield from shares(seen)
    yield from sums([*seen.reasons, *told])
    yield from other_numbers([*seen.reasons, *told])
    yield from denied([*seen.reasons, *others, *told], tables)
    failed = [each.message for each in lint if each.code == "program-error" and each.severity == "error"]
    if failed and _NO_FAILURE.search(verdict.verdict):
        yield f"{failed[0]} -- {verdict.verdict}"
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


def report_sentences(log: perflog.Log) -> list[str]:
    """Return the sentences of the answers with which the report of a log begins."""
    answers = perflog.report(log, format="md").partition("\n## ")[0]
    lines = (line.strip().removeprefix("- ") for line in answers.splitlines())
    plain = (line.replace("**", "").replace("\\", "") for line in lines if line and line[0] not in "|#<")
    return [line for line in plain if line.endswith(".") and _HEADLINE not in line]


def other_numbers(sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences that another one tells in the same words with other numbers."""
    by_words: dict[str, str] = {}
    for each in sentences:
        before = by_words.setdefault(_NUMBER.sub(lambda found: "#" if found[1] else found[0], each), each)
        if before != each:
            yield f"other numbers: {before} -- {each}"


def denied(sentences: Sequence[str], tables: Tables) -> Iterator[str]:
    """Yield the sentences that say of something that it is not there, though a table has it."""
    for pattern, evidence in _DENIALS.items():
        for each in sentences:
            if pattern.search(each) and (found := evidence(tables, each)):
                yield f"{found}: {each}"


def _hidden(tables: Tables, sentence: str) -> str | None:
    """Communication that is hidden: `no` is none, `hardly any` less than half a per cent."""
    rows = wholes_of_traces(device_time.table(tables, Options()))
    rows = rows[rows["communicating_s"] > 0]
    most = 0.005 if "hardly any" in sentence else 1e-9
    share = (rows["overlap"] * rows["communicating_s"]).sum() / max(rows["communicating_s"].sum(), 1e-12)
    return f"{share:.4f} of communication is hidden" if share > most else None


def _has(*names: str) -> Callable[[Tables, str], str | None]:
    def rows(tables: Tables, _: str) -> str | None:
        return next((f"table {name} has rows" for name in names if tables.count(name)), None)

    return rows


def _found(tables: Tables, _: str) -> str | None:
    worst = [each for each in findings(tables) if each.severity in ("error", "warning")]
    return worst[0].message if worst else None


def _works(tables: Tables, _: str) -> str | None:
    return "device work has a time" if len(device_time.table(tables, Options())) else None


def _steps(tables: Tables, _: str) -> str | None:
    return "there are steps" if (tables.rows("steps")["step"] >= 0).any() else None


_NAMED = r"steps?|lines?|ranks?|devices?|stages?|nodes?|layers?|streams?|groups?|epochs?|experts?|blocks?"
_NUMBER = re.compile(rf"(?:\b(?:{_NAMED}) \d[\d,.]*)|(\d[\d,]*(?:\.\d+)?)")  # a number that names a thing is a word
_NO_FAILURE = re.compile(r"\bno failure is reported\b", re.IGNORECASE)
_DENIALS: Mapping[re.Pattern[str], Callable[[Tables, str], str | None]] = {
    re.compile(r"\b(?:no|hardly any) communication\s+is hidden"): _hidden,
    re.compile(r"\bnone of (?:it|[\d,]+ events?) is known as work of a device"): _works,
    re.compile(r"^No call is pending"): lambda tables, _: next(iter(_pending(tables)), None),
    re.compile(r"\bchecks found nothing|^No findings"): _found,
    re.compile(r"\bno part of a step is timed\b(?! in both)"): _has("phases", "events"),
    re.compile(r"\b(?:no|nothing|none)\b.*\bsteps? (?:is|are) (?:printed|in the log)"): _steps,
}


def _pending(tables: Tables) -> Iterator[str]:
    rows = stuck_ranks.table(tables, Options())
    holding = rows[rows["holds_up"].astype("boolean").fillna(False)]
    yield from (f"rank {rank} holds others up" for rank in holding["rank"].tolist()[:1])


def _not_in_the_log(sentences: Sequence[str], tables: Tables, text: str) -> Iterator[str]:
    if not any(_TIMES_NOTHING in each for each in sentences):
        return
    for name in ("phases", "events"):
        if tables.count(name):
            yield f"{_TIMES_NOTHING}, but table {name} has {tables.count(name)} rows"
    if found := PART_OF_STEP.search(text):
        yield f"{_TIMES_NOTHING}, but `{text[max(found.start() - 60, 0) : found.end() + 20]!r}`"
