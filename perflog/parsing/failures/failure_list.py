"""The failures of a log: a message that a process repeats is counted, and so is each notice."""

from __future__ import annotations

from collections import Counter

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import NOTICE

_MOST = 20_000  # failures of a kind that are kept one by one: each rank of a job may report some
_NUMBER = lazy_pattern(r"\d+")
_DISTINGUISHING = ("job", "seq", "node", "tasks", "absent", "rank", "local_rank", "address", "gpu")
"""Values that distinguish failures with the same message: of different processes, devices, jobs or collectives."""


class FailureList:
    """Collects failures in `failures`. `newest`: the last one of any stream that is no notice."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.newest: Failure | None = None
        self._latest: dict[str, Failure] = {}  # by stream
        self._counts: Counter[str] = Counter()  # of the failures that are kept, by kind
        self._notices: dict[tuple[str, str, str, str], Failure] = {}  # by stream, kind, message and rank

    def begin_run(self) -> None:
        """Count what is repeated from here on for itself."""
        self._latest, self._notices = {}, {}

    def begin_log(self) -> None:
        """Begin another log: no message goes on in it."""
        self.begin_run()
        self.newest = None

    def add(self, failure: Failure) -> bool:
        """Add a failure to the list. Return whether it is kept, or counted."""
        if failure.kind.role == NOTICE:
            return self._add_notice(failure)
        latest = self._latest.get(failure.stream)
        alike = latest is not None and latest.kind is failure.kind and latest.origin == failure.origin
        alike = alike and latest is not None and all(
            latest.values.get(name) == failure.values.get(name) for name in _DISTINGUISHING
        )  # fmt: skip
        is_full = self._counts[failure.kind.name] >= _MOST
        if latest is not None and alike and (is_full or _masked(latest.message) == _masked(failure.message)):
            latest.count += 1
            latest.last_line = max(latest.last_line, failure.last_line)
            self.newest = latest
            return True
        if is_full:
            return False
        self._counts[failure.kind.name] += 1
        self._latest[failure.stream] = self.newest = failure
        self.failures.append(failure)
        return True

    def _add_notice(self, notice: Failure) -> bool:
        """Add a notice, once for each process and message, and for each rank that the line names."""
        rank = notice.values.get("rank") or str(notice.origin.rank)
        key = notice.stream, notice.kind.name, _masked(notice.message), rank
        known = self._notices.get(key)
        if known is not None:
            known.count += 1
            known.last_line = notice.last_line
        elif len(self._notices) < _MOST:
            self._notices[key] = notice
            self.failures.append(notice)
        return known is not None or notice is self._notices.get(key)


def _masked(text: str) -> str:
    return _NUMBER.sub("#", text)
