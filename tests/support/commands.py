"""The command line, called in this process, and the sample logs by name."""

from __future__ import annotations

import json
from typing import Any

import click
from click.testing import CliRunner, Result
from support.paths import ROOT

from perflog.cli.main import main

DATA = ROOT / "tests" / "data"
NAMES = ("moe_layer", "moe_layer_early", "training_sweep", "nvprof", "pipeline_layers")
MOE, EARLY, SWEEP, NVPROF, PIPELINE = (str(DATA / f"{name}.txt") for name in NAMES)
TRAINER = str(DATA / "reference.txt")
STEP = "STEP-0: step_time = 37.116943 ms, foward_time = 16.876465, backward_time = 19.885056, perf = 22.22 tflops."
BROKEN = STEP.replace("16.876465", "x16.876465")


def run(*args: object, code: int = 0, input: str | bytes | None = None) -> Result:
    done = CliRunner().invoke(main, [str(a) for a in args], input=input, prog_name="perflog")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def told(*args: object, code: int = 0) -> Any:
    return json.loads(run(*args, code=code).stdout)


def context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    """Return the context that click makes for a command.

    A context without the command's settings does harm: click derives the help option from the first context that it
    sees, and keeps it with the command.
    """
    return click.Context(command, parent=parent, info_name=name, **command.context_settings)
