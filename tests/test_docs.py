"""The reference pages are what the registries say. A page that is not writes `<page>.new` beside itself."""

from __future__ import annotations

from pathlib import Path

from perflog.metrics import METRICS, Metric

DOCS = Path(__file__).parents[1] / "docs"


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
        f"{(metric.compute.__doc__ or '').strip().splitlines()[0]}\n",
        f"- main column: `{metric.main}`" + (f" in {metric.unit}" if metric.unit else "") + f", {better}",
        f"- needs: {needs}",
        f"- formula: {metric.formula}",
        f"- source: {metric.source}\n",
        "| column | unit | says |",
        "| --- | --- | --- |",
    ]
    rows = [f"| `{c.name}` | {c.unit} | {c.meaning.replace('|', chr(92) + '|')} |" for c in metric.columns]
    return "\n".join([*head, *rows]) + "\n"


def same(page: Path, text: str) -> None:
    new = page.with_suffix(".md.new")
    if not page.exists() or page.read_text("utf-8") != text:
        new.write_text(text, encoding="utf-8")
        raise AssertionError(f"{page.name} is not what the registry says; look at {new.name} and move it over")
    new.unlink(missing_ok=True)


def test_the_page_of_metrics() -> None:
    same(DOCS / "metrics.md", page_of_metrics())
