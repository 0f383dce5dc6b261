"""What holds for each brief answer: few tokens, and no table."""

from __future__ import annotations

import re

from perflog.output.brief import LIMIT, tokens


def checked_lines(text: str) -> list[str]:
    """The lines of a brief answer, which are short and no table. Names and quotes of a log may have blanks and bars."""
    lines = text.splitlines()
    assert tokens(text.rstrip("\n")) <= LIMIT
    ours = [line for line in lines if not line.startswith(("Next: ", "Evidence: ")) and not {"'", '"'} & {*line}]
    assert not any(re.search(r"\S {2,}\S|^ |\|", line) for line in ours)
    return lines
