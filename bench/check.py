"""Checks that perflog, the naive reader and polars read the same values from a log. Fails where they differ.

python bench/check.py values STORE NAIVE LINES STEPS TABLES   # every value, of a small log
python bench/check.py rows STORE [FOLDER ...]                 # how many rows, of a log of any size
"""

import json
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

KEYS = {
    "steps": ["run", "line"],
    "phases": ["run", "line", "phase"],
    "loads": ["run", "line"],
    "values": ["run", "line", "key"],
    "summaries": ["run", "line", "key"],
}
COLUMNS = {
    "steps": ["step", "copy", "step_time_s", "forward_s", "backward_s", "tflops"],
    "phases": ["step", "rank", "rank_by", "occurrence", "time_s", "remote_share"],
    "loads": ["step", "rank", "rank_by", "unit", "amount", "remote"],
    "values": ["step", "rank", "rank_by", "value"],
    "summaries": ["value"],
}
INTEGERS = ("run", "line", "step", "copy", "rank", "occurrence")
MS = 1e-3


def stored(store, table):
    """A table of perflog's store with runs as their place in the log."""
    index = pl.col("run").cast(pl.String).str.split("-").list.get(-1).cast(pl.Int64)
    return pl.read_parquet(f"{store}/{table}/*.parquet").with_columns(run=index)


def same(table, theirs, who, ours):
    """Two tables, row by row, to the last bit."""
    frames = []
    for frame in (ours, theirs):
        columns = KEYS[table] + [c for c in COLUMNS[table] if c in theirs.columns]
        types = {c: pl.Int64 if c in INTEGERS else pl.Float64 for c in columns}
        types |= dict.fromkeys(("phase", "key", "unit", "rank_by"), pl.String)
        frames.append(frame.select(pl.col(c).cast(types[c]) for c in columns).sort(KEYS[table]))
    if not frames[0].equals(frames[1], null_equal=True):
        wrong = [c for c in frames[0].columns if not frames[0][c].equals(frames[1][c], null_equal=True)]
        sys.exit(f"{table}: {who} and perflog differ in {', '.join(wrong)}\nperflog {frames[0]}\n{who} {frames[1]}")
    return frames[0].height


def values(store, naive, lines, steps, tables):
    account = stored(store, "lines").group_by("status").agg(pl.col("count").sum())
    unread = account.filter(pl.col("status").cast(pl.String) == "unread")["count"].sum()
    if unread:
        sys.exit(f"perflog leaves {unread} lines unread")
    total = 0
    for table in KEYS:
        ours = stored(store, table)
        total += same(table, pl.read_parquet(f"{naive}/{table}.parquet"), "the naive reader", ours)
        same(table, pl.read_parquet(f"{tables}/{table}.parquet"), "polars", ours)
    ours, theirs = stored(store, "runs").sort("run"), pl.read_parquet(f"{naive}/runs.parquet")
    for column in ("run", "first_line", "last_line", "world_size", "dtype", "device", "printout"):
        if ours[column].cast(pl.String).to_list() != theirs[column].cast(pl.String).to_list():
            sys.exit(f"runs: the naive reader and perflog differ in {column}")
    if [json.loads(x) for x in ours["config"]] != [json.loads(x) for x in theirs["config"]]:
        sys.exit("runs: the naive reader and perflog differ in config")
    phases = stored(store, "phases").select(pl.col("phase").cast(pl.String), "run", "line", "step", "time_s")
    for folder in (lines, steps):
        for path in sorted(Path(folder).glob("*.parquet")):
            shape = pl.read_parquet(path)
            for name in set(shape.columns) & set(phases["phase"].unique()):
                mine = phases.filter(pl.col("phase") == name).sort("line")
                numbers = {"time_s": shape[name] * MS} | {c: shape[c] for c in ("run", "line", "step") if c in shape}
                if any(mine[c].to_list() != column.to_list() for c, column in numbers.items()):
                    sys.exit(f"{name}: polars ({folder}) and perflog differ")
                total += mine.height
    print(f"equal: {total} rows, {ours.height} runs")


def rows(store, *folders):
    """Rows per table: perflog's against those of each folder that holds tables of the same names."""
    for folder in folders:
        for table in KEYS:
            path = Path(folder) / f"{table}.parquet"
            if path.exists() and (Path(folder) / "phases.parquet").exists():
                ours = sum(pq.read_metadata(p).num_rows for p in Path(store, table).glob("*.parquet"))
                theirs = pq.read_metadata(path).num_rows
                if ours != theirs:
                    sys.exit(f"{table}: {folder} has {theirs} rows, perflog {ours}")


if __name__ == "__main__":
    {"values": values, "rows": rows}[sys.argv[1]](*sys.argv[2:])
