"""A plain Python reader of a folder of logs, as people write it: one compiled expression per line shape, a loop.

    python bench/naive_folder.py KIND FOLDER OUT

KIND is one of bench/make_campaign.py. It writes a Parquet file per table and prints the rows of each. It does not
account for all lines, and it knows what each line means before it has seen one.
"""

import json
import re
import sys
from pathlib import Path

import naive
import pyarrow as pa
import pyarrow.parquet as pq

STEP = re.compile(r"step:(\d+)/\d+ train_time:(\d+)ms step_avg:([\d.]+)ms")
EVALUATION = re.compile(r"step:(\d+)/\d+ val_loss:([\d.]+) train_time:(\d+)ms step_avg:([\d.]+)ms")
LOADS = re.compile(r"(\d+):(\[\[.*\]\])")
NAME = re.compile(r"iter(\d+)_rank(\d+)\.log")


def speedruns(files):
    """Rows of the steps and evaluations of speed runs."""
    steps = {name: [] for name in ("run", "line", "step", "elapsed_s", "step_time_s")}
    evaluations = {name: [] for name in ("run", "line", "step", "val_loss")}
    for run, file in enumerate(files):
        before = None
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if match := STEP.match(line):
                    step, elapsed = int(match[1]), int(match[2]) / 1000
                    values = run, number, step, elapsed, elapsed - before if before is not None else None
                    for column, value in zip(steps.values(), values, strict=True):
                        column.append(value)
                    before = elapsed
                elif match := EVALUATION.match(line):
                    values = run, number, int(match[1]), float(match[2])
                    for column, value in zip(evaluations.values(), values, strict=True):
                        column.append(value)
    return {"steps": steps, "values": evaluations}


def experts(files):
    """Rows of the loads of experts."""
    loads = {name: [] for name in ("run", "step", "rank", "layer", "micro_batch", "expert", "amount")}
    for run, file in enumerate(files):
        name = NAME.search(file.name)
        step, rank = int(name[1]), int(name[2])
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                if match := LOADS.match(line):
                    for micro_batch, amounts in enumerate(json.loads(match[2])):
                        for expert, amount in enumerate(amounts):
                            values = run, step, rank, int(match[1]), micro_batch, expert, amount
                            for column, value in zip(loads.values(), values, strict=True):
                                column.append(value)
    return {"loads": loads}


def layers(files):
    """Rows of the tables of logs of an MoE layer."""
    reader = naive.Reader()
    for file in files:
        reader.read(file)
    return reader.tables


def main():
    kind, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    tables = {"speedruns": speedruns, "experts": experts, "layers": layers}[kind](sorted(folder.iterdir()))
    out.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), out / f"{name}.parquet")
        print(name, len(next(iter(columns.values()))))


if __name__ == "__main__":
    main()
