"""docs/lint.md matches the registry of rules."""

from __future__ import annotations

from support.pages import DOCS, same

from perflog.analysis.lint import RULES, SEVERITIES, LintRule

HEAD = """\
# What the linter finds

`perflog lint RUN...` on the command line, `perflog.lint(log)` in Python. Each finding names the lines of the log that
prove it. Runs that are given together are also compared with one another.

- error: a number is wrong
- warning: a number misleads
- note: a fact to know

Some rules need what a format file declares: `check` of a line, `[quantities]`, `[[phase]]`. A field of table `values`
with a name that starts with `invalid_` is a count of what a tool could not record.

This page is generated from the rules in `perflog/analysis/lint/`.
"""


def section(rule: LintRule) -> str:
    needs = f"Tables: {', '.join(f'`{n}`' for n in rule.needs)}.\n" if rule.needs else ""
    return f"## {rule.code}\n\n{rule.severity}: {rule.title}\n\n{rule.why}\n\nWhat to do: {rule.action}.\n\n{needs}"


def test_the_page_of_rules() -> None:
    same(DOCS / "lint.md", "\n".join([HEAD, *(section(rule).rstrip("\n") + "\n" for rule in RULES.values())]))


def test_the_texts_of_a_rule_have_their_form() -> None:
    for rule in RULES.values():
        assert rule.severity in SEVERITIES, rule.code
        assert rule.code == rule.code.lower().replace("_", "-").replace(" ", "-")
        assert not rule.title.endswith("."), rule.code
        assert not rule.action.endswith("."), rule.code
        assert rule.why.endswith("."), rule.code
        assert rule.check.__doc__
