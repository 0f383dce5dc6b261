"""`formats check` accepts a suggested format file, and the file reads each line that it describes."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import seeds
from support.examples import examples
from support.field_logs import CORPUS, needs_corpus
from support.reading import LABELS, NAMES, Reading, labelled, read, sample

from perflog.errors import InputError, PerflogError
from perflog.formats import registry
from perflog.formats.families.header_facts import facts_of
from perflog.formats.model import Format
from perflog.formats.registry import COMMON, known
from perflog.formats.tokens import skeleton, tokens
from perflog.ingestion import pipeline as ingesting
from perflog.ingestion import suggest
from perflog.ingestion.suggest import headed_tables
from perflog.ingestion.suggest.number_specs import format_number, spec_of
from perflog.parsing.match.rank_labels import strip_rank_labels

HEAD = re.compile(
    r"# Of (?P<total>\d+) lines it reads (?P<read>\d+); (?P<context>\d+) more are known context, (?P<others>\d+) are "
    r"read by other\n?#? ?formats, (?P<blank>\d+) are empty, (?P<unread>\d+) are unread"
)


def log_of(folder: Path, data: bytes) -> str:
    path = folder / "run.txt"
    path.write_bytes(data)
    return str(path)


def checked(folder: Path, text: str) -> Format:
    """Return the suggested format, checked as `perflog formats check` does."""
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return registry.get(str(path))


def proved(folder: Path, data: bytes, **options: Any) -> tuple[Format, Reading]:
    """Return the format suggested for a log, and the log read with it. The counts in the file must be right."""
    text = suggest.suggest(log_of(folder, data), **options)
    form = checked(folder, text)
    names = [x.name for x in form.lines if x.read]
    assert len(set(names)) == len(names)
    got = read(data, formats=[form])
    head = HEAD.search(text)
    assert head is not None, text
    counts = {key: int(number) for key, number in head.groupdict().items()}
    assert got.done.lines["total"] == counts["total"]
    assert got.done.lines["unread"] == counts["unread"] + counts["others"] - lines_of_common_formats(got, form)
    return form, got


def lines_of_common_formats(got: Reading, form: Format) -> int:
    """Return the number of lines that the common formats read, and not the suggested one."""
    common = known()[COMMON]
    texts = {x.template.text for x in common.lines}
    shapes = [r for r in got.rows("lines") if r["status"] != "unread"]
    samples = [strip_rank_labels((r["sample"] or "").encode()).decode() for r in shapes]
    texts |= {line.template.text for text in samples for family in common.families for line in family.lines(text)}
    own = {line.template.text for line in form.lines}
    rows = zip((r["shape"] for r in shapes), samples, strict=True)
    facts = {shape for shape, text in rows if (found := facts_of(text)) and all(f"{{{x.name}:" in shape for x in found)}
    return sum(r["count"] for r in shapes if r["shape"] in texts | (facts - own))


@pytest.fixture
def no_known_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make perflog know only the common formats, and how any program prints a table."""
    only = {name: known()[name] for name in (COMMON, "tables")}
    for module in (suggest, headed_tables, registry, ingesting):
        monkeypatch.setattr(module, "known", lambda: only)


# --- logs of any style ----------------------------------------------------------------------------------------------

WORDS = ("loss", "step time", "lr", "grad_norm", "foward_time", "tokens/s", "memory", "mfu", "wait", "gemm1 duration")
SPECS = (".3f", ".6f", "d", ".4e", ".3E", "9.2f", "7d", ",d", "r", "g", "<8d", "05d")
UNITS = ("", "ms", " ms", "%", "GiB", " tok/s", " sec", "us")
MIDS = (" = ", "=", ": ", ":", " ")
SEPARATORS = (", ", " | ", "; ", "  ", " ")
HEADS = (
    "",
    "[INFO] ",
    "2024-04-04 09:09:27,719 - root - INFO - ",
    "[Rank 3] ",
    ">>> ",
    "I0515 train.py:207] ",
    "  #1 ",
)
STEPS = ("STEP-{}: ", "step {:5d}/100 | ", "iter {}, ", "[{}/100] ", "Epoch: [3][{:3d}/200]  ", "{} ")


@st.composite
def styles(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw one print string: its head, and how each of its numbers is printed."""
    head = draw(st.sampled_from(HEADS)) + draw(st.sampled_from(STEPS))
    mid, between = draw(st.sampled_from(MIDS)), draw(st.sampled_from(SEPARATORS))
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5, unique=True))
    fields = [f"{w}{mid}{{{{:{draw(st.sampled_from(SPECS))}}}}}{draw(st.sampled_from(UNITS))}" for w in words]
    return head, [f"{between}{x}" if i else x for i, x in enumerate(fields)]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Draw a log of a few print strings, each printed several times with numbers of any size."""
    chosen = draw(st.lists(styles(), min_size=1, max_size=3))
    numbers = st.one_of(st.integers(0, 9), st.integers(0, 10**7), st.floats(0, 1e5), st.floats(1e-6, 1))
    lines = []
    for step in range(draw(st.integers(1, 12))):
        for head, fields in chosen:
            texts = [head.format(step)]
            for text in fields:
                number = draw(numbers)
                spec = text[text.index("{{:") + 3 : text.index("}}")]
                value = round(number) if spec[-1] == "d" else float(number)
                shown = repr(value) if spec == "r" else format(value, spec)
                texts.append(text[: text.index("{{:")] + shown + text[text.index("}}") + 2 :])
            lines.append("".join(texts))
    return ("\n".join(lines) + "\n").encode()


@examples(8)
@given(logs())
def test_a_log_of_any_style(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    _, got = proved(tmp_path_factory.getbasetemp(), data)
    assert got.done.lines["unread"] == 0, [r["sample"] for r in got.rows("lines") if r["status"] == "unread"]
    assert got.balances()


@examples(8)
@example(b"\xff\xfe\x00")
@example(b"\0" * 100)
@example(b"\r".join(b"step %d loss 3.5" % k for k in range(50)))
@example(b"loss 1.5\r\nloss 2.5\r\n\r\n")
@example(b"x" * (1 << 20) + b" 1.5\n")
@example(b"step 1 {loss} = 3.5 }{ \"quoted\" 'x' \\ \x1b[31mred\x1b[0m\nstep 2 {loss} = 4.5 }{ \"quoted\" 'x' \\ red\n")
@example("Schritt 1: Verlust größer 3,5 — 1.5 µs\nステップ 2 損失 3.25\n".encode())
@example(b"a 1\x0bb 2\x85c 3\x7f\na 2\x0bb 3\x85c 4\x7f\n")
@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace"))))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Any bytes give a valid suggestion or an InputError."""
    with suppress(InputError):
        proved(tmp_path_factory.getbasetemp(), data)


LINES = st.text(st.sampled_from("abλ19.,:=|[]{}()/%-+e\"'\\#_ \t\r"), max_size=40)


@examples(12)
@given(st.lists(LINES, min_size=1, max_size=12).map("\n".join))
def test_lines_of_odd_marks(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with suppress(InputError):
        proved(tmp_path_factory.getbasetemp(), text.encode())


# --- guesses --------------------------------------------------------------------------------------------------------

NANO = """\
tokens per iteration will be: 491,520
number of parameters: 123.59M
step 0: train loss 10.9897, val loss 10.9895
iter 0: loss 10.9886, time 33785.52ms, mfu -100.00%
iter 1: loss 9.9886, time 137.61ms, mfu 41.30%
iter 2: loss nan, time 137.80ms, mfu 41.31%
saving checkpoint to out
step 500: train loss 5.9897, val loss 5.9895
saving checkpoint to out
"""
MEGATRON = """\
using world size: 8, tensor-model-parallel size: 2
 iteration        1/     200 | elapsed time per iteration (ms): 15802.3 | lm loss: 1.082777E+01 | grad norm: 22.029 |
time (ms) | forward-compute: 2868.44 | backward-compute: 5554.67
 iteration      100/     200 | elapsed time per iteration (ms): 5802.3 | lm loss: 9.082777E+00 | grad norm: 2.029 |
time (ms) | forward-compute: 1868.44 | backward-compute: 3554.67
"""
SWEEP = """\
[Bench] world_size = 4, dtype = float16, device = `cuda:0`
STEP-0: step_time = 39.479248 ms, forward_time = 20.147217, perf = 20.89 tflops.
STEP-1: step_time = 38.479248 ms, forward_time = 19.147217, perf = 21.89 tflops.
[Summary] Average step_time = 38.979248 ms.
[Bench] world_size = 8, dtype = float32, device = `cuda:0`
STEP-0: step_time = 29.479248 ms, forward_time = 10.147217, perf = 20.89 tflops.
STEP-1: step_time = 28.479248 ms, forward_time = 19.147217, perf = 21.89 tflops.
[Summary] Average step_time = 28.979248 ms.
"""
PROFILE = """\
 Time (%)  Total Time (ns)  Instances   Avg (ns)  Name
 --------  ---------------  ---------  ---------  --------------------------
     76.2     654980528678         64  10234070.6  void gemm<float, 128>(int)
     12.3     105863457229         37   2861174.5  ncclDevKernel_AllReduce(x)
      9.1      95863457229         31    861174.5  [CUDA memcpy HtoD]
"""


def lines_of(form: Format) -> dict[str, tuple[str | None, str, dict[str, str]]]:
    """Return table, text and units of each `[[line]]`, by name."""
    data = tomllib.loads(form.path.read_text("utf-8"))
    return {x["name"]: (x.get("table"), x["text"], x.get("unit", {})) for x in data["line"]}


@pytest.mark.usefixtures("no_known_formats")
def test_a_training_log(tmp_path: Path) -> None:
    form, got = proved(tmp_path, NANO.encode())
    lines = lines_of(form)
    assert lines["step"] == (
        "steps",
        "iter {step:d}: loss {loss:.4f}, time {step_time:.2f}ms, mfu {mfu:.2f}%",
        {"step_time": "ms", "mfu": "%"},
    )
    assert lines["step_train_loss"][:2] == (
        "values",
        "step {step:d}: train loss {train_loss:.4f}, val loss {val_loss:.4f}",
    )
    assert "number of parameters: {number_of_parameters_millions:.2f}M" in [text for _, text, _ in lines.values()]
    steps = got.rows("steps")
    assert [(r["step"], r["step_time_s"], r["mfu"]) for r in steps[1:]] == [
        (1, pytest.approx(0.13761), pytest.approx(0.413)),
        (2, pytest.approx(0.1378), pytest.approx(0.4131)),
    ]
    assert got.done.lines == {"total": 9, "read": 9, "context": 0, "unread": 0}


@pytest.mark.usefixtures("no_known_formats")
def test_units_ahead_of_a_line_and_in_a_key(tmp_path: Path) -> None:
    form, got = proved(tmp_path, MEGATRON.encode())
    lines = lines_of(form)
    assert lines["step"][2] == {"step_time": "ms"}
    assert lines["step"][1].startswith(
        " iteration {step:8d}/     {steps:d} | elapsed time per iteration (ms): {step_time:.1f}"
    )
    assert lines["time_ms_forward"][0] == "phases"
    first = got.rows("phases")[0]
    # The line follows its step line; nothing in the log proves it, so the next step line does not name its step.
    assert (first["phase"], first["step"], first["time_s"]) == ("forward_compute", None, pytest.approx(2.86844))
    assert [r["grad_norm"] for r in got.rows("steps")] == [22.029, 2.029]


@pytest.mark.usefixtures("no_known_formats")
def test_a_sweep_is_several_runs(tmp_path: Path) -> None:
    form, got = proved(tmp_path, SWEEP.encode())
    assert [(r["world_size"], r["dtype"]) for r in got.rows("runs")] == [(4, "float16"), (8, "float32")]
    assert lines_of(form)["step"][2] == {"step_time": "ms", "tflops": "tflops"}
    (first, second) = got.rows("summaries")
    assert (first["key"], first["window_first"], first["window_last"]) == ("step_time", 0, 1)
    assert second["value"] == pytest.approx(0.028979248)
    assert 'before = "run"' in form.path.read_text("utf-8")


@pytest.mark.usefixtures("no_known_formats")
def test_rows_of_a_profiler(tmp_path: Path) -> None:
    """The header names the columns, whatever characters the row names contain."""
    _, got = proved(tmp_path, PROFILE.encode())
    assert [(r["name"], r["calls"], r["share"]) for r in got.rows("kernels")] == [
        ("void gemm<float, 128>(int)", 64, pytest.approx(0.762)),
        ("ncclDevKernel_AllReduce(x)", 37, pytest.approx(0.123)),
        ("[CUDA memcpy HtoD]", 31, pytest.approx(0.091)),
    ]
    assert got.rows("kernels")[0]["time_s"] == pytest.approx(654.980528678)


KEYS = """\
[titan] 2026-02-24 19:46:17,508 - root - INFO - step:  1  loss: 12.2463  memory: 20.04GiB(21.10%)  tps: 1,189  mfu: N/A
[titan] 2026-02-24 19:46:18,508 - root - INFO - step:  2  loss:  7.6258  grad_norm: 26.6250  tps: 10,050  mfu: 13.99%
[titan] 2026-02-24 19:46:19,508 - root - INFO - step: 10  loss:  7.5258  grad_norm:  6.6250  tps: 10,150  mfu: 13.99%
"""
OBJECTS = """\
DLLL {"time": "2020-04-21", "step": "PARAMETER", "data": {"SEED": 3, "batch_size": 10}}
DLLL {"time": "2020-04-21", "step": [0, 1], "data": {"step_loss": 3.5, "step_time_ms": 12.5, "lr": "0.001"}}
DLLL {"time": "2020-04-21", "step": [0, 2], "data": {"step_loss": 3.25, "step_time_ms": 11.5, "lr": "0.001"}}
"""


@pytest.mark.usefixtures("no_known_formats")
def test_keys_may_come_and_go(tmp_path: Path) -> None:
    _, got = proved(tmp_path, KEYS.encode())
    assert [(r["step"], r["loss"], r["tokens_per_s"], r["grad_norm"]) for r in got.rows("steps")] == [
        (1, 12.2463, 1189, None),
        (2, 7.6258, 10050, 26.625),
        (10, 7.5258, 10150, 6.625),
    ]


@pytest.mark.usefixtures("no_known_formats")
def test_objects_with_a_step_have_an_entry_of_their_own(tmp_path: Path) -> None:
    form, got = proved(tmp_path, OBJECTS.encode())
    step, rest = tomllib.loads(form.path.read_text("utf-8"))["json"]
    assert step["when"] == {"step[1]": "*", "data.step_loss": "*"}
    assert step["unit"] == {"step_time": "ms"}
    assert rest["keys"] == {"*": "*"}
    assert [(r["step"], r["step_time_s"]) for r in got.rows("steps")] == [(1, 0.0125), (2, 0.0115)]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.usefixtures("no_known_formats")
def test_rank_labels_are_stripped(tmp_path: Path, label: bytes) -> None:
    form, got = proved(tmp_path, labelled(NANO.encode(), label, (0, 1)))
    assert "{_:d}" not in form.path.read_text("utf-8")
    assert {r["rank"] for r in got.rows("steps")} <= {0, 1}
    assert got.done.lines["unread"] == 0


def test_a_guess_is_marked(tmp_path: Path) -> None:
    text = suggest.suggest(log_of(tmp_path, b"step 1 loss 3.5 fwd 0.5\nstep 2 loss 3.4 fwd 0.6\n"))
    assert re.search('^table  = "steps" +# guess: ', text, re.MULTILINE)


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the log is empty"),
        (b"\x00\x01\x02\x03" * 300, "not a text log: it looks binary"),
        (b"\x80\x02}(X\x07\x00\x00\x00versionq\x00X\x03\x00\x00\x002.9q\x01", "a pickle is not read"),
        (b"no number in it\n", "no line that could be described has a number"),
        (sample("moe_layer_early"), "nothing is left to describe"),
    ],
)
def test_a_log_that_cannot_be_described_gives_one_error(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(PerflogError) as error:
        suggest.suggest(log_of(tmp_path, data))
    assert error.value.reason == reason


def test_lines_that_a_format_reads_are_left_out(tmp_path: Path) -> None:
    more = b"".join(b"cache: %d hits, %.2f ms\n" % (k, k * 1.5) for k in range(5))
    form, _ = proved(tmp_path, sample("moe_layer_early") + more)
    assert [x.template.text for x in form.lines] == ["cache: {hits:d} hits, {time:.2f} ms"] or len(form.lines) == 1
    assert "--format moe_layer --format FILE.toml" in form.path.read_text("utf-8")


def test_a_huge_log_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Common shapes are kept, although all other lines differ."""
    monkeypatch.setattr("perflog.ingestion.suggest.line_shapes._MOST_SHAPES", 20)
    noise = [f"{'abcdefghij'[k % 10] * (k // 10 + 1)} {'xyz'[k % 3] * (k % 7 + 1)}".encode() for k in range(400)]
    data = b"".join(b"%s\nstep %d took %.3f ms\n" % (line, k, k * 0.5) for k, line in enumerate(noise))
    _, got = proved(tmp_path, data)
    assert len(got.rows("steps")) == 400


# --- real logs ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_known_formats")
@pytest.mark.parametrize("name", NAMES)
def test_samples_of_known_formats_as_unknown_logs(tmp_path: Path, name: str) -> None:
    _, got = proved(tmp_path, sample(name))
    assert got.balances()
    assert got.done.lines["unread"] * 5 <= got.done.lines["total"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_known_formats")
@pytest.mark.parametrize("name", ["moe_layer_early", "nvprof", "pipeline_layers"])
def test_seeds_of_known_formats_as_unknown_logs(tmp_path: Path, name: str) -> None:
    _, got = proved(tmp_path, seeds.path(name).read_bytes())
    assert got.done.lines["unread"] * 16 <= got.done.lines["total"]


TEXTS = sorted(p for p in CORPUS.rglob("*") if p.suffix in (".txt", ".log", ".md", ".csv", ".json"))


@needs_corpus
@pytest.mark.usefixtures("no_known_formats")
@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.stem)
def test_every_real_log_gives_a_format(tmp_path: Path, path: Path) -> None:
    proved(tmp_path, path.read_bytes())


# --- pieces ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=5), st.sampled_from([".1f", ".3f", ".6f", ".2e", ".4E", "r"]))
def test_the_spec_writes_numbers_back(values: list[float], spec: str) -> None:
    texts = [repr(v) if spec == "r" else format(v, spec) for v in values]
    guessed_spec = spec_of(texts)
    assert guessed_spec is not None
    assert any(format_number(x, guessed_spec) == x for x in texts)


@given(st.text(max_size=60))
def test_tokens_are_the_line(text: str) -> None:
    assert "".join(t.gap + t.text for t in tokens(text)) == text.rstrip(" \t")
    assert skeleton(tokens(text)) == skeleton(tokens(text))
