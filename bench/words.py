"""Counts the words that perflog uses more often than its field does, and fails where one has become more frequent.

Comments and docstrings of the package are counted as the seven projects were: httpx, narwhals, rich, pyperf,
sqlite-utils, golang/perf and TraceLens. Messages are the other texts of the package that have two words or more;
documents are README.md, CONTRIBUTING.md and docs/. A limit is lowered when a word has become rarer, until it is theirs.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Word(NamedTuple):
    """A word or turn of phrase: what to write in its place, and its frequency in 1,000 words.

    `theirs` is the highest of the seven projects; the others are the limits for each kind of text.
    """

    pattern: str
    write: str
    theirs: float
    comments: float
    messages: float
    documents: float


WORDS = (
    Word(r"behind", "after, following, suffix", 0.03, 0.25, 0.2, 0.25),
    Word(r"in front of", "before, prefix", 0.0, 0.1, 0.1, 0.1),
    Word(r"tell|told", "report, indicate, determine", 0.09, 1.2, 1.1, 0.6),
    Word(r"stands", "is, appears", 0.0, 0.5, 0.3, 0.35),
    Word(r"those of|that of", "repeat the noun", 0.12, 2.35, 1.45, 1.25),
    Word(r"place", "index, position, offset", 0.34, 1.55, 0.5, 0.4),
    Word(r"text", "string", 1.4, 3.6, 1.4, 2.25),
    Word(r"blank", "whitespace, space", 0.02, 0.2, 0.1, 0.05),
    Word(r"figure", "value, metric", 0.17, 1.3, 1.55, 1.1),
    Word(r"whose|of which", "split the sentence", 0.44, 2.7, 1.75, 1.95),
)

NAMES = re.compile(r"of_\w+|\w+_told|_told|told_\w+|back2|ahead2|works|things")
"""Names that no other project has. A name is the noun of the thing, then what it is keyed by: `rows_by_run`."""
MOST_NAMES = 660

KINDS = ("comments", "messages", "documents")


def texts_of_code(source: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each comment, docstring and message."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield "comments", token.string
    tree = ast.parse(source)
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in described:
                yield "comments", node.value
            elif re.search(r"[a-z]{2,} [a-z]{2,}", node.value):
                yield "messages", node.value


def names_of_code(source: str) -> Iterator[str]:
    """Yield each name that is assigned or defined."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def main() -> int:
    texts: dict[str, list[str]] = {kind: [] for kind in KINDS}
    names = 0
    for path in sorted((ROOT / "perflog").rglob("*.py")):
        source = path.read_text("utf-8")
        for kind, text in texts_of_code(source):
            texts[kind].append(text)
        names += sum(NAMES.fullmatch(name) is not None for name in names_of_code(source))
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
            f"{word.pattern}: {value:.2f} in {kind}, at most {getattr(word, kind):.2f}"
            for kind, value in share.items()
            if round(value, 2) > getattr(word, kind)
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
