"""Program of the language-model recipes: trains, measures and prints each step of one run after another."""

from __future__ import annotations

from collections.abc import Iterable

from perflog.trainer.log_writer import LogWriter
from perflog.trainer.printers.original_printers import PRINTERS
from perflog.trainer.rank_context import RankContext
from perflog.trainer.recipes import RunSpec
from perflog.trainer.training import Trainer


def run(specs: Iterable[RunSpec], context: RankContext, log: LogWriter, dialect: str | None = None) -> None:
    """Train and print all runs. `dialect` is a key of PRINTERS."""
    for spec in specs:
        trainer = Trainer(spec, context)
        printer = PRINTERS[dialect](log, trainer)
        printer.begin()
        for number in range(spec.steps):
            printer.step(trainer.step(number))
        printer.end()
