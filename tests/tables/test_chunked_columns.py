"""Columns of a table that stays in chunks are those of the same table in one chunk, in its order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perflog.tables import chunked_columns
from perflog.tables.chunked_columns import rows_of_chunks
from perflog.tables.columns import Rows, rows_from_arrow
from perflog.tables.row_order import in_order
from perflog.tables.schema import arrow_schema

RUNS = ["a-1", "b-1"]
KEYS = ["loss", "reward", None]
COLUMNS = ("run", "line", "part", "step", "rank", "key", "unit", "value", "text", "elapsed_s")


def table(records: Sequence[tuple[int, int, int | None, int, float | None]], cuts: list[int]) -> pa.Table:
    """Rows of `values` (run, line, step, key, value) in chunks that begin at these places."""
    schema = arrow_schema("values")
    runs, lines, steps, keys, numbers = zip(*records, strict=True)
    columns = {name: pa.nulls(len(records), schema.field(name).type) for name in schema.names}
    columns |= {
        "run": pa.array([RUNS[run] for run in runs]).dictionary_encode(),
        "line": pa.array(lines, pa.int64()),
        "part": pa.array([0] * len(records), pa.int32()),
        "step": pa.array(steps, pa.int64()),
        "key": pa.array([KEYS[key] for key in keys], pa.string()).dictionary_encode(),
        "value": pa.array(numbers, pa.float64()),
        "text": pa.array([None if key else "text" for key in keys], pa.string()),
    }
    whole = pa.Table.from_arrays([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)
    ends = sorted({*(min(cut, len(records)) for cut in cuts), len(records)})
    pieces = [whole.slice(first, last - first) for first, last in zip([0, *ends], ends, strict=False)]
    return pa.concat_tables(pieces).unify_dictionaries()


def both(chunks: pa.Table) -> tuple[Rows | None, Rows]:
    return rows_of_chunks(chunks, RUNS), rows_from_arrow(in_order(chunks, RUNS))


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(1, 40),
        st.one_of(st.none(), st.integers(0, 9)),
        st.integers(0, 2),
        st.one_of(st.none(), st.floats(width=32)),
    ),
    min_size=1,
    max_size=60,
)


@given(RECORDS, st.lists(st.integers(1, 60), max_size=6), st.data())
@settings(deadline=None)
def test_chunks_give_the_values_of_the_whole(
    records: list[tuple[int, int, int | None, int, float | None]], cuts: list[int], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_columns, "_BLOCK", data.draw(st.integers(1, 9)))
        patch.setattr(chunked_columns, "_FAR", data.draw(st.sampled_from([1, 4, 100])))
        patch.setattr(chunked_columns, "_SPREAD", 1000)
        rows, whole = both(table(records, cuts))
        assert rows is not None
        places = np.array(data.draw(st.lists(st.integers(0, len(records) - 1), max_size=20)), np.int64)
        for name in COLUMNS:
            for some, same in ((rows, whole), (rows.where(places), whole.where(places))):
                np.testing.assert_array_equal(some[name], same[name], strict=True)
                assert some.known(name).tolist() == same.known(name).tolist()
        assert rows.nans("value").tolist() == whole.nans("value").tolist()
        assert rows.counts("key") == whole.counts("key")
        for key, of_key in whole.by("key").items():
            assert rows.where(rows.one_of("key", {key}))["line"].tolist() == of_key["line"].tolist()


def test_rows_that_are_far_from_their_order_are_not_left_in_chunks() -> None:
    rng = np.random.default_rng(0)
    far = [(0, int(line), None, 0, 1.0) for line in rng.permutation(200)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_columns, "_BLOCK", 4)
        assert rows_of_chunks(table(far, [50, 100]), RUNS) is None


def test_a_table_with_rows_of_other_runs_is_not_left_in_chunks() -> None:
    assert rows_of_chunks(table([(0, 1, None, 0, 1.0), (1, 2, None, 0, 1.0)], []), RUNS[:1]) is None


def test_a_column_lives_as_long_as_somebody_has_it() -> None:
    rows, _ = both(table([(0, line, line, 0, 1.0) for line in range(1, 50)], [10, 20]))
    assert rows is not None
    lines = rows["line"]
    assert rows["line"].base is lines.base
    assert lines.tolist() == list(range(1, 50))


def test_a_column_may_be_cut_in_other_chunks_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_columns, "_FAR", 1)
    chunks = table([(0, line, line, 0, line / 2) for line in range(20)], [5, 10, 15])
    index = chunks.column_names.index("value")
    field = chunks.schema.field("value")
    rows = rows_of_chunks(chunks.set_column(index, field, pa.chunked_array([chunks["value"].combine_chunks()])), RUNS)
    assert rows is not None
    assert rows.where(np.array([0, 19, 4]))["value"].tolist() == [0.0, 9.5, 2.0]
    assert rows.where(np.array([0, 19, 4]))["step"].tolist() == [0, 19, 4]
