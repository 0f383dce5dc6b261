"""Whether a line of meters is about an evaluation, by its words: `val loss 2.3`, `Validation Results - Epoch[1]`."""

from __future__ import annotations

from collections.abc import Collection

from perflog.formats.families.meters.bars import PATTERN as BAR_PATTERN
from perflog.formats.families.meters.names import COUNTER_WORDS
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import NAME, NUMBER, Token, tokens
from perflog.formats.vocabulary import EVALUATIONS

_AFTER_EVALUATION = COUNTER_WORDS | {"on", "dataloader", "result", "results", "metrics"}
"""Words that name no measured number: `val on 'x'`, `Validation Results - Epoch[1]`."""
_OF_EVALUATION = frozenset("loss acc accuracy top1 top5 f1 auc ppl perplexity time".split())
"""Words of the figures of one evaluation."""


def evaluation_of(before: str, head: str, after: str) -> str:
    """Return the word by which a line says that it is about an evaluation; "" if it does not.

    The word is before the first measured number, and it is not part of the name of a number: `val loss 2.3`. Or it
    is the first or the last word of the head.
    """
    words = head.split() or [""]
    for word in (words[0].lower(), words[-1].rpartition("}")[2].lower()):
        if word in EVALUATIONS:
            return word
    parts: list[Token] = []
    for text in (before, head, after):
        bar = BAR_PATTERN.search(text)  # what is after it says nothing of the bar
        parts += tokens(text[: bar.start()] if bar is not None else text)
        if bar is not None:
            break
    line = TokenLine(parts)
    for k, token in enumerate(parts):
        if token.kind != NAME:
            continue
        word, is_bound = token.text.lower(), line.text(k + 1) in (":", "=")
        names_number = line.kind(k + 1 + is_bound) == NUMBER
        last = word.rpartition("-")[2] if is_bound else word  # `FastEstimator-Eval: step: 3`
        if word in EVALUATIONS or last in EVALUATIONS:
            is_of_name = line.kind(k + 1) == NAME and line.text(k + 1).lower() not in _AFTER_EVALUATION
            return "" if is_of_name or (is_bound and names_number) else word.rpartition("-")[2]
        if names_number and word not in COUNTER_WORDS:
            return ""
    return ""


def evaluation_of_words(text: str) -> str:
    """Return the evaluation that the first measured name begins with, if all others may be of it; "" for none.

    `Epoch [3] | Test Loss: 2.5 | Acc: 12.5% | Time: 1.5s`: else its time would be one of the times of training.
    """
    words = [part.text.lower() for part in tokens(text) if part.kind == NAME]
    words = [word for word in words if word not in COUNTER_WORDS]
    first = words[0] if words else ""
    return first if first in EVALUATIONS and _OF_EVALUATION.issuperset(words[1:]) else ""


def is_evaluated(printed: Collection[str]) -> bool:
    """Return whether all names of a line, apart from counters, belong to an evaluation: `iter: 8 val_loss: 2.5`."""
    measured = [name for name in printed if name not in COUNTER_WORDS]
    return bool(measured) and all(name.split("_")[0] in EVALUATIONS for name in measured)
