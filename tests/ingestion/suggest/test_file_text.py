"""The content of a suggested file, byte by byte: keys in TOML, and a comment at each guess."""

from __future__ import annotations

from support.drafted_lines import drafted, shape_of

from perflog.ingestion.suggest.file_text import file_text, quoted
from perflog.ingestion.suggest.headed_tables import TableDraft
from perflog.ingestion.suggest.json_objects import draft_json, merge_json_shapes
from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.ingestion.suggest.line_shapes import LineShape
from perflog.ingestion.suggest.table_roles import assign_tables


def text_of(*drafts: LineDraft, assigned: bool = True) -> str:
    if assigned:
        assign_tables(drafts)
    return file_text(["head", ""], ['title = "t"'], [(draft, list(draft.shape.lines)) for draft in drafts], ["left"])


def test_strings_are_quoted_without_escapes_if_possible() -> None:
    for text, expected in (
        ("a", '"a"'), ('say "a"', "'say \"a\"'"), ("""it's "a\"""", '"it\'s \\"a\\""'), ("tab\t", '"tab\\t"'),
        ('"\t', '"\\"\\t"'), ("ü±", '"ü±"'), ("\x7f", '"\\u007f"'), ("a\\b", '"a\\\\b"'),
    ):  # fmt: skip
        assert quoted(text) == expected


def test_a_line_of_steps() -> None:
    draft = drafted("step 3/10 loss 2.5 step_time: 0.25 s", "step 4/10 loss 2.25 step_time: -1.0 s", first=7, count=50)
    assert text_of(draft) == (
        "# head\n#\n\n"
        'title = "t"\n\n'
        "[[line]]                       # 50 lines, the first is line 7\n"
        'name   = "step"\n'
        'table  = "steps"               # guess: it prints the number of a step and times\n'
        'closes = "step"\n'
        'covers = "unknown"             # 1 step if each is printed, else unknown\n'
        "unknown = { step_time = -1.0 }\n"
        'run    = ["steps"]\n'
        'text   = "step {step:d}/{steps:d} loss {loss:r} step_time: {step_time:r} s"\n'
        'unit   = { step_time = "s" }\n'
        "# guess: step_time: printed after it\n"
        'sample = [\n  "step 3/10 loss 2.5 step_time: 0.25 s",\n  "step 4/10 loss 2.25 step_time: -1.0 s",\n]\n\n'
        "# left\n"
    )


def entry(draft: LineDraft) -> list[str]:
    """The lines of the only entry, without its header and its sample."""
    return text_of(draft, assigned=False).split("\n\n")[2].split("\n")[1:-1]


def test_keys_that_locate_a_line() -> None:
    draft = drafted("step 3 time -0.5 s")
    draft.name, draft.table = "step", "steps"
    draft.is_outside, draft.within, draft.before = True, "epoch", True
    draft.numbers[1].named = draft.numbers[1].named.__class__("step_time", "s")
    assert entry(draft) == [
        'name   = "step"',
        'table  = "steps"',
        'covers = "unknown"             # 1 step if each is printed, else unknown',
        'outside = "step"',
        'within = "epoch"',
        "unknown = { step_time = -0.5 }",
        'before = "run"                 # guess: after it, steps count from the start again',
        'text   = "step {step:d} time {step_time:.1f} s"',
        'unit   = { step_time = "s" }',
    ]


def test_units_and_the_reasons_of_names() -> None:
    draft = drafted("rate 5 tokens/s, mem 12.5/80 GB, took 5ms")
    draft.name, draft.table = "rate", "values"
    assert entry(draft) == [
        'name   = "rate"',
        'table  = "values"',
        'text   = "rate {tokens_per_s:d} tokens/s, mem {mem:.1f}/{mem_total:d} GB, took {time:d}ms"',
        'unit   = { tokens_per_s = "tok/s", mem = "GB", mem_total = "GB", time = "ms" }',
        "# guess: tokens_per_s, mem, mem_total, time: printed after it",
    ]


def test_a_line_without_numbers_is_context_and_says_what_it_drops() -> None:
    text = text_of(drafted("at 10:00:00 done"), assigned=False)
    assert text.split("\n\n")[2] == (
        "[[context]]                    # 1 line, the first is line 1\n"
        'text   = "at {_:S} done"\n'
        'dropped = "part of a date, a name, an address or a line of the source"\n'
        'sample = "at 10:00:00 done"'
    )
    assert "dropped" not in text_of(drafted("will print nan"), assigned=False)


def test_words_of_a_summary_describe_the_run() -> None:
    draft = drafted("average loss 3.5 of alpha", "average loss 2.5 of beta", "average loss 1.5 of gamma")
    draft.name, draft.table = "average", "summaries"
    assert 'run    = ["name"]' in entry(draft)


def test_a_table_has_its_columns_and_comments() -> None:
    draft = TableDraft(LineShape(3, 9, {"a,b": ()}), [])
    draft.name, draft.table, draft.style = "cells", "values", "csv"
    draft.needs, draft.units, draft.dropped = ["a"], {"b": "ms"}, {"c": "it is the sum"}
    draft.keys = {"a": ["{a:r}"], "long": ["{b:r}", "-"]}
    draft.block, draft.comments = "a,long\n1,2", ["# at {5}"]
    table = [
        "[[table]]                      # 9 lines, the first is line 3",
        'name   = "cells"',
        'table  = "values"',
        'style  = "csv"',
        'needs  = ["a"]',
        'unit   = { b = "ms" }',
        'dropped = { "c" = "it is the sum" }',
        'sample = """\na,long\n1,2\n"""',
        "",
        "[table.columns]",
        '"a"    = ["{a:r}"]',
        '"long" = ["{b:r}", "-"]',
        "",
        "[[table.inner]]",
        'name   = "comment_1"',
        'text   = "# at {{5}}"',
        'sample = "# at {5}"',
    ]
    whole = "\n".join(table)
    assert whole in text_of(draft, assigned=False)
    for block in ("a\\b", 'a""b', "a\tb"):  # what a string of many lines does not hold as it is
        draft.block = block
        assert 'sample = "a,b"' in text_of(draft, assigned=False)


def test_an_object_has_the_keys_that_are_read() -> None:
    lines = ['INFO {"step": 3, "loss_ms": 2.5, "note": "x"}', 'INFO {"step": 4, "loss_ms": 3.5, "note": "x"}']
    objects, _ = merge_json_shapes(dict([shape_of(*lines)]))
    ((key, shape),) = objects.items()
    draft = draft_json(key, shape)
    draft.name, draft.table = "step", "steps"
    assert text_of(draft, assigned=False).split("\n")[5:-3] == [
        "[[json]]                       # 2 lines, the first is line 1",
        'name   = "step"',
        'table  = "steps"',
        'covers = "unknown"             # 1 step if each is printed, else unknown',
        'head   = "INFO "',
        'when   = { "step" = "*", "loss_ms" = "*" }',
        'unit   = { loss_printed = "ms" }',
        "# guess: loss_printed: its name says so",
        "sample = [",
        *(f"  '{line}'," for line in lines),
        "]",
        "",
        "[json.keys]",
        '"step" = "step"',
        '"loss_ms" = "loss_printed"',
        '"*" = "*"',
    ]
