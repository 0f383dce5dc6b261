"""Shapes that only torn writes make, beside shapes of records that lack fields."""

from __future__ import annotations

from perflog.formats.template import Template
from perflog.formats.torn_shapes import is_torn_shape


def test_shapes_of_two_halves_are_known() -> None:
    """Halves of two records are no shape of their own; a record that lacks fields is."""
    whole = Template("iter {i:d} | time (ms): {t:f} | lr: {lr:e} | lm loss: {l:f} | scale: {s:f} |")
    torn = [
        "iter {i:d} | time (ms): {t:f} | lr: {lr:e} | loss: {l:f} | scale: {s:f} |",
        "iter {i:d} | time (ms): {t:f} | lr: {lr:e} | lr: {lr_2:e} | lm loss: {l:f} | scale: {s:f} |",
        "iter {i:d} | tim: {l:f} | scale: {s:f} |",
        "oss: {l:f} | scale: {s:f} |",
    ]
    assert all(is_torn_shape(Template(text), whole) for text in torn)
    kept = [
        "iter {i:d} | time (ms): {t:f} | lr: {lr:e} | scale: {s:f} |",
        "iter {i:d} | lm loss: {l:f} | scale: {s:f} |",
        "iter {i:d} | other: {o:d} |",
        "{i:d} {t:f}",
        whole.text,
    ]
    assert not any(is_torn_shape(Template(text), whole) for text in kept)


def test_a_missing_field_after_words_that_stay_is_no_tear() -> None:
    whole = Template("iteration {i:d}/ 100 | time: {t:f} | loss: {l:f}")
    assert not is_torn_shape(Template("iteration {i:d}/ 100 | loss: {l:f}"), whole)
    assert is_torn_shape(Template("iteration {i:d}/ 100 | time: {t:f} loss: {l:f}"), whole)
    assert is_torn_shape(Template("iteration {i:d}/ 100 | time: {t:f} | time: {t_2:f} | loss: {l:f}"), whole)
