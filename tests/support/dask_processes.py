"""What a process of a Dask cluster has imported when it is forked, which takes a second."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence

import dask
import distributed.cli.dask_scheduler
import distributed.cli.dask_worker  # noqa: F401
from dask.cli import run_cli

import perflog.ingestion.bulk
import perflog.ingestion.pipeline  # noqa: F401


def run(folder: str, settings: Mapping[str, str], words: Sequence[str]) -> None:
    """Run the command `dask` in a folder. `settings` are in its environment."""
    os.chdir(folder)
    os.environ.update(settings)
    tempfile.tempdir = None  # that of the environment
    dask.config.refresh()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.argv[1:] = words
    run_cli()  # type: ignore[no-untyped-call]
