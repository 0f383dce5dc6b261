"""docs/lint.md is what the registry of rules says."""

from __future__ import annotations

import pytest
from support.pages import DOCS, same

from perflog.analysis.lint import RULES, SEVERITIES, Rule

HEAD = """\
# What the linter finds

`perflog lint RUN...` on the command line, `perflog.lint(log)` in Python. This page is made from the registry in
`perflog/analysis/lint/`; a test sees to it. Runs that are given together are held against one another. Each finding
names the lines of the log that prove it.

- error: a number is wrong
- warning: a number misleads
- note: a fact to know

A format takes part by what its file declares: `check` of a line, `[quantities]`, `[[phase]]`; a field of table `values`
whose name begins with `invalid_` counts what a tool could not record.
"""


def section(rule: Rule) -> str:
    needs = f"Looks at: {', '.join(f'`{n}`' for n in rule.needs)}.\n" if rule.needs else ""
    return f"## {rule.code}\n\n{rule.severity}: {rule.title}\n\n{rule.why}\n\nWhat to do: {rule.action}.\n\n{needs}"


def test_the_page_of_rules() -> None:
    same(DOCS / "lint.md", "\n".join([HEAD, *(section(rule).rstrip("\n") + "\n" for rule in RULES.values())]))


@pytest.mark.parametrize("code", RULES)
def test_a_rule_says_what_and_why_in_plain_sentences(code: str) -> None:
    rule = RULES[code]
    assert rule.severity in SEVERITIES
    assert rule.code == rule.code.lower().replace("_", "-").replace(" ", "-")
    assert not rule.title.endswith(".")
    assert not rule.action.endswith(".")
    assert rule.why.endswith(".")
    assert rule.look.__doc__
