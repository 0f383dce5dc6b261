"""`perflog compact`."""

from __future__ import annotations

import click

from perflog.cli import options
from perflog.output import terminal


@click.command(
    short_help="Merge the many small files of a store into few large ones.",
    epilog=options.examples("perflog compact --store runs", "perflog compact"),
)
@options.store
def compact(store: str | None) -> None:
    """Merge the many small files of a store into few large ones, which are faster to read. Rows do not change.

    `perflog ingest` does so by itself from time to time.
    """
    from perflog.errors import StoreError
    from perflog.tables.store import Store, default_store, is_store

    folder = store or default_store()
    if not is_store(folder):
        raise StoreError("there is no store here", folder, "`perflog ingest LOG` makes one")
    before, after = Store(folder).compact()
    terminal.put(f"{folder}: {before} files before, {after} now")
