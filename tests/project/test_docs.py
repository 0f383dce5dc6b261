"""The reference pages are what the registries say. A page that is not writes `<page>.new` beside itself."""

from __future__ import annotations

from support.pages import DOCS, same

from perflog.metrics import METRICS, Metric


def page_of_metrics() -> str:
    parts = ["# Metrics\n\n" + METRICS_HEAD]
    parts += [section(metric) for metric in METRICS.values()]
    return "\n".join(parts)


METRICS_HEAD = """\
A metric is a table with one row per thing measured: `perflog analyze RUN [METRIC...]` on the command line,
`perflog.metrics.NAME(log)` in Python. `help(perflog.metrics.NAME)` shows options, columns and an example. Values are in
base units; columns with the suffix `_s` are in seconds. A metric has no rows for a run without the tables that it
needs. All metrics cut the same warm-up: see `steps`. This page is generated from `perflog/metrics/`; a test checks it.
"""


def section(metric: Metric) -> str:
    needs = ", ".join(f"`{n}`" for n in metric.needs) or "at least one of `loads`, `phases` and `layers`"
    better = {"lower": "lower is better", "higher": "higher is better", None: "neither way is better"}[metric.better]
    head = [
        f"## {metric.name}\n",
        f"{metric.summary}\n",
        f"- main column: `{metric.main}`" + (f" in {metric.unit}" if metric.unit else "") + f", {better}",
        f"- needs: {needs}",
        f"- formula: {metric.formula}",
        f"- source: {metric.source}\n",
        "| column | unit | meaning |",
        "| --- | --- | --- |",
    ]
    rows = [f"| `{c.name}` | {c.unit} | {c.meaning.replace('|', chr(92) + '|')} |" for c in metric.columns]
    return "\n".join([*head, *rows]) + "\n"


def test_the_page_of_metrics() -> None:
    same(DOCS / "metrics.md", page_of_metrics())
