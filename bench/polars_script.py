"""Reads the MoE layer log with polars: the fastest of the variants tried.

    python bench/polars_script.py lines|sink|steps|tables LOG OUT

lines   12 line shapes into 12 typed tables with line numbers, no more
sink    the same through lazy sinks of the streaming engine
steps   the same with the run and the step of each line
tables  the tables that perflog makes: ranks by vote, occurrences, one row per phase

Tried and slower: regular expressions on all lines instead of a filter by prefix first, `str.extract` per group,
`split` to lists, blank-separated CSV columns, `scan_lines` with twelve sinks (it reads the log twelve times, or keeps
it), backward fill of the step over all lines instead of `join_asof`.
"""

import sys
from pathlib import Path

import polars as pl

TEXT = pl.col("text")
INTEGERS = {"rank", "blocks", "amount", "remote", "step"}
I, F = r"(\d+)", r"([\d.e+-]+)"  # noqa: E741


def cast(column, name):
    return column.cast(pl.Int64 if name in INTEGERS else pl.Float64).alias(name)


def split(separator, **places):
    """Fields between separators: name=(place, text behind it that is not the number's)."""
    count = max(place for place, _ in places.values())

    def make(lines):
        fields = lines.select("line", TEXT.str.split_exact(separator, count)).unnest("text")
        columns = {name: (pl.col(f"field_{place}"), tail) for name, (place, tail) in places.items()}
        return fields.select(
            "line", *[cast(c.str.strip_suffix(tail) if tail else c, name) for name, (c, tail) in columns.items()]
        )

    return make


def groups(pattern, *names):
    """Groups of a regular expression."""

    def make(lines):
        found = lines.select("line", TEXT.str.extract_groups(f"^{pattern}$")).unnest("text")
        return found.select("line", *[cast(pl.col(str(i)), name) for i, name in enumerate(names, 1)])

    return make


def behind(start, name):
    """All that stands behind a literal is one number."""
    return lambda lines: lines.select("line", cast(TEXT.str.slice(start), name))


def process(lines):
    fields = lines.select("line", TEXT.str.split_exact(" ", 10)).unnest("text")
    tailed = {"gate": 4, "exchange": 6, "select": 8, "dispatch": 10}
    return fields.select(
        "line",
        cast(pl.col("field_0").str.slice(5), "rank"),
        cast(pl.col("field_2").str.slice(5).str.strip_suffix(","), "process"),
        *[cast(pl.col(f"field_{place}").str.strip_suffix(","), name) for name, place in tailed.items()],
    )


def count(lines):
    return lines.select("line", TEXT.cast(pl.Int64, strict=False).alias("blocks")).drop_nulls("blocks")


starts = TEXT.str.starts_with
BACKWARD = f"perpare first backward gemm: {F},  fisrt gemm backward duration: {F},  weight grad: {F},  other: {F}"
STEP = rf"STEP-{I}: step_time = {F} ms, foward_time = {F}, backward_time = {F}, perf = {F} tflops\."
SHAPES = {
    "gather": (starts("AG, "), split(", ", remote_share=(1, ""), gather_gemm=(2, ""))),
    "scatter": (starts("GA, "), split(", ", remote_share=(1, ""), gemm_scatter=(2, ""))),
    "block_info": (starts("block_info "), split(" ", amount=(1, ""), remote=(2, ""))),
    "process": (starts("cuda:") & (TEXT.str.len_bytes() > 20), process),
    "wait": (TEXT.str.contains(" wait time: ", literal=True), split(" ", rank=(0, ""), wait=(3, ""))),
    "count": (TEXT.str.len_bytes() < 12, count),
    "prepare_forward": (
        starts("perpare first forward"),
        groups(
            f"perpare first forward gemm: {F},  fisrt gemm forward duration: {F}", "prepare_forward", "gemm1_forward"
        ),
    ),
    "forward": (starts("forward:  "), behind(10, "moe_forward")),
    "linear2_backward": (starts("Linear 2 "), split(" ", linear2_backward=(3, ","), gemm2_backward=(5, ""))),
    "prepare_backward": (
        starts("perpare first backward"),
        groups(BACKWARD, "prepare_backward", "gemm1_backward", "weight_grad", "other_backward"),
    ),
    "linear1_backward": (starts("Linear 1 Backward:  "), behind(20, "linear1_backward")),
    "step": (starts("STEP-"), groups(STEP, "step", "step_time", "forward", "backward", "tflops")),
}
PHASES = [name for name in SHAPES if name not in ("block_info", "count", "step")]
MS = 1e-3


def read(path):
    """All lines: a CSV of one column, whose separator no line holds."""
    return pl.read_csv(
        path,
        has_header=False,
        separator="\x01",
        quote_char=None,
        new_columns=["text"],
        row_index_name="line",
        row_index_offset=1,
        infer_schema=False,
        empty_string_is_null=False,
    ).with_columns(pl.col("line").set_sorted())


def write(table, out, name):
    table.write_parquet(out / f"{name}.parquet", compression="lz4")


def lines(log, out):
    text = read(log)
    for name, (mask, make) in SHAPES.items():
        write(make(text.filter(mask)), out, name)


def sink(log, out):
    text = read(log).lazy()
    sinks = [
        make(text.filter(mask)).sink_parquet(out / f"{name}.parquet", compression="lz4", lazy=True)
        for name, (mask, make) in SHAPES.items()
    ]
    pl.collect_all(sinks, engine="streaming")


def placed(text):
    """Each shape's table with run and step, by its name; a run ends with its ` end end end`."""
    mask, make = SHAPES["step"]
    steps = make(text.filter(mask))
    ends = text.filter(TEXT == " end end end").select("line").with_row_index("run", 1)
    ends = ends.with_columns(pl.col("run").cast(pl.Int64)).select("line", "run")
    close = steps.select("line", "step").with_row_index("group").join_asof(ends, on="line", strategy="forward")
    yield "step", steps.join_asof(ends, on="line", strategy="forward")
    for name, (mask, make) in SHAPES.items():
        if name != "step":
            yield name, make(text.filter(mask)).join_asof(close, on="line", strategy="forward")


def with_steps(log, out):
    for name, table in placed(read(log)):
        write(table.drop("group", strict=False), out, name)


def decide(votes, key):
    """Keys that tell a rank in their run: nine in ten of their votes, in half of the steps in which the rank votes."""
    ballots = votes.group_by("run", key, "rank").len("count")
    voters = votes.group_by("run", "rank").agg(pl.col("group").n_unique().alias("steps"))
    return (
        ballots.join(voters, on=["run", "rank"])
        .filter(
            pl.col("count") >= 2,
            pl.col("count") >= 0.9 * pl.col("count").sum().over("run", key),
            pl.col("count") >= 0.5 * pl.col("steps"),
        )
        .select("run", key, "rank")
    )


def told(table, ranks, key):
    """The table with the rank that the key of each line tells."""
    rule = pl.when(pl.col("rank").is_not_null()).then(pl.lit("fingerprint")).alias("rank_by")
    return table.join(ranks, on=["run", key], how="left", maintain_order="left").with_columns(rule)


def tables(log, out):
    text = read(log)
    found = dict(placed(text))
    waits = found["wait"].select(pl.col("line") + 1, "rank")
    votes = found["count"].join(waits, on="line").with_columns(pl.col("blocks"))
    blocks = decide(votes, "blocks")
    values = told(found["count"], blocks, "blocks")
    loads = told(found["block_info"], blocks.rename({"blocks": "amount"}), "amount")
    share = (pl.col("remote").cast(pl.Float32) / pl.col("amount").cast(pl.Float32)).cast(pl.Float64).round(6)
    pairs = loads.drop_nulls("rank").with_columns(share.alias("remote_share"))
    shares = decide(pairs, "remote_share")
    for name in ("gather", "scatter"):
        found[name] = told(found[name], shares, "remote_share")

    # A prepare_forward is of the gather directly before it, if no other gather is open.
    before = found["gather"].select("line", "group", "rank", sign=pl.lit(1))
    both = pl.concat(
        [before, found["prepare_forward"].select("line", "group", rank=None, sign=-1)], how="vertical_relaxed"
    )
    both = both.sort("line").with_columns(
        depth=pl.col("sign").cum_sum().over("group"), last=pl.col("sign").shift().over("group")
    )
    near = (pl.col("sign") == -1) & (pl.col("last") == 1) & (pl.col("depth") == 0)
    both = both.with_columns(rank=pl.when(near).then(pl.col("rank").shift())).filter(pl.col("sign") == -1)
    found["prepare_forward"] = found["prepare_forward"].with_columns(
        both["rank"], rank_by=pl.when(both["rank"].is_not_null()).then(pl.lit("adjacent"))
    )

    phases = []
    for name in PHASES:
        table = found[name]
        if "rank" not in table.columns:
            table = table.with_columns(rank=pl.lit(None, pl.Int64), rank_by=pl.lit(None, pl.String))
        elif "rank_by" not in table.columns:
            table = table.with_columns(rank_by=pl.lit("printed"))
        if "remote_share" not in table.columns:
            table = table.with_columns(remote_share=pl.lit(None, pl.Float64))
        table = table.with_columns(occurrence=pl.int_range(1, pl.len() + 1).over("group", "rank"))
        given = ["run", "line", "step", "rank", "rank_by", "occurrence", "remote_share"]
        times = [c for c in table.columns if c not in (*given, "group")]
        phases += [table.select(*given, phase=pl.lit(time), time_s=pl.col(time) * MS) for time in times]
    write(pl.concat(phases), out, "phases")
    write(
        loads.select("run", "line", "step", "rank", "rank_by", "amount", "remote", unit=pl.lit("block")), out, "loads"
    )
    write(values.select("run", "line", "step", "rank", "rank_by", key=pl.lit("blocks"), value="blocks"), out, "values")
    seconds = [(pl.col(c) * MS).alias(f"{c}_s") for c in ("step_time", "forward", "backward")]
    copy = pl.int_range(1, pl.len() + 1).over("run", "step").alias("copy")
    write(found["step"].select("run", "line", "step", copy, *seconds, "tflops"), out, "steps")
    summary = rf"\[Summary\] Average synchronized step_time = {F} ms, forward = {F}, backward = {F}\."
    names = ["step_time", "forward", "backward"]
    means = groups(summary, *names)(text.filter(starts("[Summary]")))
    ends = text.filter(TEXT == " end end end").select("line").with_row_index("run", 1).select("line", "run")
    means = means.join_asof(ends, on="line", strategy="forward")
    means = means.unpivot(names, index=["run", "line"], variable_name="key").with_columns(pl.col("value") * MS)
    write(means, out, "summaries")
    config = [f"{n} = (?P<{n}>[^ ,]+)" for n in ("world_size", "dtype", "model_dim", "hidden_size", "samples")]
    config += [f"{n} = (?P<{n}>[^ ,]+)" for n in ("num_local_experts", "topK", "a2a_ffn_overlap_degree")]
    pattern = r"^\[Benchmark\] " + ", ".join(config) + r", device = `(?P<device>\S+)`$"
    runs = text.filter(starts("[Benchmark]")).select("line", TEXT.str.extract_groups(pattern)).unnest("text")
    write(runs.join_asof(ends, on="line", strategy="forward"), out, "runs")


def main():
    form, log, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    {"lines": lines, "sink": sink, "steps": with_steps, "tables": tables}[form](log, out)


if __name__ == "__main__":
    main()
