"""Settings that are printed as one string come apart into their members, and other strings stay whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.settings.members import members

FAIRSEQ = (
    "Namespace(activation_fn='relu', adam_betas='(0.9, 0.98)', arch='transformer_iwslt_de_en', data='data-bin/a', "
    "decoder_layers=6, distributed_init_method=None, lr=[0.0005], max_tokens=4096, save_dir='checkpoints/a', "
    "seed=3, tensorboard_logdir='', update_freq=[1], path=None)"
)
BERT = 'BertConfig {\n  "hidden_size": 768,\n  "num_hidden_layers": 12,\n  "save_path": "/ckpt/1"\n}\n'


def nested(depth: int) -> str:
    """An object in an object, and so on."""
    return "{a=" * depth + "1" + "}" * depth


def test_members_of_a_namespace() -> None:
    of = dict(members("args", FAIRSEQ))
    assert (of["args.seed"], of["args.adam_betas"], of["args.lr"]) == ("3", "(0.9, 0.98)", "[0.0005]")
    assert (of["args.save_dir"], of["args.path"], len(of)) == ("checkpoints/a", "None", 13)
    assert dict(members("c", BERT))["c.num_hidden_layers"] == "12"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"optimizer": {"name": "adam", "lr": 0.001}, "layers": 4}',
         {"c.optimizer.name": "adam", "c.optimizer.lr": "0.001", "c.layers": "4"}),
        (r'{\"name\": \"adam\",\n \"lr\": 1}', {"c.name": "adam", "c.lr": "1"}),  # a string inside JSON
        ("TrainingArguments(\n_n_gpu=1,\nbf16=True,\n)", {"c._n_gpu": "1", "c.bf16": "True"}),
        ("{'a': 'it'}", {"c.a": "it"}),
        # commas and brackets inside strings and lists do not end a member
        ("N(text='x, (y', b=[1, 2], c={1, 2})", {"c.text": "x, (y", "c.b": "[1, 2]", "c.c": "{1, 2}"}),
        (r"N(a='it\'s, so', b=1)", {"c.a": r"it\'s, so", "c.b": "1"}),
        ("""N(a="it's", b=1)""", {"c.a": "it's", "c.b": "1"}),
        # the end may be missing
        ("Namespace(a=1, b=[1, 2", {"c.a": "1", "c.b": "[1, 2"}),
        ("Namespace(a=1, ", {"c.a": "1"}),
        ("Namespace(a=1,", {"c.a": "1"}),
        ("N(a=1, )  ", {"c.a": "1"}),
        ("N(a=1,b=2)", {"c.a": "1", "c.b": "2"}),
        # a list of arguments
        ("a='x, y', seed=1, f=<function f at 0x7f>", {"c.a": "x, y", "c.seed": "1", "c.f": "<function f at 0x7f>"}),
        # quotes and paths
        ("N(a='', b=\"\", c=', d=1)", {"c.a": "", "c.b": "", "c.c": "', d=1)"}),
        ("N(a=PosixPath('/x'), b=PureWindowsPath(\"y\"))", {"c.a": "/x", "c.b": "y"}),
        ("N(a='x\", b=1)", {"c.a": "'x\", b=1)"}),
        # command lines
        ("train.py --seed 1 --fp16 --lr=0.1",
         {"c": "train.py", "c.seed": "1", "c.fp16": "", "c.lr": "0.1"}),
        ("--a.b-c = 1", {"c": "", "c.a.b-c": "1"}),
    ],
)  # fmt: skip
def test_members_of_strings(text: str, expected: dict[str, str]) -> None:
    assert dict(members("c", text)) == expected


def test_an_object_is_taken_apart_eight_deep() -> None:
    assert dict(members("c", nested(8))) == {"c" + ".a" * 8: "1"}
    assert dict(members("c", nested(9))) == {"c" + ".a" * 8: "{a=1}"}


def test_options_are_none_inside_an_object() -> None:
    assert dict(members("c", "N(command='train.py --seed 1', b=2)")) == {
        "c.command": "train.py --seed 1", "c.b": "2"
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["float16", "Linear(in_features=4, out_features=8) -> x", "(3, 4)", "{1, 2}", "f(x)", "a=1, b", "", "16 GB", "a=1",
     "----- start -----", "Adam (\nParameter Group 0\n    lr: 0.1\n)", "N()", "N(a=1, 2)", "N(a=1) x", "N(a=1)x",
     "x--seed 1", "a-b --1"],
)  # fmt: skip
def test_other_texts_stay_whole(text: str) -> None:
    assert list(members("setting", text)) == [("setting", text)]


@given(st.text("ab=:,(){}[]\"' -\\\n", max_size=40))
def test_any_text_has_members_or_stays_whole(text: str) -> None:
    assert all(name.startswith("setting") for name, _ in members("setting", text))
