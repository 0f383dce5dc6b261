"""Other ways to read a trace or an nsys export: each prints how many kernels there are, and nanoseconds of all of them.

python bench/trace_rivals.py hta|json|duckdb TRACE
python bench/trace_rivals.py pandas|duckdb-sqlite|sqlite EXPORT
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

TABLES = ("KERNEL", "RUNTIME", "MEMCPY")


def hta(path):
    import logging

    logging.disable()
    from hta.common.trace import Trace

    trace = Trace(trace_files={0: path}, trace_dir="")
    trace.parse_traces(use_multiprocessing=False)
    frame = trace.get_trace(0)
    kernels = frame[frame["cat"] == trace.symbol_table.get_sym_id_map()["kernel"]]
    return len(kernels), float(kernels["dur"].sum()) * 1000


def plain(path):
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    found = [e["dur"] for e in events if e.get("cat") == "kernel"]
    return len(found), sum(round(d * 1000) for d in found)


def duckdb(path):
    """One table of all events in Parquet, as perflog makes it."""
    import duckdb

    args = 'STRUCT(stream BIGINT, correlation BIGINT, device BIGINT, bytes BIGINT, "External id" BIGINT)'
    texts = "ph VARCHAR, cat VARCHAR, name VARCHAR, pid VARCHAR, tid VARCHAR"
    event = f"STRUCT({texts}, ts DECIMAL(22, 3), dur DOUBLE, args {args})"
    folder = tempfile.mkdtemp()
    try:
        db = duckdb.connect()
        size = Path(path).stat().st_size + (1 << 20)
        read = f"read_json('{path}', maximum_object_size = {size}, columns = {{traceEvents: '{event}[]'}})"
        db.execute(
            f"COPY (SELECT unnest(e) FROM (SELECT unnest(traceEvents) AS e FROM {read})) TO '{folder}/t.parquet'"
        )
        query = f"SELECT count(*), sum(round(dur * 1000)) FROM '{folder}/t.parquet' WHERE cat = 'kernel'"
        return db.execute(query).fetchone()
    finally:
        shutil.rmtree(folder)


def pandas(path):
    import sqlite3

    import pandas as pd

    db = sqlite3.connect(path)
    texts = pd.read_sql("SELECT * FROM StringIds", db).set_index("id")["value"]
    tables = {name: pd.read_sql(f"SELECT * FROM CUPTI_ACTIVITY_KIND_{name}", db) for name in TABLES}
    ranges = pd.read_sql("SELECT * FROM NVTX_EVENTS", db)
    kernels = tables["KERNEL"]
    kernels["name"] = kernels["demangledName"].map(texts)
    tables["RUNTIME"]["name"] = tables["RUNTIME"]["nameId"].map(texts)
    assert len(ranges)
    return len(kernels), int((kernels["end"] - kernels["start"]).sum())


def duckdb_sqlite(path):
    import duckdb

    folder = tempfile.mkdtemp()
    try:
        db = duckdb.connect()
        db.execute("LOAD sqlite")
        for name in (*(f"CUPTI_ACTIVITY_KIND_{name}" for name in TABLES), "NVTX_EVENTS"):
            db.execute(f"COPY (SELECT * FROM sqlite_scan('{path}', '{name}')) TO '{folder}/{name}.parquet'")
        return db.execute(f"SELECT count(*), sum(\"end\" - start) FROM '{folder}/*KERNEL.parquet'").fetchone()
    finally:
        shutil.rmtree(folder)


def sqlite(path):
    """The two sums alone, inside SQLite: the least that any reader takes."""
    import sqlite3

    return sqlite3.connect(path).execute("SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()


WAYS = {"hta": hta, "json": plain, "duckdb": duckdb, "pandas": pandas, "duckdb-sqlite": duckdb_sqlite, "sqlite": sqlite}

if __name__ == "__main__":
    count, total = WAYS[sys.argv[1]](sys.argv[2])
    print(json.dumps({"kernels": int(count), "kernel_ns": int(total)}))
