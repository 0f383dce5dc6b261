"""Formats that a log has not shown yet: unread lines that prove one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from perflog.arrow import matching
from perflog.batch import Batch, strings
from perflog.chunks import SLACK
from perflog.declared import Family, Format, Line
from perflog.detect import Proofs
from perflog.grown import patterns_of
from perflog.scan import LABELS, unlabelled
from perflog.template import unnamed


class Others:
    """The formats that are not active. `joins` takes out of them what shows itself."""

    def __init__(self, formats: Iterable[Format]) -> None:
        self.formats = list(formats)
        self._proofs = Proofs(self.formats)

    def joins(self, batch: Batch) -> tuple[Format, int] | None:
        """The format that the first telling one of the unread lines proves, and where that stands."""
        if not self.formats or not len(batch.unread):
            return None
        rows = batch.rows(batch.unread)
        texts = strings(batch.chunk.data, batch.starts[rows], batch.ends[rows])
        body = bytes(texts.buffers()[2] or b"")
        possible = self._proofs.possible(body + bytes(SLACK), len(body))
        lines = [x for _, x in possible if isinstance(x, Line)]
        families = [x for _, x in possible if not isinstance(x, Line)]
        patterns = [f"^{LABELS}*(?s:{unnamed(x.template.pattern)})[ \\t]*$" for x in lines] + patterns_of(families)
        for place in batch.unread[np.flatnonzero(matching(texts, patterns))].tolist():
            text = unlabelled(batch.text(place, 1 << 16).encode())
            form = next((form for form, x in possible if _reads(x, text)), None)
            if form is not None:
                self.formats.remove(form)
                self._proofs = Proofs(self.formats)
                return form, place
        return None


def _reads(proof: Line | Family, text: bytes) -> bool:
    if isinstance(proof, Line):
        return proof.template.match(text) is not None
    return bool(proof.lines(text.decode("utf-8", "surrogateescape")))
