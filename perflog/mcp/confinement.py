"""Which files a program may ask for: those in the folders that were given at the start, whatever the name says.

Links, `..`, absolute paths, globs, braces and archives are resolved first. Addresses and standard input are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from perflog.errors import InputError, UsageError
from perflog.files.remote import is_remote
from perflog.log import Log
from perflog.opening import find_runs, load
from perflog.parsing.input.archives import is_archive, unpacked_path
from perflog.parsing.input.log_names import REFERENCE, STDIN, LogName, split_run
from perflog.tables.store import is_store

_LONGEST = 4096  # characters of a name
_PATTERN = re.compile(r"[*?\[{]")


class Confinement:
    """Folders, and what may be read in them. `roots`: their real paths."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Take the folders.

        Raises:
            UsageError: One of them is no folder.
        """
        for folder in folders:
            if not os.path.isdir(folder):
                raise UsageError("this is not a folder", folder, "name folders with logs or stores")
        self.roots = tuple(dict.fromkeys(map(os.path.realpath, folders)))

    def open(self, name: str) -> Log:
        """Return the runs that a name means, as on the command line: a log, LOG#3, a folder, a glob, a store, a run id.

        A path is relative to one of the folders, or absolute. Run ids and labels are looked up in the stores there.

        Raises:
            PerflogError: There is no such log, or it is not in the folders.
        """
        if name.startswith(REFERENCE):
            return find_runs(name)
        if (path := self._path(name)) is not None:
            self._check(path)
            log = find_runs(path)
            log.name = name
            return log
        for store in self.stores():
            stored = load(store)
            if matches := stored.match(name):
                return stored.select(*matches)
        raise InputError("no such log or run", name, f"a path in {', '.join(self.roots)}, or a run of a store in them")

    def file(self, name: str) -> LogName:
        """Return the name of one log that may be read.

        Raises:
            PerflogError: There is no such file, or it is not in the folders.
        """
        path = self._path(split_run(name)[0]) or self._path(name)
        if path is None:
            raise InputError("no such file", name, f"a path in {', '.join(self.roots)}")
        self._check(path)
        return LogName.parse(path)

    def files(self, name: str) -> list[str] | None:
        """Return the paths of the files that a name means; None for a store and what is in one.

        Raises:
            PerflogError: One of them is not in the folders.
        """
        path = None if name.startswith(REFERENCE) else self._path(name)
        if path is None or is_store(path):
            return None
        self._check(path)
        return [unpacked_path(file) for log in LogName.parse(path).whole.logs() for file in log.files]

    def stores(self) -> Iterator[str]:
        """Yield the stores: a folder itself, or the default store in it."""
        for root in self.roots:
            for store in (root, os.path.join(root, ".perflog")):
                if os.path.isdir(store) and is_store(store):
                    self._check_tree(store)
                    yield store

    def _path(self, name: str) -> str | None:
        """Return the path that a name means; None if there is nothing there.

        Raises:
            UsageError: It is no path, or not one in the folders.
        """
        if not name or len(name) > _LONGEST or "\0" in name:
            raise UsageError(
                "this is not the name of a log", repr(name[:40]), "name a log, LOG#3, a folder or a run id"
            )
        if name == STDIN or is_remote(name) or "://" in name:
            raise UsageError("only files in the folders given at the start are read", name, self._where)
        bases = [base for root in self.roots for base in (root, os.path.dirname(root))]  # a folder may be named, too
        inside = [path for base in bases if self._contains(path := os.path.normpath(os.path.join(base, name)))]
        if not inside:
            raise self._outside(name)
        return next((path for path in inside if LogName.parse(path).exists()), None)

    def _contains(self, path: str) -> bool:
        """Whether a path is in one of the folders: of a pattern, the part before it, and no part goes up again."""
        before = _PATTERN.split(path)[0] if not os.path.exists(path) else path
        real = os.path.realpath(before if before == path else os.path.dirname(before) or "/")
        return ".." not in re.split(r"[/,{}]", path) and self._is_inside(real)

    def _is_inside(self, real: str) -> bool:
        return any(real == root or real.startswith(f"{root.rstrip('/')}/") for root in self.roots)

    def _check(self, path: str) -> None:
        """Check each file that a path names.

        Raises:
            UsageError: One of them is outside, or is no plain file.
        """
        whole = LogName.parse(path).whole
        if os.path.isdir(whole.log):
            self._check_tree(whole.log)
            return
        for log in whole.logs() if whole.is_glob or is_archive(whole.log) else [whole]:
            for file in log.files:
                self._check_file(file)

    def _check_tree(self, folder: str) -> None:
        """Check a folder with all that is in it. Links to folders are not followed when it is read."""
        self._check_file(folder)
        for place, folders, files in os.walk(folder):
            links = [os.path.join(place, name) for name in files if os.path.islink(os.path.join(place, name))]
            for path in links:
                self._check_file(path)
            folders[:] = [name for name in folders if not os.path.islink(os.path.join(place, name))]

    def _check_file(self, path: str) -> None:
        real = os.path.realpath(path)
        if not self._is_inside(real):
            raise self._outside(path)
        if os.path.exists(real) and not os.path.isfile(real) and not os.path.isdir(real):
            raise UsageError("this is a pipe or a device, not a log", path, "name a plain file")

    def _outside(self, name: str) -> UsageError:
        return UsageError("this is outside of the folders given at the start", name, self._where)

    @property
    def _where(self) -> str:
        return f"`perflog mcp` reads in {', '.join(self.roots)}"
