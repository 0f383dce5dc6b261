"""Counts the words that perflog uses more often than its field does, and fails where one has become more frequent.

    python bench/words.py                    the table, with what is above its limit
    python bench/words.py perflog/readers    each line below a folder or in a file that has one of the words

Comments and docstrings of the package are counted as the seven projects were: httpx, narwhals, rich, pyperf,
sqlite-utils, golang/perf and TraceLens. Messages are the other texts of the package that have two words or more;
documents are README.md, CONTRIBUTING.md and docs/.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Word(NamedTuple):
    """A word or turn of phrase: what to write instead, and the limit on its frequency in 1,000 words.

    `theirs` is the highest frequency of the seven projects, and the limit. `documents` is a limit of its own, where
    documents quote what perflog prints or reads.
    """

    pattern: str
    write: str
    theirs: float
    limit: float | None = None
    documents: float | None = None

    def limit_of(self, kind: str) -> float:
        """Return the limit for a kind of text."""
        limit = self.theirs if self.limit is None else self.limit
        return self.documents if kind == "documents" and self.documents is not None else limit


WORDS = (
    Word(r"behind", "after, following, suffix", 0.03, documents=0.1),  # a column is named so
    Word(r"in front of", "before, prefix", 0.0),
    Word(r"tell|told", "report, indicate, determine", 0.09),
    Word(r"stands", "is, appears", 0.0, documents=0.02),  # a rule of the linter is named so
    Word(r"those of|that of", "repeat the noun", 0.12),
    Word(r"place", "index, position, offset", 0.34),
    Word(r"text", "string", 1.4, documents=1.9),  # documents name a format of output
    Word(r"blank", "whitespace, space", 0.02),
    Word(r"figure", "value, metric", 0.17, limit=0.55),  # a number that a log prints, and a plot
    Word(r"whose|of which", "split the sentence", 0.44),
)

NAMES = re.compile(r"of_\w+|\w+_told|_told|told_\w+|back2|ahead2|works|things")
"""Names that no other project has. A name is the noun of the thing, then what it is keyed by: `rows_by_run`."""
MOST_NAMES = 2  # keys of format files

KINDS = ("comments", "messages", "documents")

_STRING_OR_COMMENT = re.compile(
    r""""{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(#[^\n]*)""", re.DOTALL
)
"""The group is a comment: a number sign outside of strings. The tokenizer finds the same in ten times the time."""


class Passage(NamedTuple):
    """A comment, docstring, message or document, and the line that it begins on."""

    kind: str
    line: int
    content: str


def read_code(source: str) -> tuple[list[Passage], list[tuple[int, str]]]:
    """Return each comment, docstring and message, and each name that is assigned or defined, after its line."""
    passages = [
        Passage("comments", source.count("\n", 0, found.start()) + 1, found[1])
        for found in _STRING_OR_COMMENT.finditer(source)
        if found[1]
    ]
    names: list[tuple[int, str]] = []
    nodes = nodes_of(ast.parse(source))
    described = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in described:
                passages.append(Passage("comments", node.lineno, node.value))
            elif re.search(r"[a-z]{2,} [a-z]{2,}", node.value):
                passages.append(Passage("messages", node.lineno, node.value))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append((node.lineno, node.name))
    return passages, names


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a tree as ast.walk does, without the contexts of names, in half the time."""
    nodes = [tree]
    for node in nodes:  # it grows
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                if not isinstance(value, ast.expr_context):
                    nodes.append(value)
            elif isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST)]
    return nodes


def files_below(paths: list[Path]) -> Iterator[Path]:
    """Yield the Python files and documents of folders, and the given files."""
    for path in paths:
        yield from (
            sorted(file for file in path.rglob("*") if file.suffix in {".py", ".md"}) if path.is_dir() else [path]
        )


def show(paths: list[Path]) -> None:
    """Print each line that has one of the words or names."""
    pattern = re.compile("|".join(rf"\b(?:{word.pattern})\b" for word in WORDS), re.IGNORECASE)
    for path in files_below(paths):
        source = path.read_text("utf-8")
        passages, names = read_code(source) if path.suffix == ".py" else ([Passage("documents", 1, source)], [])
        for kind, begin, content in sorted(passages):
            for offset, line in enumerate(content.splitlines()):
                if pattern.search(line):
                    print(f"{path}:{begin + offset}: {kind}: {line.strip()}")
        for line_number, name in sorted(names):
            if NAMES.fullmatch(name):
                print(f"{path}:{line_number}: name: {name}")


def main() -> int:
    if sys.argv[1:]:
        show([Path(argument) for argument in sys.argv[1:]])
        return 0
    texts: dict[str, list[str]] = {kind: [] for kind in KINDS}
    names = 0
    for path in files_below([ROOT / "perflog"]):
        if path.suffix == ".py":
            passages, named = read_code(path.read_text("utf-8"))
            for kind, _, content in passages:
                texts[kind].append(content)
            names += sum(NAMES.fullmatch(name) is not None for _, name in named)
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts["documents"] = [path.read_text("utf-8") for path in documents]
    whole = {kind: "\n".join(found) for kind, found in texts.items()}
    thousands = {kind: len(re.findall(r"[A-Za-z']+", text)) / 1000 for kind, text in whole.items()}

    print(f"{'in 1,000 words':24}{'theirs':>8}" + "".join(f"{kind:>12}" for kind in KINDS) + "  write")
    above = []
    for word in WORDS:
        pattern = re.compile(rf"\b(?:{word.pattern})\b", re.IGNORECASE)
        share = {kind: len(pattern.findall(text)) / thousands[kind] for kind, text in whole.items()}
        above += [
            f"{word.pattern}: {value:.2f} in {kind}, at most {word.limit_of(kind):.2f}"
            for kind, value in share.items()
            if round(value, 2) > word.limit_of(kind)
        ]
        found = "".join(f"{share[kind]:12.2f}" for kind in KINDS)
        print(f"{word.pattern:24}{word.theirs:8.2f}{found}  {word.write}")
    print(f"{'names':24}{0:8}{names:12}")
    if names > MOST_NAMES:
        above.append(f"names: {names}, at most {MOST_NAMES}")
    print(*above, sep="\n", end="\n" if above else "")
    return bool(above)


if __name__ == "__main__":
    sys.exit(main())
