"""What format files declare of phases and quantities, what is wrong with it, and what a run gets of it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from perflog.errors import FormatError
from perflog.formats.expressions import Expression
from perflog.formats.loader.format_file import load
from perflog.formats.model import Phase
from perflog.formats.registry import known
from perflog.metrics.semantics import RunSemantics, ending_shapes, evaluate, run_semantics, semantics_by_run

GOOD = """\
title = "A log"
flops = "palm"

[quantities]
tokens = "samples * world_size"
unit_rows = "64"

[[line]]
name = "times"
table = "phases"
text = "work {work:r} wait {wait:r} kernel {kernel:r}"
sample = "work 1.0 wait 0.5 kernel 0.25"

[[phase]]
name = "work"
hidden = true

[[phase]]
name = "wait"
of = "forward"
kind = "wait"
exposes = "work"
clock = "host"
says = "what work did not hide"

[[phase]]
name = "kernel"
of = ["forward", "work"]
"""


def given(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_declared_is_loaded(tmp_path: Path) -> None:
    form = load(given(tmp_path, GOOD))
    assert [p.name for p in form.phases] == ["work", "wait", "kernel"]
    work, wait, kernel = form.phases
    assert (work.of, work.kind, work.hidden) == (("step",), "compute", True)
    assert (wait.of, wait.kind, wait.exposes, wait.clock) == (("forward",), "wait", "work", "host")
    assert kernel.of == ("forward", "work")
    assert form.flops == "palm" and set(form.quantities) == {"tokens", "unit_rows"}


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ('name = "kernel"', 'name = "kernal"', 27, "no line times a phase `kernal`"),
        ('name = "kernel"', 'name = "wait"', 27, "phase `wait` is declared twice"),
        ('of = "forward"', 'of = "sideways"', 20, "`sideways` is not a phase"),
        ('exposes = "work"', 'exposes = "wrok"', 22, "`wrok` is not a phase"),
        ('kind = "wait"', 'kind = "idle"', 21, "`idle` is not a kind of a phase"),
        ('clock = "host"', 'clock = "sun"', 23, "`sun` is not a clock of a phase"),
        ("hidden = true", "hidden = 1", 16, "`hidden` must be bool"),
        ('flops = "palm"', 'flops = "plam"', 2, "no FLOP convention `plam`"),
        ("unit_rows", "rows_unit", 6, "unknown quantity `rows_unit`"),
        ('"samples * world_size"', '"samples *"', 5, "not an expression"),
        ('says = "what', 'say = "what', 24, "unknown key `say`"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, line: int, reason: str) -> None:
    assert old in GOOD
    with pytest.raises(FormatError, match=reason) as caught:
        load(given(tmp_path, GOOD.replace(old, new)))
    assert caught.value.where == f"{tmp_path / 'own.toml'}:{line}"


def test_quantities_are_computed_from_what_the_lines_say() -> None:
    semantics = run_semantics("moe_layer", '{"samples": 8192, "world_size": 4, "top_k": 2}')
    assert semantics.quantities == {"tokens": 32768.0, "work_rows": 16384.0, "unit_rows": 64.0}
    assert semantics.flops == "tutel"


def test_what_cannot_be_computed_is_left_out() -> None:
    assert run_semantics("moe_layer", '{"samples": "many", "top_k": 2}').quantities == {"unit_rows": 64.0}
    assert run_semantics("moe_layer", '{"samples": [1, 2], "top_k": 2}').quantities == {"unit_rows": 64.0}


def test_a_format_that_is_not_installed_says_nothing() -> None:
    semantics = run_semantics("of another machine", '{"samples": 8192}')
    assert semantics.format is None and not semantics.phases and semantics.config == {"samples": 8192}
    assert semantics.parent("anything", 3) == "step"


def test_phases_of_a_library_mean_the_same_in_the_logs_of_all_programs() -> None:
    semantics = run_semantics("megatron", "{}")
    assert semantics.parent("bwd_allreduce", 1) == "bwd" and semantics.phases["bwd_allreduce"].kind == "communication"
    assert semantics.phases["optimizer"].says == "the optimizer's step with unscaling, clipping and copies"  # its own
    assert "forward" not in semantics.phases
    kinds = {
        name: found.kind for name in ("comm_time", "t_comm", "data_t", "tdata") if (found := semantics.phase(name))
    }
    assert kinds == {"comm_time": "communication", "t_comm": "communication", "data_t": "data"}


def test_the_kth_occurrence_has_the_kth_parent() -> None:
    semantics = run_semantics("moe_layer", "{}")
    parents = [semantics.parent("gather_gemm", k) for k in (1, 2, 3)]
    assert parents == ["gemm1_forward", "gemm2_backward", "gemm2_backward"]


def test_phases_form_no_circle() -> None:
    for form in known().values():
        phases = {p.name: p for p in form.phases}
        for phase in phases.values():
            seen, todo = set(), [phase.name]
            while todo:
                for parent in phases[todo.pop()].of:
                    assert parent != phase.name, form.name
                    if parent in phases and parent not in seen:
                        seen.add(parent)
                        todo.append(parent)


def test_the_parents_of_phases_that_no_format_declares() -> None:
    """The step has none; a part is named after its phase."""
    meaning = run_semantics(None, None)
    assert meaning.possible_parents("step") == ()
    assert meaning.possible_parents("forward") == meaning.possible_parents("backward") == ("step",)
    assert meaning.possible_parents("backward_params") == ("backward",)
    assert meaning.possible_parents("forward_backward") == meaning.possible_parents("other") == ("step",)
    assert meaning.lineage("backward_params", 1) == ("backward_params", "backward", "step")


def test_the_parent_of_an_occurrence_that_is_not_known() -> None:
    """It is known only if all occurrences have the same. The step has none."""
    semantics = run_semantics("moe_layer", "{}")
    assert [semantics.known_parent("gather_gemm", k) for k in (1, 2, 9, None)] == [
        "gemm1_forward", "gemm2_backward", "gemm2_backward", None
    ]  # fmt: skip
    assert [semantics.known_parent(name, None) for name in ("step", "forward", "odd", "backward_odd")] == [
        None, "step", "step", "backward"
    ]  # fmt: skip
    assert semantics.possible_parents("step") == ()


def own(folder: Path, **phases: str) -> RunSemantics:
    """The meaning of phases with these parents."""
    form = load(given(folder, GOOD))
    named = {name: Phase(name, of=tuple(of.split())) for name, of in phases.items()}
    return RunSemantics(form, phases=named | {"beside": Phase("beside", of=("forward",), hidden=True)})


def test_the_lineage_of_a_phase_ends_where_it_is_not_known(tmp_path: Path) -> None:
    """Only the phase itself has a known occurrence. A phase that is inside itself is named once."""
    semantics = own(tmp_path, a="b", b="forward", often="a b", ring="turn", turn="ring", inside="beside")
    lineages = {name: semantics.lineage(name, 2) for name in ("a", "often", "ring", "step")}
    assert lineages == {
        "a": ("a", "b", "forward", "step"), "often": ("often", "b", "forward", "step"), "ring": ("ring", "turn"),
        "step": ("step",),
    }  # fmt: skip
    assert semantics.lineage("often", None) == ("often",)
    hidden = {name: semantics.is_hidden(name, 1) for name in ("a", "beside", "inside", "step", "odd")}
    assert [name for name, is_hidden in hidden.items() if is_hidden] == ["beside", "inside"]


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("forward_mlp", "forward"),
        ("forward_backward", "step"),  # of both
        ("forward_backward_mlp", "step"),
        ("work_copy", "work"),  # a phase of the format
        ("works", "step"),
        ("forward", "step"),
    ],
)
def test_a_phase_is_inside_the_one_that_it_is_named_after(tmp_path: Path, name: str, parent: str) -> None:
    assert RunSemantics(load(given(tmp_path, GOOD))).parent(name, 1) == parent
    if parent == "work":
        assert RunSemantics(None).parent(name, 1) == "step"


def test_numbers_are_no_words_and_no_switches() -> None:
    semantics = RunSemantics(None, {"lr": 0.5, "bs": 8, "name": "x", "bias": True, "list": [1]})
    assert semantics.numbers == {"lr": 0.5, "bs": 8}
    assert (semantics.either_way, semantics.of_one_gpu) == ((), ())


@pytest.mark.parametrize(
    ("text", "numbers", "value"),
    [
        ("a * 2", {"a": 3.0}, 6.0),
        ("a * b", {"a": 3.0}, None),
        ("1 / a", {"a": 0.0}, None),
        ("a * a", {"a": 1e200}, None),  # beyond all numbers
    ],
)
def test_the_value_of_an_expression(text: str, numbers: dict[str, float], value: float | None) -> None:
    assert evaluate(Expression(text), numbers) == value


def test_runs_have_the_meaning_of_their_own_format() -> None:
    runs = pd.DataFrame({"run": ["a", "b"], "format": ["megatron", None], "config": [None, '{"x": 1}']})
    found = semantics_by_run(runs)
    assert found["a"].format is not None and found["a"].format.name == "megatron" and found["a"].config == {}
    assert found["b"].format is None and found["b"].config == {"x": 1}


def test_the_shapes_that_end_a_run() -> None:
    assert ending_shapes(None) == frozenset()
    form = known()["moe_layer"]
    ends = {line.template.text for line in form.lines if line.closes == "run" or line.table == "summaries"}
    assert ending_shapes(form) == ends and 0 < len(ends) < len(form.lines)
