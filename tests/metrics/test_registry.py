"""The list of metrics, and what a metric tells about itself."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import pytest
from msgspec import Struct
from support.paths import ROOT

from perflog.errors import UsageError
from perflog.metrics import METRICS, Options, get
from perflog.metrics.compared import ComparedColumn, Measure, Sample, Steady
from perflog.metrics.registry import RUN_COLUMNS, Metric, MetricColumn, column, columns_of, metric_table
from perflog.metrics.run_tables import Tables
from perflog.tables.schema import TABLES


def test_the_order_of_the_metrics_is_deliberate() -> None:
    """`analyze`, the report and docs/metrics.md show it, so that a renamed module must not change it."""
    assert " ".join(METRICS) == (
        "causes steps throughput time_to_train time_to_target goodput timeline levels epochs pauses curves breakdown "
        "waterfall headroom phases wait imbalance ranks named_ranks hot_experts placement communication collectives "
        "node_pairs device_time stragglers lateness "
        "collective_wait collective_bandwidth collective_volume rank_pairs rank_clocks whatif stuck_ranks "
        "device_kernels device_ranges device_operators operator_efficiency host_operators launches "
        "idle_calls launch_queue critical_path replay trace_timeline copies memory_peak memory_holders memory_curve "
        "allocator allocator_holders counters counter_curve "
        "telemetry energy energy_cases "
        "kernels stages layers pipeline schedules "
        "matmul_efficiency ranges sweep configurations factors scaling scaling_losses cases case_pairs serving "
        "server_loads history"
    )


class Row(Struct):
    run: str
    name: Annotated[str, column("its name")]
    time_s: Annotated[float, column("its time", "s", "lower", brief=False)]
    rate: Annotated[float | None, column("its rate", "1/s", "higher")] = None


def test_the_columns_are_the_fields_with_their_names() -> None:
    assert columns_of(Row) == (
        MetricColumn("name", "", None, "its name", True),
        MetricColumn("time_s", "s", "lower", "its time", False),
        MetricColumn("rate", "1/s", "higher", "its rate", True),
    )


def test_each_metric_has_its_name() -> None:
    assert all(get(name) is metric and metric.name == name for name, metric in METRICS.items())


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `steps`"):
        get("stepss")


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `warmup`"):
        Options.of(warmpu=3)


def test_the_signature_shows_every_option() -> None:
    for metric in METRICS.values():
        parameters = inspect.signature(metric).parameters
        assert list(parameters) == ["log", *(field.name for field in fields(Options))]
        defaults = {name: parameter.default for name, parameter in parameters.items() if name != "log"}
        assert defaults == vars(Options())
        assert str(parameters["warmup"]) == "warmup: int | None = None"


def test_help_shows_words_options_columns_and_an_example() -> None:
    for metric in METRICS.values():
        text = pydoc.plain(pydoc.render_doc(metric))
        assert metric.summary in " ".join(text.split())
        assert f"{metric.formula}.\n" in text
        assert all(f"    {field.name} ({field.type}): " in text for field in fields(Options))
        assert all(f"- `{c.name}`{f' ({c.unit})' if c.unit else ''}: {c.meaning}" in text for c in metric.columns)
        sections = ["Args:", "Returns:", "Raises:", "Example:"]
        assert sections == [line.strip() for line in text.splitlines() if line.strip() in sections]
        assert f"perflog.metrics.{metric.name}(" in text.partition("Example:")[2]


def test_a_metric_prints_itself_on_one_line() -> None:
    for metric in METRICS.values():
        assert repr(metric).startswith(f"<metric {metric.name}: ") and "\n" not in repr(metric)


def test_the_list_prints_itself_on_one_line() -> None:
    assert repr(METRICS) == f"<{len(METRICS)} metrics: {', '.join(METRICS)}>"


@pytest.mark.slow
def test_a_type_checker_knows_what_a_metric_takes_and_returns(tmp_path: Path) -> None:
    """As in a user's project: mypy, and pandas-stubs, because pandas ships no types."""
    try:
        distribution("pandas-stubs")
    except PackageNotFoundError:
        pytest.skip("pandas-stubs is not installed")
    code = tmp_path / "user.py"
    code.write_text(
        "import perflog\n"
        "table = perflog.metrics.steps(perflog.reference(), warmup=3)\n"
        "reveal_type(table)\n"
        "perflog.metrics.steps(perflog.reference(), warm_up=3)\n"
        "perflog.metrics.steps(perflog.reference(), warmup='3')\n"
    )
    # The types of a metric are those of perflog.metrics and of pandas; checking all that these import takes 8 s more.
    others = {path.parent.name for path in (ROOT / "perflog").glob("*/__init__.py")} - {"metrics"}
    unread = [*(f"perflog.{room}.*" for room in sorted(others)), "matplotlib.*", "numpy.*", "pyarrow.*"]
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\n[mypy-{','.join(unread)}]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n")
    cache = str(ROOT / ".mypy_cache" / "user")  # of earlier runs: mypy tells by their hashes which files are the same
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", cache, str(code)]
    printed = subprocess.run(command, capture_output=True, text=True).stdout
    lines = [line for line in printed.splitlines() if f"{code.name}:" in line]  # not of modules that changed since
    assert lines[0].endswith('Revealed type is "pandas.core.frame.DataFrame"'), printed
    assert [line.partition(":")[2].partition(":")[0] for line in lines[1:3]] == ["4", "5"]


def test_the_type_of_a_column() -> None:
    """Values with a unit are floats, unless the column says more."""
    assert [MetricColumn("x").dtype, MetricColumn("x", "s").dtype] == ["", "float64"]
    assert MetricColumn("x", "s", type="Int64").dtype == "Int64"
    assert [MetricColumn("x_s", unit).short for unit in ("s", "", "B")] == ["x", "x_s", "x_s"]


def test_rows_without_the_label_of_their_run_get_it() -> None:
    """Rows by column name, and tables of rows. Rows in the order of the columns have it."""
    columns = (*RUN_COLUMNS, MetricColumn("n"))
    tables = Tables({"runs": pd.DataFrame({"run": ["a", "b"], "label": ["one", None]})})
    parts = [pd.DataFrame({"run": ["a", "b"], "n": [1, 2]}), pd.DataFrame({"run": ["a"], "label": ["own"], "n": [3]})]
    assert metric_table(columns, parts, tables)["label"].fillna("-").tolist() == ["one", "-", "own"]
    by_name = [{"run": "a"}, {"run": "b"}, {"run": "a", "label": "own"}]
    assert metric_table(columns, by_name, tables)["label"].fillna("-").tolist() == ["one", "-", "own"]
    assert metric_table(columns, [("a", "own", 1)], tables)["label"].tolist() == ["own"]


def test_every_test_checks_the_columns_of_metrics() -> None:
    columns = (*RUN_COLUMNS, MetricColumn("time_s", "s"))
    tables = Tables({})
    table = metric_table(columns, [{"run": "a", "time_s": 1.0}, {"run": "b"}], tables)
    assert list(table) == ["run", "label", "time_s"]
    with pytest.raises(AssertionError, match="columns that no metric declares: tme_s"):
        metric_table(columns, [{"run": "a"}, {"run": "b", "tme_s": 1.0}], tables)


def test_a_metric_is_computed_once_and_its_table_is_a_copy() -> None:
    calls = list[Options]()

    def compute(tables: Tables, options: Options) -> list[dict[str, object]]:
        calls.append(options)
        return [{"run": run, "time_s": 1.5} for run in tables.rows("steps")["run"].tolist()]

    columns = (*RUN_COLUMNS, MetricColumn("time_s", "s", "higher"))
    compared = ComparedColumn("phase", "its time", "time_s")
    own = Metric("own", "title", ("steps",), columns, "time_s", "", "", compute, (compared, _sampled))
    steps = pd.DataFrame({"run": ["a", "b"]}).reindex(columns=[each.name for each in TABLES["steps"]])
    tables = Tables({"runs": pd.DataFrame({"run": ["a", "b"], "label": ["one", None]}), "steps": steps})
    found = own(tables)
    found["time_s"] = 9.0
    assert own(tables)["time_s"].tolist() == [1.5, 1.5] and len(calls) == 1
    assert own(tables, warmup=3, level=0.5)["run"].tolist() == ["a", "b"] and calls[1:] == [
        Options(warmup=3, level=0.5)
    ]
    assert own.table_of("b", tables, Options())["run"].tolist() == ["b"] and len(calls) == 2
    assert own.table_of("c", tables, Options())["run"].tolist() == []
    assert (own.unit, own.better) == ("s", "higher")
    samples = [(measure.name, run, values.tolist()) for measure, run, values in own.samples(tables, Steady({}, {}))]
    assert samples == [("its time", "a", [1.5]), ("its time", "b", [1.5]), ("sampled", "a", [2.0])]


def test_a_metric_without_one_of_its_tables_has_no_rows() -> None:
    def compute(_tables: Tables, _options: Options) -> list[dict[str, object]]:
        raise AssertionError

    own = Metric("own", "title", ("runs", "steps"), RUN_COLUMNS, "run", "", "", compute, (_sampled,))
    tables = Tables({"runs": pd.DataFrame({"run": ["a"], "label": [None]})})
    assert not len(own(tables)) and list(own(tables)) == ["run", "label"]
    assert list(own.samples(tables, Steady({}, {}))) == [] and not len(own.table_of("a", tables, Options()))


def _sampled(_tables: Tables, _steady: Steady) -> Iterator[Sample]:
    yield Measure("step", "sampled"), "a", np.array([2.0])
