"""Mutation testing on a sample: do the tests of a module notice a small change of it?

    make mutants                                     ten minutes
    make mutants MUTANTS_MINUTES=30                  longer
    python bench/mutants.py --packages parsing --seed 7
    python bench/mutants.py --modules perflog/parsing/match/discovery.py

A mutant is one change of one module: of a comparison, a number, an operator or a keyword. It is written into a copy of
the checkout, and only the near tests run: `tests/PACKAGE/.../test_MODULE.py`. If there is none, the tests of the
package that import the module, else the tests of its folder. A mutant that survives is printed with its line. It is a
gap in the tests, or equivalent to the code: a person decides.

The operators are those of mutmut. Its runner does not fit: it needs a run of all tests to find those of each function,
draws no sample, and skips decorated functions, which all metrics are. cosmic-ray runs the same tests for all modules.
Operators are left out if they change messages or if nearly all of their mutants raise at once, since any test kills
these: strings, `None` for a value, arguments removed, bodies of lambdas. So are aliases of types.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import libcst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("parsing", "readers", "metrics", "statistics")

LEFT_OUT = (
    mutators.operator_string,
    mutators.operator_assignment,
    mutators.operator_arg_removal,
    mutators.operator_dict_arguments,
    mutators.operator_lambda,
)
OPERATORS = [(kind, change) for kind, change in mutators.mutation_operators if change not in LEFT_OUT]

PRELOADED = ("msgspec", "numpy", "pandas", "pyarrow.compute", "pyarrow.parquet")
"""Imported once: the tests of each mutant run in a fork. pytest has to import its plug-ins itself."""

TIME_LIMIT = 240.0
"""Seconds for the near tests of a mutant. If the code without it takes less, the mutant is an endless loop: killed."""


@dataclass
class Mutant:
    """A change of one module: its line, the code before and after, and the whole module after it."""

    module: Path
    line: int
    before: str
    after: str
    code: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before}  ->  {self.after}"


_DESCRIBING = {"strict", "frozen", "kw_only", "brief"}
"""Names of arguments that are left alone."""


def _is_type_alias(node: libcst.CSTNode) -> bool:
    """Return whether a statement names a type, such as `Times = tuple[int, float | None]`: its name is in CamelCase."""
    return (
        isinstance(node, libcst.Assign)
        and isinstance(node.targets[0].target, libcst.Name)
        and re.fullmatch(r"_?[A-Z][a-z]\w*", node.targets[0].target.value) is not None
    )


class MutantFinder(libcst.CSTVisitor):
    """Collects pairs of a node and its replacement, with the line.

    Left alone is what describes code: annotations and aliases of types, decorators, options of a class, `strict` of
    zip, `brief` of a column, which only a screen shows.
    """

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, libcst.CSTNode, libcst.CSTNode]] = []

    def on_visit(self, node: libcst.CSTNode) -> bool:
        if isinstance(node, libcst.Annotation | libcst.Decorator | libcst.Import | libcst.ImportFrom):
            return False
        if isinstance(node, libcst.If) and isinstance(node.test, libcst.Name) and node.test.value == "TYPE_CHECKING":
            return False
        if isinstance(node, libcst.Arg) and node.keyword and node.keyword.value in _DESCRIBING:
            return False
        if _is_type_alias(node):
            return False
        for kind, change in OPERATORS:
            if isinstance(node, kind):
                line = self.get_metadata(PositionProvider, node).start.line
                self.found += [(line, node, new) for new in change(node)]
        return True


def mutants(module: Path) -> list[Mutant]:
    """Return all mutants of a module."""
    tree = MetadataWrapper(libcst.parse_module((ROOT / module).read_text("utf-8")))
    finder = MutantFinder()
    tree.visit(finder)
    source = tree.module.code.splitlines()
    made = []
    for line, node, new in finder.found:
        code = tree.module.deep_replace(node, new).code
        after = code.splitlines()
        changed = next((at for at, (old, now) in enumerate(zip(source, after, strict=False)) if old != now), None)
        if changed is not None:
            made.append(Mutant(module, line, source[changed].strip(), after[changed].strip(), code))
    return made


def near_tests(module: Path) -> list[str]:
    """Return the tests of the module's name; if there are none, those that import it, else the tests of its folder."""
    folders = module.parts[1:-1]
    tests = sorted(ROOT.joinpath("tests", *folders[:1]).rglob("test_*.py"))
    own = [path for path in tests if path.stem == f"test_{module.stem}"]
    parent = re.escape(".".join(module.parts[:-1]))
    imported = re.compile(rf"{parent}\.{module.stem}\b|from {parent} import [^(\n]*\b{module.stem}\b")
    importing = [path for path in tests if imported.search(path.read_text("utf-8"))]
    of_folder = [path for path in tests if folders[1:] and path.stem.startswith(f"test_{folders[-1]}")]
    in_folder = [path for path in tests if path.parent.name == (folders or ("tests",))[-1]]
    return [path.relative_to(ROOT).as_posix() for path in own or importing or of_folder or in_folder or tests]


@contextmanager
def copied_checkout() -> Iterator[Path]:
    """Copy the files that git knows or does not ignore, so that the checkout is never changed."""
    names = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with TemporaryDirectory(prefix="perflog-mutants-") as folder:
        copy = Path(folder) / "checkout"
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        if (ROOT.parent / "shared").is_dir():
            (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        yield copy


def passed(copy: Path, tests: list[str], limit: float) -> bool | None:
    """Run tests in a fork, up to the first failure. Return whether all passed, None after the limit of seconds."""
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setsid()
            os.chdir(copy)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            sys.path.insert(0, str(copy))
            status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
        finally:
            os._exit(status)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class Trial:
    """A copy of the checkout in which mutants are tried."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self.sound: dict[tuple[str, ...], bool] = {}

    def killed(self, mutant: Mutant) -> bool | None:
        """Return whether the near tests notice the mutant, or None if they fail without it."""
        tests = near_tests(mutant.module)
        path = self.copy / mutant.module
        try:
            self._write(path, mutant.code)
            if passed(self.copy, tests, TIME_LIMIT):
                return False
        finally:
            self._write(path, (ROOT / mutant.module).read_text("utf-8"))
        if tuple(tests) not in self.sound:
            self.sound[tuple(tests)] = passed(self.copy, tests, TIME_LIMIT) is True
        return True if self.sound[tuple(tests)] else None

    @staticmethod
    def _write(path: Path, code: str) -> None:
        """Write a module, and remove its bytecode: the next one may have the same size and second."""
        path.write_text(code, "utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


def sampled(modules: dict[str, list[Path]], draw: random.Random) -> Iterator[tuple[str, Mutant]]:
    """Yield mutants, one of each package in turn. A module is drawn as often as it has lines."""
    known: dict[Path, list[Mutant]] = {}
    seen = set()
    lines = {path: (ROOT / path).read_bytes().count(b"\n") for paths in modules.values() for path in paths}
    for _ in range(1000):
        for package, paths in modules.items():
            module = draw.choices(paths, [lines[path] for path in paths])[0]
            if module not in known:
                known[module] = mutants(module)
            fresh = [mutant for mutant in known[module] if (module, mutant.code) not in seen]
            if fresh:
                mutant = draw.choice(fresh)
                seen.add((module, mutant.code))
                yield package, mutant


def chosen_modules(packages: list[str], named: list[str]) -> dict[str, list[Path]]:
    """Return the modules to change by package."""
    if named:
        paths = [Path(name) for name in named]
        return {
            name: [path for path in paths if path.parts[1] == name] for name in {path.parts[1]: 0 for path in paths}
        }
    found = {package: sorted((ROOT / "perflog" / package).rglob("*.py")) for package in packages}
    return {
        package: [path.relative_to(ROOT) for path in listed if path.name != "__init__.py"]
        for package, listed in found.items()
    }


def main() -> None:
    """Try mutants until the time is up, and print the share of those that were killed."""
    parser = argparse.ArgumentParser(description="Mutation testing on a sample.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--packages", nargs="+", default=PACKAGES, choices=PACKAGES)
    parser.add_argument("--modules", nargs="+", default=[], help="only these, as perflog/parsing/match/discovery.py")
    parser.add_argument("--most", type=int, default=10**6, help="end after so many mutants")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    for name in PRELOADED:
        importlib.import_module(name)
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    with copied_checkout() as copy:
        os.environ["PYTHONPATH"] = str(copy)
        trial = Trial(copy)
        modules = chosen_modules(options.packages, options.modules)
        for package, mutant in sampled(modules, random.Random(options.seed)):
            if time.monotonic() > end or tried.total() >= options.most:
                break
            noticed = trial.killed(mutant)
            if noticed is None:
                print(f"near tests fail without the change, left out: {mutant.module}", flush=True)
                continue
            tried[package] += 1
            killed[package] += noticed
            if not noticed:
                print(f"survived: {mutant}", flush=True)
    for package, number in sorted(tried.items()):
        print(f"{package}: {killed[package]} of {number} killed ({killed[package] / number:.0%})")
    if tried:
        print(f"all: {killed.total()} of {tried.total()} killed ({killed.total() / tried.total():.0%})")


if __name__ == "__main__":
    main()
