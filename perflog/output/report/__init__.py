"""Reports of runs: one self-contained HTML file, or Markdown for a pull request.

`report` makes one. `collect` gathers the contents, `to_html` and `to_markdown` write them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal
from warnings import warn

from perflog.errors import UsageError
from perflog.files.whole_files import whole_file
from perflog.metrics import Options
from perflog.opening.given_runs import Given
from perflog.output.report.collect import collect
from perflog.output.report.data import ReportData
from perflog.output.report.html.page import to_html
from perflog.output.report.markdown import to_markdown

__all__ = ["ReportData", "collect", "report", "to_html", "to_markdown"]


def report(  # noqa: PLR0913 (all are keywords that a user sees in `help`)
    *runs: Given,
    output: str | os.PathLike[str] | None = None,
    format: Literal["html", "md"] = "html",
    by: str | Sequence[str] = (),
    store: str | os.PathLike[str] | None = None,
    warmup: int | None = None,
    gpu: str | None = None,
    peak_tflops: float | None = None,
    flops: str | None = None,
    level: float = 0.95,
    targets: Mapping[str, float] | None = None,
    gpu_hour: float | None = None,
    on_warning: Callable[[str], None] = warn,
) -> str:
    """Write what perflog can say of runs as one page: settings, findings, plots, metrics and, of several, a comparison.

    Args:
        *runs: What to report on. Each is a log, a run of a log ("run.txt#3" or "run.txt#label"), a folder, a glob, a
            store, a run id or label, a `Log`, a DataFrame, or a list of these, which is one side. Several, also in a
            mapping of names to them, are compared with the first, as `perflog.compare` does.
        output: File to write. Default: none is written.
        format: "html" for one file that needs no network, "md" for Markdown, which is short and has no plots.
        by: A setting, or several. Their values are compared, from the runs of everything given.
        store: Folder of the store in which run ids and labels are looked up. Default: PERFLOG_STORE, else .perflog.
        warmup: Number of steps to cut at the start of each run. Default: detected from the step times.
        gpu: Name of the GPU that gives the peak for MFU, such as "H100 SXM". Default: no MFU.
        peak_tflops: Dense peak of one GPU in TFLOP/s, instead of the peak that perflog knows for `gpu`.
        flops: Id of the FLOP convention. Default: the convention that the log's format declares.
        level: Confidence level of intervals, between 0 and 1.
        targets: Values to reach, by the name of the series, such as {"val_loss": 3.28}: the time until then leads.
        gpu_hour: Price of one GPU for an hour, in any currency, for the cost of a step, a token and a run.
        on_warning: Called with each warning about the logs. Default: `warnings.warn`.

    Returns:
        The content of the page.

    Raises:
        PerflogError: A log cannot be read, a name means no run, or the file cannot be written.

    Example:
        >>> page = perflog.report("run.txt", output="report.html")
        >>> page.splitlines()[0]
        '<!doctype html>'
    """
    if format not in ("html", "md"):
        raise UsageError(f"there is no format {format!r} of reports", help="give html or md")
    options = Options(warmup, gpu, peak_tflops, flops, level, targets, gpu_hour)
    data = collect(*runs, store=store, by=by, options=options, draw=format == "html")
    for text in data.warnings:
        on_warning(text)
    page = to_html(data) if format == "html" else to_markdown(data)
    if output is not None:
        with whole_file(output) as draft:
            draft.write_text(page, encoding="utf-8")
    return page
