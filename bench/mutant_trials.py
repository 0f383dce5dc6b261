"""Tries changed code of a module: do its near tests notice?

The near tests of a module are collected once, in a process of their own. Each change of a function is then tried in a
fork of that process, which gives the function its changed code before it runs the tests. This takes milliseconds
where a new process takes seconds. Code of modules and classes runs when they are imported, and so do functions that are
called meanwhile. Changes of these are tried in a new process that imports the changed module.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import CodeType, FrameType, FunctionType
from typing import Literal

import pytest

Verdict = Literal["killed", "endless", "survived"]

TIME_LIMIT = 240.0
"""Seconds for the near tests in a new process. If the code without the change takes less, it is an endless loop."""

ALLOWED = 5.0
"""Seconds for the near tests in a fork, and ten times what they took there without a change."""

SHARED_FOLDER = "PERFLOG_TESTS"
"""Environment variable of `tests/support/paths.py`: what one changed code wrote there, the next must not find."""


def near_tests(root: Path, module: Path) -> list[str]:
    """Return the tests of the module's name; if there are none, those that import it and those of its folder."""
    folders = module.parts[1:-1]
    own = root.joinpath("tests", *folders, f"test_{module.stem}.py")
    tests = sorted(root.joinpath("tests", *folders[:1]).rglob("test_*.py"))
    named = [path for path in tests if path.name == own.name and not _is_of_another(root, path, module)]
    parent = re.escape(".".join(module.parts[:-1]))
    imported = re.compile(rf"{parent}\.{module.stem}\b|from {parent} import [^(\n]*\b{module.stem}\b")
    importing = [path for path in tests if imported.search(path.read_text("utf-8"))]
    of_package = [path for path in tests if path.parent == own.parent and folders[1:]]
    in_folder = [path for path in tests if path.parent.name == (folders or ("tests",))[-1]]
    chosen = [own] if own.is_file() else named or sorted({*importing, *of_package}) or in_folder or tests
    return [path.relative_to(root).as_posix() for path in chosen]


def _is_of_another(root: Path, test: Path, module: Path) -> bool:
    """Return whether a test of the module's name is in the folder of another module of this name."""
    return (root / module.parts[0] / test.parent.relative_to(root / "tests") / module.name).is_file()


@contextmanager
def copied_checkout(root: Path) -> Iterator[Path]:
    """Copy the files that git knows or does not ignore, so that the checkout is never changed."""
    names = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(names, cwd=root, capture_output=True, text=True, check=True).stdout
    with TemporaryDirectory(prefix="perflog-mutants-") as folder:
        copy = Path(folder) / "checkout"
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        if (root.parent / "shared").is_dir():
            (Path(folder) / "shared").symlink_to(root.parent / "shared")
        yield copy


def in_fork(action: Callable[[], int], limit: float) -> int | None:
    """Call an action in a fork, without its output. Return its status, None after the limit of seconds."""
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            status = action()
        finally:
            os._exit(status)
    ended, end = 0, time.monotonic() + limit
    try:
        while time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
            time.sleep(0.005)
    finally:
        if not ended:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return None


def functions_of(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the code of each function and method by name and first line. Functions inside it are part of it."""
    found = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if not inner.co_flags & inspect.CO_OPTIMIZED:
                found |= functions_of(inner)
            elif not inner.co_name.startswith("<"):
                found[inner.co_qualname, inner.co_firstlineno] = inner
    return found


def _verdict(status: int | None) -> Verdict:
    return "endless" if status is None else "killed" if status else "survived"


class SwappedCode:
    """A plug-in of pytest. It tries changed codes of a module in forks of the session, and notes which were noticed.

    `verdicts` is None if the tests fail without a change. It ends early if the time is up, and holds None for a code
    that has to be imported.
    """

    def __init__(self, module: Path, codes: list[str], end: float) -> None:
        self.module = module
        self.codes = codes
        self.end = end
        self.called: set[CodeType] = set()
        self.verdicts: list[Verdict | None] | None = None
        sys.setprofile(self._note_call)

    def _note_call(self, frame: FrameType, event: str, _arg: object) -> None:
        """Note what is called before the tests run."""
        if event == "call" and frame.f_code.co_filename.endswith(self.module.name):
            self.called.add(frame.f_code)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replace the loop that runs each test once."""
        sys.setprofile(None)
        loaded = importlib.import_module(".".join(self.module.with_suffix("").parts))
        sound = functions_of(compile(self.module.read_text("utf-8"), str(loaded.__file__), "exec"))
        gc.unfreeze()  # tests/conftest.py freezes what was collected, and the collector lists no frozen objects
        functions = [
            (found, (found.__code__.co_qualname, found.__code__.co_firstlineno))
            for found in gc.get_objects()
            if type(found) is FunctionType and found.__globals__ is loaded.__dict__  # isinstance asks objects of torch
        ]
        gc.freeze()
        started = time.monotonic()
        if session.testsfailed or in_fork(lambda: self._run(session), TIME_LIMIT) != 0:
            return True
        limit = ALLOWED + 10 * (time.monotonic() - started)
        self.verdicts = []
        for text in self.codes:
            if time.monotonic() > self.end:
                break
            changed = functions_of(compile(text, str(loaded.__file__), "exec"))
            swapped = [
                (function, changed[name])
                for function, name in functions
                if name in changed and changed[name] != sound.get(name)
            ]
            if not swapped or any(function.__code__ in self.called for function, _ in swapped):
                self.verdicts.append(None)
            else:
                status = in_fork(partial(self._run, session, swapped), limit)
                self.verdicts.append(_verdict(status))
        return True

    @staticmethod
    def _run(session: pytest.Session, swapped: Sequence[tuple[FunctionType, CodeType]] = ()) -> int:
        """Run the tests up to the first failure. Return whether there was one."""
        os.environ[SHARED_FOLDER] = mkdtemp()
        try:
            for function, code in swapped:
                function.__code__ = code
            for item, following in zip(session.items, [*session.items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return 1
        finally:
            shutil.rmtree(os.environ[SHARED_FOLDER])
        return 0


class Trials:
    """A copy of a checkout in which changed codes of modules are tried."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self.noted = copy.parent / "verdicts.json"

    def verdicts(self, module: Path, codes: list[str], end: float) -> list[Verdict] | None:
        """Return what the near tests made of each code, of fewer if the time is up, None if they fail without one."""
        tests = near_tests(self.copy, module)
        self.noted.unlink(missing_ok=True)
        in_fork(lambda: self._swapped(tests, SwappedCode(module, codes, end)), float("inf"))
        verdicts = json.loads(self.noted.read_text("utf-8")) if self.noted.exists() else None
        if verdicts is None:
            return None
        tried = zip(codes, verdicts, strict=False)
        return [noted or self._imported(module, text, tests) for text, noted in tried]

    def _swapped(self, tests: list[str], swaps: SwappedCode) -> int:
        status = self._pytest(tests, swaps)
        self.noted.write_text(json.dumps(swaps.verdicts), "utf-8")
        return status

    def _imported(self, module: Path, text: str, tests: list[str]) -> Verdict:
        """Try a code in a process that imports it."""
        sound = (self.copy / module).read_text("utf-8")
        try:
            self._write(module, text)
            status = in_fork(lambda: self._pytest(tests), TIME_LIMIT)
        finally:
            self._write(module, sound)
        return _verdict(status)

    def _write(self, module: Path, text: str) -> None:
        """Write a module, and remove its bytecode: the next one may have the same size and second."""
        path = self.copy / module
        path.write_text(text, "utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def _pytest(self, tests: list[str], *plugins: object) -> int:
        os.chdir(self.copy)
        sys.path.insert(0, str(self.copy))
        options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={self.copy.parent / 'temporary'}"]
        return pytest.main([*options, *tests], plugins=plugins)
