"""The footer of the runs file of a batch: its logs, what is noted of them, and the other files of the batch."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import asdict

# The keys of its strings, which are JSON.
_LOGS = "logs"  # the ids of the logs
_FILES = "files"  # the other files: the CRC of the footer of each, by table
_ORIGINS = "origins"  # where logs came from: `Origin` by the id of the log
_INGESTED = "ingested"  # when they were first read into the store: a date in UTC (ISO 8601) by the id of the log
_PROVENANCE = "provenance"  # which commit, branch and job made them: values by name, by the id of the log


class Origin(Struct, frozen=True):
    """Where a log came from when it was stored.

    Attributes:
        paths: The absolute path, or the address, of its file; of several files with the same bytes, each.
        size: The number of its bytes, decompressed.
    """

    paths: tuple[str, ...]
    size: int

    def __or__(self, other: Origin) -> Origin:
        """The origin of a log that came from the files of both."""
        return Origin(tuple(dict.fromkeys([*self.paths, *other.paths])), self.size)


class LogNotes(Struct, frozen=True):
    """What a store notes of its logs beside their rows, each by the id of the log, as far as it is known.

    Attributes:
        origins: Where they came from.
        ingested: When they were first read into the store: dates in UTC, ISO 8601.
        provenance: Which commit, branch and job made them, and tags: values by name.
    """

    origins: Mapping[str, Origin] = field(default_factory=dict)
    ingested: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> LogNotes:
        """Read what `texts` has written.

        Raises:
            ValueError: It is something else.
        """
        return cls(
            _decoded(texts, _ORIGINS, dict[str, Origin]),
            _decoded(texts, _INGESTED, dict[str, str]),
            _decoded(texts, _PROVENANCE, dict[str, dict[str, str]]),
        )

    def texts(self) -> dict[str, str]:
        """Return the strings of a footer."""
        origins = {log: asdict(origin) for log, origin in sorted(self.origins.items())}
        return {
            _ORIGINS: json.dumps(origins),
            _INGESTED: json.dumps(dict(sorted(self.ingested.items()))),
            _PROVENANCE: json.dumps(dict(sorted(self.provenance.items()))),
        }

    def __or__(self, other: LogNotes) -> LogNotes:
        """The notes of both. For a log that both know, the notes of the other count."""
        return LogNotes(
            {**self.origins, **other.origins},
            {**self.ingested, **other.ingested},
            {**self.provenance, **other.provenance},
        )

    def of(self, logs: Collection[str]) -> LogNotes:
        """The notes of some logs."""
        return LogNotes(
            {log: origin for log, origin in self.origins.items() if log in logs},
            {log: date for log, date in self.ingested.items() if log in logs},
            {log: known for log, known in self.provenance.items() if log in logs},
        )


class RunsFooter(Struct, frozen=True):
    """What the runs file of a batch says of the batch.

    Attributes:
        logs: The ids of its logs.
        notes: What is noted of them.
        files: Its other files: the CRC of the footer of each, by table.
    """

    logs: tuple[str, ...]
    notes: LogNotes
    files: Mapping[str, int]

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> RunsFooter:
        """Read what `texts` has written.

        Raises:
            ValueError: It is something else.
        """
        return cls(
            _decoded(texts, _LOGS, tuple[str, ...]), LogNotes.parse(texts), _decoded(texts, _FILES, dict[str, int])
        )

    def texts(self) -> dict[str, str]:
        """Return the strings of the footer."""
        return {_LOGS: json.dumps(self.logs), _FILES: json.dumps(self.files), **self.notes.texts()}


def _decoded(texts: Mapping[str, str], key: str, kind: object) -> Any:
    if key not in texts:
        raise ValueError(f"its footer has no {key}")
    return convert(json.loads(texts[key]), kind)  # msgspec's JSON has no names of files that are no UTF-8
