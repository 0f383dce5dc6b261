"""`perflog watch LOG`: a log while it grows."""

from __future__ import annotations

import click

from perflog.cli import completion, options


@click.command(
    short_help="Show a log while it grows: step, rate, loss, stalls.",
    epilog=options.examples("perflog watch run.txt", "perflog watch run.txt --until-idle 60"),
)
@click.argument("log", shell_complete=completion.files)
@options.log_format
@options.interval
@options.until_idle
def watch(log: str, formats: tuple[str, ...], interval: float, until_idle: float | None) -> None:
    """Show a LOG while a job writes it: step, rate, loss, how the step time of the last minute differs from the ten
    minutes before, and a stall or a failure as it happens.

    On a terminal one line is updated; elsewhere each update is a new line. Nothing is stored; `perflog ingest --follow`
    keeps a store up to date. If the log is rotated, perflog reads the renamed file to its end, then the new file at the
    path. If the log is truncated, its new content is another log. perflog stops when the file is removed, or with
    Ctrl-C.
    """
    from perflog.cli.live_lines import LiveLines
    from perflog.formats.registry import named_formats
    from perflog.ingestion.watching import Watching
    from perflog.parsing.input.followed_file import Ending, FollowedFile, Patience

    lines, patience = LiveLines(), Patience(interval, until_idle)
    given = named_formats(formats) or None
    file = FollowedFile(log, patience)
    watching = Watching(log, file, patience, given, lines.observe, lines.look)
    try:
        while True:
            lines.steps.set_delay(file.changed_ago())
            ending = watching.run()
            lines.show(force=True)
            lines.tell(f"{log}: {ending.value}")
            if ending in (Ending.IDLE, Ending.GONE):
                return
            lines.forget()
            file.open()
    finally:
        lines.end()
        file.close()
