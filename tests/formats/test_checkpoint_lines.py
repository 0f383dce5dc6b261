"""Lines that a checkpoint is saved or loaded: what they say in the words of any program, and what is no such line."""

from __future__ import annotations

from itertools import cycle

from support.reading import read

SAVED, SAVING = ("checkpoint", "end"), ("checkpoint", "begin")
LOADED, LOADING = ("restore", "end"), ("restore", "begin")
STEP = b"step 1 | loss 2.5 | 0.5 s/step\n"


def milestones(*lines: str) -> list[tuple[object, ...]]:
    """Kind, edge, step, duration and name of each milestone of a log with these lines."""
    rows = read(STEP + "".join(f"{line}\n" for line in lines).encode() + STEP.replace(b"1", b"2")).rows("milestones")
    return [
        (row["kind"], row["edge"], row["step"], row["duration_s"], row["name"]) for row in rows if row["kind"] != "log"
    ]


def test_what_lines_say() -> None:
    lines = {
        "Saving checkpoint at step 500 ...": (*SAVING, 500, None, None),
        "Saved checkpoint to out/step_500.pt (took 12.5 s)": (*SAVED, None, 12.5, "out/step_500.pt"),
        "Saved the model checkpoint to /ckpt/run-1/ (step 2) in 250 ms": (*SAVED, 2, 0.25, "/ckpt/run-1/"),
        "Checkpoint saved: step=20": (*SAVED, 20, None, None),
        "saving ckpt to s3://bucket/a_2": (*SAVING, None, None, "s3://bucket/a_2"),
        "Wrote snapshot global_step_40, took 2 min": (*SAVED, 40, 120.0, None),
        "=> loaded checkpoint 'out/last.ckpt' (epoch 3)": (*LOADED, None, None, "out/last.ckpt"),
        "Loading checkpoint from out/step_500": (*LOADING, None, None, "out/step_500"),
        "Resuming from checkpoint: out/step_500": (*LOADING, None, None, "out/step_500"),
        "Restarting from checkpoint step 40": (*LOADING, 40, None, None),
        "Resuming training from step 500": (*LOADED, 500, None, None),
        "Resumed from global_step 400 of x.ckpt": (*LOADED, 400, None, "x.ckpt"),
        "Continuing at iteration 12": (*LOADED, 12, None, None),
        "Loading checkpoint finished": (*LOADED, None, None, None),
        "Saving checkpoint took 12.5 s": (*SAVED, None, 12.5, None),
        "Saving checkpoint at step 5 after 300 s": (*SAVING, 5, None, None),  # of the run
        "Saved checkpoint at step 5, elapsed 3600 s": (*SAVED, 5, None, None),
        "Saving checkpoint to out": (*SAVING, None, None, "out"),
        "Loading checkpoint from 500.": (*LOADING, None, None, "500"),
        "Saved checkpoint to ~/ckpt/x.pt": (*SAVED, None, None, "~/ckpt/x.pt"),
        "Saved checkpoint to step_500.pt": (*SAVED, None, None, "step_500.pt"),
        "Saving model checkpoint to checkpoint-500": (*SAVING, None, None, "checkpoint-500"),
        "Loaded checkpoint epoch=3-step=500.ckpt": (*LOADED, None, None, "epoch=3-step=500.ckpt"),
    }
    prefixes = cycle(("", "2026-11-30 10:00:00,123 INFO ", "[rank0] ", "INFO:trainer:"))
    for before, (line, expected) in zip(prefixes, lines.items(), strict=False):
        assert milestones(before + line) == [expected], before + line


def test_lines_that_may_say_something_else() -> None:
    """Any other word, a second step and a number without a name: nothing is known of these."""
    assert not milestones(
        "no checkpoint found at 'x/y'", "Failed to load checkpoint x/y", "Saving checkpoint every 500 steps",
        "Loading checkpoint shards:  33%", "Saved checkpoint at step 5 of step 7", "Could not resume from step 5",
        "Saved checkpoint 3/5", "Resuming from step 99999999999999999999", "Saving checkpoints is disabled",
        "Restoring checkpoint failed", "Saving checkpoint in 5 minutes", "Saved snapshot to memory_snapshot.pickle",
        "Saved checkpoint step=3/5", "Saving checkpoint at step 1,000", "Saved checkpoint to out every hour",
    )  # fmt: skip


def test_a_step_that_begins_again_after_a_restore_is_a_new_attempt() -> None:
    steps = [*range(1, 6), *range(4, 9)]
    lines = [f"step {step} | loss 2.5 | 0.5 s/step" for step in steps]
    got = read("\n".join([*lines[:5], "Restarting from checkpoint step 3", *lines[5:], ""]).encode())
    assert [row["first_line"] for row in got.rows("runs")] == [1, 6]
