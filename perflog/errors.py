"""Errors a user sees: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class PerflogError(Exception):
    """Base class of errors for users: `reason` is the fault, `where` its location, `help` the remedy.

    `code` is the exit code of the command line: 3 for input that cannot be used. A remedy that takes long to find is
    given as a function, which is called when somebody asks for it.
    """

    code = 3

    def __init__(self, reason: str, where: str = "", help: str | Callable[[], str] = "") -> None:
        super().__init__(reason, where, help)
        self.reason = reason
        self.where = where
        self._help = help

    @property
    def help(self) -> str:
        if not isinstance(self._help, str):
            self._help = self._help()
            self.args = (self.reason, self.where, self._help)
        return self._help

    def __reduce__(self) -> tuple[type[PerflogError], tuple[str, str, str], dict[str, object]]:
        """Another process gets the help as a string."""
        return type(self), (self.reason, self.where, self.help), vars(self)

    def __str__(self) -> str:
        text = f"{self.where}: {self.reason}" if self.where else self.reason
        return f"{text}\n{self.help}" if self.help else text


class InputError(PerflogError):
    """A log that cannot be opened, or in which nothing is recognised."""


class UnknownTableError(InputError):
    """A Parquet or Arrow file with columns that perflog does not know: data of another kind, and no damaged log."""


class EmptyLogError(InputError):
    """A log without a byte."""


class BinaryFileError(InputError):
    """A file that is not made of lines, and that no reader knows."""


class UnrecognisedError(InputError):
    """A log of lines of which no format reads a row. Its numbers can be read under guessed names."""


class FormatError(PerflogError):
    """A format file that is wrong."""


class ReaderError(PerflogError):
    """A reader of another package that cannot be loaded."""


class StoreError(PerflogError):
    """A store that cannot be read or written."""


class UsageError(PerflogError):
    """Something asked for that does not exist: a run, a table, a format."""

    code = 2


class NothingToCompareError(UsageError):
    """Two sides of a comparison have no configuration or no metric in common."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The most similar of some words, or the first one that begins with the word; None if none is similar."""
    import difflib

    words = list(words)
    longer = [known for known in words if word and known.startswith(word)]
    return next(iter([*difflib.get_close_matches(word, words, 1), *longer]), None)


def did_you_mean(word: str, words: Iterable[str], otherwise: str | None = None) -> str:
    """A help line: the nearest of the known words, or `otherwise` (default: all of them)."""
    words = list(words)
    close = nearest(word, words)
    if close is not None:
        return f"did you mean `{close}`?"
    return f"known: {', '.join(sorted(words))}" if otherwise is None else otherwise
