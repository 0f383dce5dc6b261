"""Logs with an indent before all lines are read without it."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.parsing.input.indents import comment_mark_of, indent_of

LOG = "".join(f"step {n} | loss 2.5 | {400 + n}.0 ms\n" for n in range(1, 6))


@pytest.mark.parametrize(
    ("head", "indent"),
    [
        ("    a\n      b\n\n    c\n    d\n", "    "),
        ("```text\n    a\n    b\n    c\n    d\n```\n", "    "),
        ("\ta\n\tb\n\tc\n\t\td\n", "\t"),
        ("  a\n  b\n  c\n  d\n", ""),  # parts of something
        ("    a\n    b\n    c\n", ""),  # too few
        ("    a\n    b\n    c\nd\n    e\n", ""),
        ("    a\n\tb\n    c\n    d\n", ""),
    ],
)
def test_an_indent_is_before_all_lines(head: str, indent: str) -> None:
    assert indent_of(head.encode()) == indent.encode()


def test_lines_are_read_without_the_indent() -> None:
    indented = "".join(f"    {line}\n" for line in LOG.splitlines())
    assert read(indented.encode()).rows("steps")[1]["step_time_s"] == 0.402
    names = ("line", "step", "loss", "step_time_s")
    rows = [[[row[name] for name in names] for row in read(text.encode()).rows("steps")] for text in (LOG, indented)]
    assert rows[0] == rows[1]


def test_runs_in_the_comments_of_a_script_are_read_without_the_mark() -> None:
    step = (
        "# {{'loss': 2.5, 'grad_norm': 0.5, 'learning_rate': 1e-4, 'epoch': 0.{k}, 'global_step/max_steps': '{k}/9'}}\n"
    )
    end = "# {'train_runtime': 79.5, 'train_samples_per_second': 6.5, 'train_loss': 1.5}\n"
    run = "".join(step.format(k=k) for k in range(1, 4)) + end
    script = f"    --output out\n\n#  --data text\n{run}\n{run}"
    assert comment_mark_of(script.encode()) == b"# "
    assert len(read(script.encode()).rows("runs")) == 2
    assert comment_mark_of(b"# size count\n# (B) (elements)\n# Using devices\n# Rank 0\n") == b""
    assert comment_mark_of(f"--a b\n--c d\n{run}".encode()) == b""
