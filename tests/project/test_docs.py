"""The reference pages are what the registries say. A page that is not writes `<page>.new` beside itself."""

from __future__ import annotations

from support.pages import DOCS, same

from perflog.metrics import METRICS, Metric


def page_of_metrics() -> str:
    parts = ["# Metrics\n\n" + METRICS_HEAD]
    parts += [section(metric) for metric in METRICS.values()]
    return "\n".join(parts)


METRICS_HEAD = """\
`perflog analyze RUN [METRIC...]` on the command line, `perflog.metrics.<name>(log)` in Python. This page is made from
the registry in `perflog/metrics/`; a test sees to it. Values are in base units: what ends in `_s` is seconds. A metric
has no rows for a run that lacks the tables it needs. Every metric cuts the warm-up off alike: see `steps`.
"""


def section(metric: Metric) -> str:
    needs = ", ".join(f"`{n}`" for n in metric.needs) or "any of the tables that its formula names"
    better = {"lower": "lower is better", "higher": "higher is better", None: "neither way is better"}[metric.better]
    head = [
        f"## {metric.name}\n",
        f"{metric.summary}\n",
        f"- main column: `{metric.main}`" + (f" in {metric.unit}" if metric.unit else "") + f", {better}",
        f"- needs: {needs}",
        f"- formula: {metric.formula}",
        f"- source: {metric.source}\n",
        "| column | unit | says |",
        "| --- | --- | --- |",
    ]
    rows = [f"| `{c.name}` | {c.unit} | {c.meaning.replace('|', chr(92) + '|')} |" for c in metric.columns]
    return "\n".join([*head, *rows]) + "\n"


def test_the_page_of_metrics() -> None:
    same(DOCS / "metrics.md", page_of_metrics())
