"""Mutation testing on a sample: do the tests of a module notice a small change of it?

    make mutants                                     ten minutes
    make mutants MUTANTS_MINUTES=30                  longer
    python bench/mutants.py --packages parsing --seed 7
    python bench/mutants.py --modules perflog/parsing/match/discovery.py --each 12

A mutant is one change of one module: of a comparison, a number, an operator or a keyword. Only the near tests run:
`tests/PACKAGE/.../test_MODULE.py`. If there is none, the tests of the package that import the module, and the tests of
its folder. A mutant that survives is printed with its line. It is a gap in the tests, or equivalent to the code: a
person decides. Several mutants are drawn of each module, since a run of its tests is prepared only once
(`mutant_trials.py`).

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
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import libcst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutant_trials import Trials, copied_checkout
from mutmut.mutation import mutators

ROOT = Path(__file__).resolve().parents[1]
SAMPLED = ("parsing", "readers", "metrics", "statistics")
"""The packages of a sample if none is named."""

PACKAGES = sorted(path.parent.name for path in ROOT.glob("perflog/*/__init__.py"))

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


_DESCRIBING = {"strict", "frozen", "kw_only", "eq", "brief"}
"""Names of arguments that are left alone."""


def _is_type_alias(node: libcst.CSTNode) -> bool:
    """Return whether a statement names a type, such as `Times = tuple[int, float | None]`: its name is in CamelCase."""
    return (
        isinstance(node, libcst.Assign)
        and isinstance(node.targets[0].target, libcst.Name)
        and re.fullmatch(r"_?[A-Z][a-z]\w*", node.targets[0].target.value) is not None
    )


def _is_block_size(node: libcst.CSTNode) -> bool:
    """Return whether a statement sets how much is processed at once: `_BLOCK = 1 << 18`. No result depends on it."""
    return (
        isinstance(node, libcst.Assign)
        and isinstance(node.targets[0].target, libcst.Name)
        and node.targets[0].target.value.isupper()
        and isinstance(node.value, libcst.BinaryOperation)
        and isinstance(node.value.operator, libcst.LeftShift)
        and isinstance(node.value.left, libcst.Integer)
    )


class MutantFinder(libcst.CSTVisitor):
    """Collects pairs of a node and its replacement, with the line.

    Left alone is what describes code: annotations and aliases of types, decorators, options of a class, `strict` of
    zip, `brief` of a column, which only a screen shows; and sizes of blocks.
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
        if _is_type_alias(node) or _is_block_size(node):
            return False
        for kind, change in OPERATORS:
            if isinstance(node, kind):
                line = self.get_metadata(PositionProvider, node).start.line
                self.found += [(line, node, new) for new in change(node)]
        return True


def mutants(module: Path, draw: random.Random) -> Iterator[Mutant]:
    """Yield all mutants of a module that Python compiles, in random order."""
    tree = MetadataWrapper(libcst.parse_module((ROOT / module).read_text("utf-8")))
    finder = MutantFinder()
    tree.visit(finder)
    draw.shuffle(finder.found)
    source = tree.module.code.splitlines()
    seen = {tree.module.code}
    for line, node, new in finder.found:
        code = tree.module.deep_replace(node, new).code
        if code in seen or not _compiles(code):
            continue
        seen.add(code)
        pairs = zip_longest(source, code.splitlines(), fillvalue="")
        before, after = next((old, now) for old, now in pairs if old != now)
        yield Mutant(module, line, before.strip(), after.strip(), code)


def _compiles(code: str) -> bool:
    """Return whether Python compiles a code: `return` instead of `break` may be outside a function."""
    try:
        compile(code, "<mutant>", "exec")
    except SyntaxError:
        return False
    return True


def sampled(packages: list[str], draw: random.Random) -> Iterator[tuple[str, Path]]:
    """Yield modules, one of each package in turn. A module is drawn as often as it has lines."""
    modules = {
        package: [
            path.relative_to(ROOT)
            for path in sorted((ROOT / "perflog" / package).rglob("*.py"))
            if path.name != "__init__.py"
        ]
        for package in packages
    }
    while True:
        for package, paths in modules.items():
            yield package, draw.choices(paths, [(ROOT / path).read_bytes().count(b"\n") for path in paths])[0]


def main() -> None:
    """Try mutants until the time is up, and print the share of those that were killed."""
    parser = argparse.ArgumentParser(description="Mutation testing on a sample.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--packages", nargs="+", default=SAMPLED, choices=PACKAGES)
    parser.add_argument("--modules", nargs="+", default=[], help="only these, as perflog/parsing/match/discovery.py")
    parser.add_argument("--each", type=int, default=4, help="mutants of a module each time it is drawn")
    parser.add_argument("--most", type=int, default=10**6, help="end after so many mutants")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    for name in PRELOADED:
        importlib.import_module(name)
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    known: dict[Path, Iterator[Mutant]] = {}
    draw = random.Random(options.seed)
    named = [(Path(name).parts[1], Path(name)) for name in options.modules]
    with copied_checkout(ROOT) as copy:
        os.environ.update(PYTHONPATH=str(copy), TMPDIR=str(copy.parent))
        trials = Trials(copy)
        for package, module in named or sampled(options.packages, draw):
            most = min(options.each, options.most - tried.total())
            if time.monotonic() > end or most <= 0:
                break
            drawn = list(islice(known.setdefault(module, mutants(module, draw)), most))
            verdicts = trials.verdicts(module, [mutant.code for mutant in drawn], end) if drawn else []
            if verdicts is None:
                print(f"near tests fail without the change, left out: {module}", flush=True)
                continue
            noticed = len(verdicts) - verdicts.count("survived")
            tried[package] += len(verdicts)
            killed[package] += noticed
            loops = verdicts.count("endless")
            print(f"{module}: {noticed} of {len(verdicts)} killed" + f", {loops} endless" * bool(loops), flush=True)
            for mutant, verdict in zip(drawn, verdicts, strict=False):
                if verdict == "survived":
                    print(f"survived: {mutant}", flush=True)
    for package, number in sorted(tried.items()):
        print(f"{package}: {killed[package]} of {number} killed ({killed[package] / number:.0%})")
    if tried:
        print(f"all: {killed.total()} of {tried.total()} killed ({killed.total() / tried.total():.0%})")


if __name__ == "__main__":
    main()
