"""What format files declare of phases and quantities, what is wrong with it, and what a run gets of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perflog.errors import FormatError
from perflog.formats.loader.format_file import load
from perflog.formats.registry import known
from perflog.metrics.semantics import run_semantics

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
