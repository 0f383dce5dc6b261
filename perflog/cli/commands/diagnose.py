"""`perflog diagnose`."""

from __future__ import annotations

import click

from perflog.cli import completion, options


@click.command(
    short_help="Show what ended a job or holds it up, and which rank.",
    epilog=options.examples("perflog diagnose run.txt", "perflog diagnose logs/ --format json"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, required=True, metavar="LOG...")
@options.store
@options.answer_format
def diagnose(runs: tuple[str, ...], store: str | None, format: str) -> None:
    """Show what ended a job or holds it up: rank, node and GPU, how sure that is, and the lines that prove it.

    Several LOGs are read as one job: logs of its ranks, of the kernel, of the scheduler. The logs of a folder are one
    job too, unless several jobs in it print steps or dumped their collectives: then perflog answers for each job. Logs
    belong to one job if their names differ only in the number of a rank or the ending, if they print the same losses at
    the same times, or if one attempt continues another. A log that measures nothing belongs to the only job of its
    folder. perflog answers separately for a benchmark, and for what was measured before or after the job.
    """
    from perflog.analysis.diagnosis import diagnose as of_job
    from perflog.analysis.diagnosis import diagnose_jobs
    from perflog.log import combined
    from perflog.opening import find_runs
    from perflog.output import sheets, terminal
    from perflog.output.presenters import diagnosis as presenter

    logs = [find_runs(run, store) for run in runs]
    log = logs[0] if len(logs) == 1 else combined(logs)
    answers = diagnose_jobs(log, *runs) if len(runs) == 1 else [of_job(log, *runs)]
    sheets.warn(*dict.fromkeys(log.warnings))
    if format == "json":
        terminal.put(presenter.as_json(answers))
    elif format == "text":
        for line in presenter.screen(answers):
            terminal.put(line)
    elif format == options.BRIEF:
        from perflog.output.presenters.brief import diagnosis_brief

        terminal.put("\n".join(diagnosis_brief(answers)))
    else:
        sheets.write([presenter.diagnosis_sheet(answer) for answer in answers], format)
