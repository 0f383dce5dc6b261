"""JSON documents become lines: a record each, on the line where it begins, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cost import cpu_growth
from support.examples import examples
from support.reading import read

from perflog.parsing.input.json_documents import RecordSplitter, as_records, is_document, lines_above

QUICK = examples(60)


def split(text: str, size: int = 1 << 16) -> list[list[str]]:
    """The records of each line of a document, fed in pieces of a size."""
    data = text.encode()
    out = b"".join(as_records(iter([data[k : k + size] for k in range(0, len(data), size)])))
    return [line.split("\r") if line else [] for line in out.decode().split("\n")]


def test_a_list_of_records_over_several_lines() -> None:
    text = '{\n  "epoch": 2.0,\n  "log": [\n    {\n      "step": 1,\n      "loss": 2.5\n    },\n    {"step": 2}\n  ],'
    text += '\n  "n": 3\n}\n'
    assert split(text) == [
        [], ['{"epoch": 2.0}'], [], ['{"step": 1, "loss": 2.5}'], [], [], [], ['{"step": 2}'], [], ['{"n": 3}'], [], [],
    ]  # fmt: skip


def test_blanks_at_the_end_cost_a_time_that_is_linear() -> None:
    assert cpu_growth(lambda blanks: RecordSplitter().feed(b'{"loss": 1, ' + b" " * blanks), 500, 5000) < 40


def test_records_on_one_line_are_its_parts() -> None:
    text = '[{"step":1,"x":[1,[2]]},{"step":2}]'
    assert split(text) == [['{"step": 1, "x": [1, [2]]}', '{"step": 2}']]
    assert split('{"a":{"r":[{"x":1}],"b":2},"c":[1,2]}') == [['{"x": 1}', '{"a": {"b": 2}, "c": [1, 2]}']]


def test_members_with_numbers_as_keys_are_records() -> None:
    text = '{"lm loss": {"start": 1, "values": {\n"1": 10.5,\n"2": 10.4}}}'
    assert split(text) == [
        ['{"lm loss": {"start": 1}}'],
        ['{"lm loss": {"values": {"1": 10.5}}}'],
        ['{"lm loss": {"values": {"2": 10.4}}}'],
    ]  # fmt: skip


def test_a_list_of_values_counts_the_steps_that_it_states() -> None:
    header = '"start_step": 1, "step_interval": 5'
    text = '{"a": {HEADER, "values": [2.5,\n"nan", 1]}, "b": {HEADER, "values": []}, "c": {"values": [1, 2]}}'
    wanted = [
        ['{"a": {HEADER}}', '{"a": {"values": {"1": 2.5}}}'],
        [
            '{"a": {"values": {"6": "nan"}}}', '{"a": {"values": {"11": 1}}}', '{"b": {HEADER}}',
            '{"c": {"values": [1, 2]}}',
        ],
    ]  # fmt: skip
    assert split(text.replace("HEADER", header)) == [[r.replace("HEADER", header) for r in line] for line in wanted]


def test_a_large_record_is_divided() -> None:
    document = [{"name": "a", "history": [{"i": k, "loss": k / 3} for k in range(1000)], "z": 1}]
    (records,) = split(json.dumps(document))
    assert (len(records), records[0], records[-1]) == (1002, '{"name": "a"}', '{"z": 1}')
    assert [json.loads(record) for record in records[1:-1]] == document[0]["history"]


def test_what_python_prints_of_dicts_is_written_as_json() -> None:
    text = "[{'N': 1024, 'a': None, 'is': True, 'x': nan, 't': 'it\\'s \"b\"'}, {'N': 2048,\n 'y': -inf}]"
    assert split(text) == [
        ['{"N": 1024, "a": null, "is": true, "x": NaN, "t": "it\'s \\"b\\""}', '{"N": 2048, "y": -Infinity}'], []
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_strings_that_python_cuts_are_one(size: int) -> None:
    texts = [
        "{'loss': 1.5,\n 'text': \"it's \"\n         'long',\n 'step': 1}\n",
        "[{'text': 'it '\n 'is', 'step': 1}]",
    ]
    assert split(texts[0], size)[0] == ['{"loss": 1.5, "text": "it\'s long", "step": 1}']
    assert split(texts[1], size)[0] == ['{"text": "it is", "step": 1}']


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
@pytest.mark.parametrize("mark", ["'", '"'])
def test_the_number_at_the_end_of_a_torn_document_is_in_no_record(mark: str, size: int) -> None:
    for end in (" 12", " 12."):
        text = "{'step': 1,\n 'loss':".replace("'", mark) + end
        assert split(text, size) == [['{"step": 1}'], [end]]
        assert is_document(text.encode(), is_whole=True)
    assert split("{'step': 1,\n 'loss': 12\n".replace("'", mark), size)[0] == ['{"step": 1, "loss": 12}']


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_dicts_on_one_line_after_a_document_pass_as_they_are(size: int) -> None:
    lines = "{'loss': 0.5, 'epoch': 1.0}\n{'loss': 0.4, 'epoch': 2.0}\n"
    for start in ("{'a': 1,\n 'b': 2}\n", "{'a': 1,\n 'b': 2}\n{'a': 3,\n 'b': 4}\n", '{"a": 1,\n "b": 2}\n'):
        records = split(start + lines, size)
        assert [line[0] for line in records[-3:-1]] == lines.splitlines()
        assert records[0] == ['{"a": 1, "b": 2}']


@pytest.mark.parametrize("after", ["step 1 loss 0.5\n", ""])
def test_a_dict_of_settings_above_lines_is_no_document(after: str) -> None:
    assert is_document(f"{{'batch_size': 32,\n 'lr': 0.1}}\n{after}".encode(), is_whole=True) is not bool(after)


def test_whole_pairs_of_a_torn_record_are_a_record() -> None:
    assert split("[{'N': 1, 'a': {'b': 2, 'c': 3}, 'd': 0.01") == [['{"N": 1, "a": {"b": 2, "c": 3}}', '"d": 0.01']]
    assert split('[{"a": 2, "b": [1, 2') == [['{"a": 2}', '"b": [1, 2']]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("{'a': 1}\n{'a': 2}\n", False),
        ("{'a': 1,\n 'b': 2}\n", True),
        ("[{'a': 1}, {'a': 2}, {'a'", True),
        ("{'a': 1, 'b", False),
        ('{"a": 1}\n{"a": 2}\n', False),
        ('{"a": 1}\n', True),
        ('{\n"a": 1}\n{\n"a": 2}\n', True),
        ("[Rank 0] step 1\n", False),
        ("[1/5] loss 2\n", False),
        ("[2024-01-01 10:00] x\n", False),
        ("{'a': 1}\n", False),
        ('{"a": 1} more\n', False),
        ("step 1\n", False),
        ("", False),
    ],
)
def test_what_is_a_document(text: str, is_one: bool) -> None:
    assert is_document(text.encode(), True) is is_one


def test_text_behind_a_document_passes_as_it_is() -> None:
    assert split('{\n"a": 1\n}\nstep {1}\n  "x\n') == [[], ['{"a": 1}'], [], ["step {1}"], ['  "x'], []]
    assert split('[{"a": 1},\n {"b": \n') == [['{"a": 1}'], ['{"b":  '], []]


SCALARS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "1", "2", "c d"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [json.dumps(value)]


@QUICK
@given(st.lists(VALUES, max_size=4), st.sampled_from([None, 1]), st.integers(1, 9))
def test_every_value_is_in_one_record_and_every_line_keeps_its_number(
    document: list[Any], indent: int | None, size: int
) -> None:
    text = json.dumps(document, indent=indent)
    lines = split(text, size)
    assert lines == split(text)
    assert len(lines) == text.count("\n") + 1
    written = [json.loads(record) for line in lines for record in line]
    assert sorted(leaf for record in written for leaf in leaves(record)) == sorted(leaves(document))


STATE = """\
{
  "epoch": 2.0,
  "global_step": 20,
  "is_hyper_param_search": false,
  "log_history": [
    {
      "epoch": 1.0,
      "grad_norm": 1.25,
      "learning_rate": 5e-05,
      "loss": 2.5,
      "step": 10
    },
    {
      "epoch": 1.0,
      "eval_loss": 2.25,
      "eval_runtime": 12.5,
      "step": 10
    },
    {
      "epoch": 2.0,
      "grad_norm": NaN,
      "learning_rate": 0.0,
      "loss": 1.5,
      "step": 20
    },
    {
      "epoch": 2.0,
      "step": 20,
      "train_loss": 2.0,
      "train_runtime": 100.5
    }
  ],
  "max_steps": 20,
  "logging_steps": 10
}
"""


def test_trainer_state() -> None:
    log = read(STATE.encode())
    assert [(r["line"], r["step"], r["loss"], r["learning_rate"]) for r in log.rows("steps")] == [
        (6, 10, 2.5, 5e-05), (19, 20, 1.5, 0.0),
    ]  # fmt: skip
    assert {r["key"]: (r["line"], r["value"]) for r in log.rows("summaries")} == {
        "train_loss": (26, 2.0), "train_runtime": (26, 100.5),
    }  # fmt: skip
    evaluation = {r["key"]: r["value"] for r in log.rows("values") if r["line"] == 13}
    assert evaluation == {"eval_loss": 2.25, "eval_runtime": 12.5, "epoch": 1.0}
    (run,) = log.rows("runs")
    assert json.loads(run["config"]) == {
        "epoch": 2.0, "global_step": 20, "max_steps": 20, "logging_steps": 10, "is_hyper_param_search": "false",
    }  # fmt: skip
    assert log.done.lines["unread"] == 0


def test_nested_records_on_one_line() -> None:
    log = read(b'[{"step":1,"loss":2.5,"t":{"fwd":1.5}},{"step":2,"loss":2.25,"t":{"fwd":1.25,"n":[1,2]}}]')
    assert [(r["line"], r["part"], r["step"], r["loss"]) for r in log.rows("steps")] == [
        (1, 0, 1, 2.5),
        (1, 1, 2, 2.25),
    ]
    assert sorted((r["part"], r["key"], r["value"]) for r in log.rows("values")) == [
        (0, "t.fwd", 1.5), (1, "t.fwd", 1.25), (1, "t.n[0]", 1.0), (1, "t.n[1]", 2.0),
    ]  # fmt: skip


def test_results_of_any_program() -> None:
    log = read(
        b'{"results": [{"model": "a", "latency": {"p50": 1.5}}, {"model": "b", "latency": {"p50": 2.5}}], "n": 7}\n'
    )
    assert log.done.formats == ["json_values"]
    assert sorted((r["part"], r["key"], r["value"], r["text"]) for r in log.rows("values")) == [
        (0, "latency.p50", 1.5, None), (0, "model", None, "a"), (1, "latency.p50", 2.5, None), (1, "model", None, "b"),
        (2, "n", 7.0, None),
    ]  # fmt: skip


def test_nccl_tests_json() -> None:
    result = (
        '{"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "-1", '
        '"out_of_place": {"time": 25.5, "alg_bw": 41.125, "bus_bw": 71.96875, "nwrong": 0.0}, '
        '"in_place": {"time": 25.25, "alg_bw": 41.5, "bus_bw": 72.625, "nwrong": null}}'
    )
    log = read(
        f'{{"version": "2.17", "results": [\n{result}\n], "average_bus_bandwidth": {{"bandwidth": 72.25}}}}\n'.encode()
    )
    columns = ("line", "buffer", "bytes", "time_s", "busbw_gbps", "wrong")
    assert [tuple(r[c] for c in columns) for r in log.rows("collectives")] == [
        (2, "out-of-place", 1048576, pytest.approx(25.5e-6), 71.96875, 0),
        (2, "in-place", 1048576, pytest.approx(25.25e-6), 72.625, None),
    ]
    assert [r["format"] for r in log.rows("runs")] == ["nccl_tests_json"]


def test_golden_values_are_figures_of_steps() -> None:
    values = '{\n"lm loss": {"start_step": 1, "values": {\n"1": 10.5,\n"2": 10.25}},\n"iteration-time": {"values": {'
    values += '\n"1": "nan",\n"2": 0.75}}}'
    log = read(values.encode())
    assert [(r["line"], r["step"], r["step_time_s"]) for r in log.rows("steps")] == [(7, 2, 0.75)]
    series = {"start_step": 0, "end_step": 10, "step_interval": 5, "values": [0.75, 0.5]}
    in_lists = read(json.dumps({"iteration-time": series}).encode())
    assert [(r["step"], r["step_time_s"]) for r in in_lists.rows("steps")] == [(0, 0.75), (5, 0.5)]
    assert [(r["line"], r["step"], r["key"], r["value"]) for r in log.rows("values")] == [
        (3, 1, "lm_loss", 10.5), (4, 2, "lm_loss", 10.25),
    ]  # fmt: skip


def test_a_document_below_warnings() -> None:
    """Figures keep their lines. A document that other lines follow is left as it is."""
    text = 'warning: no torch\n{\n "cases": [{"name": "a", "wall_s": 1.5},\n  {"name": "b", "wall_s": 2.5}\n ]\n}\n'
    log = read(text.encode())
    assert [(r["line"], r["value"]) for r in log.rows("values") if r["value"] is not None] == [(3, 1.5), (4, 2.5)]
    assert lines_above(text.encode()) == len("warning: no torch\n")
    assert lines_above(text.encode() + b"done\n") == lines_above(b"step 1\n" * 21 + text.encode()) == 0
