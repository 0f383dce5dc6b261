"""`perflog rm`."""

from __future__ import annotations

import click

from perflog.cli import completion, options
from perflog.output import terminal
from perflog.units import count


@click.command(
    short_help="Remove logs from the store.",
    epilog=options.examples("perflog rm run.txt", "perflog rm logs/a.txt logs/b.txt"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, required=True, metavar="LOG...")
@options.store
def rm(runs: tuple[str, ...], store: str | None) -> None:
    """Remove each LOG from the store, with all its runs. The log itself stays where it is.

    LOG is the path of a log as it was ingested, or the id or label of one of its runs.
    """
    from perflog.errors import UsageError
    from perflog.opening import load
    from perflog.tables.sink import LOG_ID
    from perflog.tables.store import Store, default_store

    keys, folder = load(store).run_keys, str(store or default_store())
    removed: dict[str, str] = {}  # name of a log, by its hash
    for name in runs:
        matches = [key for key in keys if name in (key.log, key.label, key.id)]
        matches = matches or [key for key in keys if name and key.id.startswith(name)]
        logs = {key.sha256: key.log for key in matches}
        if not logs:
            raise UsageError(f"there is no log or run {name!r} in the store", folder, "`perflog runs` lists them")
        if len(logs) > 1 and name not in (matches[0].log, matches[0].label):
            raise UsageError(
                f"{name!r} is the beginning of run ids in {len(logs)} logs", folder, "give more digits of the id"
            )
        removed |= logs
    Store(folder).delete([sha[:LOG_ID] for sha in removed])
    for sha, log in removed.items():
        terminal.put(f"{log}: removed with {count(sum(key.sha256 == sha for key in keys), 'run')}")
