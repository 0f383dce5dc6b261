"""Forms of cells: numbers with their units, several values in one cell, and what these are named."""

from __future__ import annotations

import pytest

from perflog.formats.families.cell_forms import form_of_several, forms_with_units, with_fields
from perflog.formats.template import Template
from perflog.units import UNITS


@pytest.mark.parametrize(
    ("shape", "header", "text", "units"),
    [
        ("{} ms / {} TFLOPS", "x", "{x:r} ms / {x_TFLOPS:r} TFLOPS", {"x": "ms", "x_TFLOPS": "TFLOP/s"}),
        ("{} / {} ms", "a p50 / p95", "{a_p50:r} / {a_p95:r} ms", {"a_p50": "ms", "a_p95": "ms"}),
        ("{} / {}", "Retries (P50/P90)", "{Retries_P50:r} / {Retries_P90:r}", {}),
        ("{} / {}", "Retries (P50/P90/P99)", "{x:r} / {x_2:r}", {}),  # another number of names
        ("{} {}", "fwd (ms) bwd (us)", "{fwd:r} {bwd:r}", {"fwd": "ms", "bwd": "us"}),
        ("{} {}", "a b", "{x:r} {x_2:r}", {}),  # one name of two words
        ("{}/{} GB", "x", "{x:r}/{x_total:r} GB", {"x": "GB", "x_total": "GB"}),
        ("{}/{} ms", "x", "{x:r}/{x_ms:r} ms", {"x_ms": "ms"}),
        ("{}/{}", "iter", "{x:r}/{x_total:r}", {}),
        ("{}/{}", "x", "{x:r}/{x_2:r}", {}),
        ("{}x ({})", "x", "{x:r}x ({x_2:r})", {"x": "1"}),
        ("a: {} (b = {})", "x", "a: {a:r} (b = {b:r})", {}),
        ("images/sec: {}", "x", "images/sec: {images_per_s:r}", {"images_per_s": "1/s"}),
        ("wait: {} ms", "x", "wait: {wait:r} ms", {"wait": "ms"}),
        ("{} ± {}", "x", "{x:r} ± {x_spread:r}", {}),
        ("{} ± {} ms", "x", "{x:r} ± {x_spread:r} ms", {"x": "ms", "x_spread": "ms"}),  # one unit for both
        ("{} ms ± {}", "x", "{x:r} ms ± {x_spread:r}", {"x": "ms", "x_spread": "ms"}),
        ("{} ms +/- {} us", "x", "{x:r} ms +/- {x_spread:r} us", {"x": "ms", "x_spread": "us"}),
        ("{} ±", "x", "{x:r} ±", {}),
    ],
)
def test_several_values_of_a_cell(shape: str, header: str, text: str, units: dict[str, str]) -> None:
    form, found = form_of_several("x", shape, header, {})
    assert (form.template.text, found) == (text, {name: UNITS[unit] for name, unit in units.items()})


def test_a_name_in_a_cell_may_mean_a_field_of_its_unit() -> None:
    def name(free: dict[str, str]) -> str:
        return form_of_several("x", "ttft: {} ms", "x", free)[0].fields[0].name

    assert name({"ttft_s": "s"}) == name({}) == "ttft"
    assert form_of_several("step", "{}/{}", "step", {})[0].template.text == "{step:d}/{step_total:r}"


@pytest.mark.parametrize(
    ("ways", "unit", "texts", "units", "of_column"),
    [
        (["r ms"], "s", ["{x:r} ms"], [""], "ms"),  # the cells are right
        (["r"], "s", ["{x:r}"], [""], "s"),
        (["rms", "rus"], "s", ["{x:r}ms", "{x:r}us"], ["ms", "us"], "s"),
        (["rK"], "", ["{x_K:r}K"], [""], ""),  # a factor of 1000 or of 1024
        ([",d ms"], "", ["{x:,d} ms"], [""], "ms"),
        (["r()"], "", ["{x:r}{_:b}({_:w}={_:r})", "{x:r}{_:b}({_:)c})"], ["", ""], ""),
    ],
)
def test_ways_to_print_a_number_with_its_unit(
    ways: list[str], unit: str, texts: list[str], units: list[str], of_column: str
) -> None:
    forms, column = forms_with_units("x", ways, unit)
    assert [form.template.text for form in forms] == texts and [form.unit for form in forms] == units
    assert column == of_column


def test_fields_that_a_column_does_not_take_are_dropped() -> None:
    assert with_fields(Template("{a:d} of {b:f}"), {"b"}, "__") == "{__:d} of {b:f}"
