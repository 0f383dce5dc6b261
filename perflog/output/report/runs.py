"""What ran, and the lines it is known from."""

from __future__ import annotations

from typing import Any

from perflog.output.report import anchors
from perflog.output.report.anchors import MOST_RUNS, MOST_SHAPES
from perflog.output.report.element import Html, join, link, tag
from perflog.output.report.grid import Head, figure, grid, numeric, short, words
from perflog.output.report.subject import LogLines, Source, Subject, span, varying
from perflog.output.sheets import Quantity

_HEADLINES = (("steady step", "steps", "median_s", "s"), ("rate per GPU", "throughput", "tflops", "TFLOP/s"))
_SAID = ("model", "program", "world_size", "device", "dtype")


def ran(subject: Subject) -> Html:
    """The logs, the runs in them, their settings."""
    return join((_logs(subject), _runs(subject), _settings(subject)))


def _logs(subject: Subject) -> Html:
    counts = (Head(n, number=True) for n in ("runs", "lines", "read", "context", "unread"))
    heads = [Head("log"), Head("format"), *counts]
    rows = [
        tag(
            "tr", tag("td", link(f"lines-{i}", short(one.name))), words(one.format), figure(one.runs),
            figure(sum(one.account.values())), *map(figure, one.account.values()),
        )
        for i, one in enumerate(subject.logs[:MOST_RUNS], 1)
    ]  # fmt: skip
    return grid("logs", heads, rows, anchors.more(len(subject.logs) - MOST_RUNS, "runs"))


def _runs(subject: Subject) -> Html:
    settings = list(subject.settings.values())
    differ = varying(settings)
    said = [n for n in _SAID if n not in differ and any(r[n] is not None for r in subject.runs)]
    columns: dict[str, list[Any]] = (
        _headlines(subject)
        | {n: [r[n] for r in subject.runs] for n in said}
        | {n: [one.get(n) for one in settings] for n in differ}
    )
    columns |= {"steps": [subject.steps.get(r["run"]) for r in subject.runs]} if subject.steps else {}
    numbers = {n for n, values in columns.items() if numeric(values)}
    rows = []
    for i, run in enumerate(subject.runs[:MOST_RUNS]):
        names = tag("td", short(subject.names[run["run"]])), tag("td", tag("code", run["run"]))
        cells = (figure(values[i]) if n in numbers else words(values[i]) for n, values in columns.items())
        where = anchors.lines(subject, Source(run["run"], span(run["first_line"], run["last_line"])))
        rows.append(tag("tr", *names, *cells, tag("td", where), id=f"run-{i + 1}"))
    middle = (Head(n.replace("_", " "), n in numbers) for n in columns)
    more = anchors.more(len(subject.runs) - MOST_RUNS, "runs")
    return grid("runs", [Head("run"), Head("id"), *middle, Head("lines")], rows, more)


def _headlines(subject: Subject) -> dict[str, list[Any]]:
    """The figures a reader asks for first: medians of the steady steps."""
    found: dict[str, list[Any]] = {}
    for title, metric, column, unit in _HEADLINES:
        rows = next((one.rows for one in subject.measured if one.name == metric), ())
        steady = {r["run"]: r[column] for r in rows if r["part"] == "steady" and r.get("of") in (None, "step_time")}
        if any(value is not None for value in steady.values()):
            found[title] = [Quantity(steady.get(r["run"]), unit) for r in subject.runs]
    return found


def _settings(subject: Subject) -> Html:
    """What the log says of all runs alike."""
    settings = list(subject.settings.values())
    differ = set(varying(settings))
    same = {key: value for key, value in settings[0].items() if key not in differ} if settings else {}
    if not same:
        return Html()
    said = tag("dl", *(tag("div", tag("dt", tag("code", short(k))), tag("dd", short(v))) for k, v in same.items()))
    title = "Settings" if len(settings) == 1 else "Settings that all runs share"
    return tag("details", tag("summary", f"{title} ({len(same)})"), tag("div", said, class_="definition"))


# --- lines --------------------------------------------------------------------------------------------------------


def lines(subject: Subject) -> Html:
    """The account of the lines of each log, with a sample of each shape."""
    told = tag(
        "p", "Every line of a log is read into a record, known context, or unread. A sample stands for its shape."
    )
    return join([told, *(_lines(i, one) for i, one in enumerate(subject.logs[:MOST_RUNS], 1))])


def _lines(place: int, log: LogLines) -> Html:
    seen: set[str | None] = set()
    rows = []
    for shape in log.shapes[:MOST_SHAPES]:
        first = shape.table not in seen
        seen.add(shape.table)
        rows.append(
            tag(
                "tr", figure(shape.first_line), figure(shape.count), words(shape.table or shape.status),
                tag("td", short(shape.sample), class_="line"),
                id=f"lines-{place}-{shape.table}" if shape.table and first else None, data_table=shape.table,
            )
        )  # fmt: skip
    heads = [Head("first line", number=True), Head("lines", number=True), Head("table"), Head("sample")]
    told = f"{{read}} lines read, {{context}} context, {{unread}} unread. SHA-256 {log.sha256}".format(**log.account)
    more = anchors.more(len(log.shapes) - MOST_SHAPES, "show RUN lines")
    return tag("section", tag("h3", short(log.name)), tag("p", told, class_="faint"),
               grid(f"lines of {log.name}", heads, rows, more), id=f"lines-{place}")  # fmt: skip
