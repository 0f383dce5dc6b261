"""What a side is: references in lists and mappings, and runs that measure something else than the others."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.json_logs import json_log, steady_times
from support.paths import ROOT

import perflog
from perflog.analysis.compare import sides
from perflog.analysis.compare.sides import Case
from perflog.analysis.repeats import Difference
from perflog.cli.main import main
from perflog.errors import NothingToCompareError, UsageError

FOREIGN = '{"scaling_factor": 8, "points": [{"nodes": 1, "throughput": 10.0}, {"nodes": 2, "throughput": 19.0}]}'


def folder(path: Path, level: float, first: int) -> list[str]:
    """Three runs in a folder."""
    path.mkdir()
    return [str(json_log(path / f"{k}.json", steady_times(first + k, level))) for k in range(3)]


def test_a_list_is_one_side_and_a_mapping_names_them(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.22, 11)
    compared = perflog.compare(base, [Path(path) for path in side])
    assert compared.sides == ("main", "pr") and [*map(len, compared.cases[0].runs)] == [3, 3]
    rows = compared.row_records
    assert perflog.compare({"main": base, "pr": side}).row_records == rows
    assert perflog.compare({"main": str(tmp_path / "main"), "pr": str(tmp_path / "pr" / "*.json")}).row_records == rows
    assert perflog.compare({"main": [perflog.read(*base)], "pr": tuple(side)}).row_records == rows


@pytest.mark.parametrize("side", [[], 3, [None], {"a": "text.txt", "b": 3}])
def test_something_else_is_no_side(tmp_path: Path, side: object) -> None:
    base = folder(tmp_path / "main", 0.2, 1)
    with pytest.raises(UsageError, match="cannot be compared"):
        perflog.compare(base, side)


def test_a_table_in_memory_is_the_log_that_its_csv_would_be(tmp_path: Path) -> None:
    """Of pandas, with the steps as a column or as its index, of Arrow and of polars."""
    polars = pytest.importorskip("polars")
    times = {"main": steady_times(1, 0.2), "pr": steady_times(2, 0.22)}
    frames = {
        name: pd.DataFrame({"step": range(1, len(of) + 1), "loss": 3.5, "step_time_s": of})
        for name, of in times.items()
    }
    for name, frame in frames.items():
        frame.to_csv(tmp_path / name, index=False)
    wanted = str(perflog.compare({name: str(tmp_path / name) for name in frames}).row_records)
    for of_side in (frames, {name: frame.set_index("step") for name, frame in frames.items()}):
        assert str(perflog.compare(of_side).row_records) == wanted
    for made in (pa.Table.from_pandas, lambda frame: polars.DataFrame(frame.to_dict("list"))):
        compared = perflog.compare(*map(made, frames.values()))
        assert compared.sides == ("table 1", "table 2")
        assert str(compared.row_records).replace("table 1", "main").replace("table 2", "pr") == wanted


def test_figures_by_name_are_a_side() -> None:
    compared = perflog.compare({"tokens_per_s": np.float64(1000.0), "mfu": 0.4}, {"tokens_per_s": 900, "mfu": 0.4})
    found = compared.rows.set_index("metric")["change"]
    assert (found["tokens_per_s"], found["mfu"]) == (pytest.approx(-0.1), 0)


@pytest.mark.parametrize("table", [pd.DataFrame(), pd.DataFrame({"x": [[1, 2]]})])
def test_a_table_without_a_known_figure_is_an_error(table: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match=r"^table 2: perflog finds no metric"):
        perflog.compare({"mfu": 0.4}, table)


def test_a_file_that_measures_something_else_is_no_run_of_a_side(tmp_path: Path) -> None:
    """The runs that have the figure are the sample; the others are listed, in text and JSON."""
    folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.22, 11)
    paths = [str(tmp_path / name) for name in ("main", "pr")]
    wanted = perflog.compare(*paths).row_records
    for path in paths:
        (Path(path) / "scaling.json").write_text(FOREIGN)
    result = CliRunner().invoke(main, ["compare", *paths, "--format", "json"])
    assert [(each["side"], each["label"], each["reason"]) for each in json.loads(result.stdout)["left_out"]] == [
        (name, "scaling.json#1", "measures something else") for name in ("main", "pr")
    ]
    assert "main: not compared, measures something else: scaling.json#1" in result.stderr
    assert perflog.compare(*paths).row_records == wanted
    both = [str(Path(path) / "scaling.json") for path in paths]
    assert perflog.compare(*both).row_records  # on both sides they are what is compared


def test_logs_without_any_figure_say_so(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n")
    with pytest.raises(NothingToCompareError, match="there is no metric to compare"):
        perflog.compare(tmp_path / "a.txt", tmp_path / "b.txt")


DUMPS = ROOT / "tests" / "traces" / "flight_recorder"


@pytest.mark.parametrize("path", sorted(DUMPS.iterdir()), ids=lambda path: path.name)
def test_a_dump_of_a_flight_recorder_compares_with_itself(path: Path) -> None:
    compared = perflog.compare(f"a={path}", f"b={path}")
    assert any(row.metric.startswith("calls completed in group") for row in compared.row_records)
    assert all(row.base_value == row.side_value for row in compared.row_records)


def test_values_compare_by_name_where_a_log_has_nothing_else(tmp_path: Path) -> None:
    """Nobody knows which way they are better."""
    for name, value in (("a", 1.5), ("b", 1.8)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"t_removed": value, "t_original": 2.5}))
    rows = perflog.compare(tmp_path / "a.json", tmp_path / "b.json").row_records
    assert [(row.metric, row.better, row.base_value, row.side_value) for row in rows] == [
        ("t_removed", None, 1.5, 1.8), ("t_original", None, 2.5, 2.5),
    ]  # fmt: skip


def test_a_run_with_the_same_losses_in_other_times_is_no_copy(tmp_path: Path) -> None:
    """A program with a fixed seed prints its losses again; its times differ."""
    for name, slower in (("old", 1.0), ("new", 1.25)):
        lines = [{"step": s, "loss": 5 - 0.25 * s, "elapsed": 8 * s * slower} for s in range(1, 11)]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "cut.jsonl").write_bytes((tmp_path / "old.jsonl").read_bytes()[:-60])
    assert not perflog.compare(tmp_path / "old.jsonl", tmp_path / "new.jsonl").copies
    assert perflog.compare(tmp_path / "old.jsonl", tmp_path / "cut.jsonl").copies


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert sides._free("run", ["a"]) == "run"
    assert sides._free("run", ["run"]) == "run (2)"
    assert sides._free("run", ["run (2)", "run"]) == "run (3)"


def test_runs_without_a_setting_to_split_by_are_counted(tmp_path: Path) -> None:
    runs = [json_log(tmp_path / f"{k}.json", steady_times(k), {"batch": k} if k < 2 else {}) for k in range(5)]
    split = sides._split([sides.Side("all", perflog.read(*map(str, runs)))], ["batch"])
    assert [side.name for side in split] == ["0", "1"]
    assert split[0].log.warnings[-1] == "3 runs without a setting `batch`: not compared"


def test_sides_without_a_common_configuration_say_how_they_differ() -> None:
    gpus = {"old": ("A1", "A2", "A3", "A4"), "new": ("H1", None)}
    all_sides: list[Any] = [
        SimpleNamespace(name=name, settings={str(n): {"gpu": gpu} for n, gpu in enumerate(values)})
        for name, values in gpus.items()
    ]
    with pytest.raises(NothingToCompareError, match=r"by gpu \(A1, A2, A3 and 1 more in old; H1, none in new\)"):
        sides.match_runs(all_sides)


def test_names_of_sides() -> None:
    assert sides.side_names(["a=x.txt", "y.txt", "a=z.txt", "y.txt"]) == ["a", "y.txt"]
    assert [sides._short(name) for name in ("a/b.txt", "a/b.log", "b.out", "a/b/", "b.csv", "b.txt#2", "/")] == [
        "b", "b", "b", "b", "b.csv", "b#2", "/",
    ]  # fmt: skip
    assert sides._name_of(["x/a.txt", Path("x/b.txt")], ["a", "b"]) == "x"
    assert sides._name_of(["x/a.txt"], ["a"]) == "a" == sides._name_of(["x/a.txt"] * 2, ["a"])
    for several in (["x/a.txt", "y/b.txt"], ["a.txt", "b.txt"]):
        assert sides._name_of(several, ["a", "b"]) == "a and 1 more"


ROUNDS = Case("x=1", (("a1", "a2"), ("b1", "b2")))
SINGLE = Case("x=2", (("a3",), ("b3",)))


def side_of(name: str, steps: dict[str, int], log: str = "one") -> Any:
    """A side whose runs have so many steps."""
    tables = SimpleNamespace(rows_of=lambda _, run: range(steps[run]))
    keys = [SimpleNamespace(id=run, sha256=log) for run in steps]
    return SimpleNamespace(name=name, tables=tables, log=SimpleNamespace(run_keys=keys))


@pytest.fixture
def no_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs a1 and a2 are no repeats."""
    found = Difference(("a1", "a2"), "step time", "s", 1.0, 1.255, 0.01, (0, 1))
    monkeypatch.setattr(sides, "differing", lambda _, groups: [found] if found.runs in groups else [])


@pytest.mark.usefixtures("no_repeats")
def test_runs_that_are_no_repeats_are_compared_one_by_one() -> None:
    both: list[Any] = [side_of("a", {"a1": 10, "a2": 10, "a3": 10}), side_of("b", {"b1": 10, "b2": 10, "b3": 10})]
    cases, (warning,) = sides._by_round(both, [ROUNDS, SINGLE])
    assert cases == [
        Case("x=1, round 1", (("a1",), ("b1",))), Case("x=1, round 2", (("a2",), ("b2",))), SINGLE,
    ]  # fmt: skip
    assert warning.startswith("a: not repeats, their step time differs by 25 %; the k-th run of a side is compared")
    assert [case.name for case in sides._by_round(both, [Case("", ROUNDS.runs)])[0]] == ["round 1", "round 2"]
    assert sides._by_round(both, [SINGLE]) == ([SINGLE], [])


@pytest.mark.usefixtures("no_repeats")
@pytest.mark.parametrize(("of_side", "log"), [(("b1",), "one"), (("b1", "b2"), "other")])
def test_runs_that_are_no_repeats_need_partners_in_their_log(of_side: tuple[str, ...], log: str) -> None:
    both: list[Any] = [side_of("a", {"a1": 10, "a2": 10}), side_of("b", {"b1": 10, "b2": 10}, log)]
    with pytest.raises(UsageError, match="they print the same settings, but their step time differs by 25 %"):
        sides._by_round(both, [Case("", (("a1", "a2"), of_side))])


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ({"a": 10, "b": 5, "c": 4}, ("a", "b")),  # half of the steps
        ({"a": 10, "b": 0}, ("a", "b")),  # no steps are known
        ({"a": 0, "b": 0}, ("a", "b")),
        ({}, ()),
    ],
)
def test_runs_that_are_short_say_little_of_repeats(steps: dict[str, int], kept: tuple[str, ...]) -> None:
    assert sides._without_short(side_of("s", steps), tuple(steps)) == kept


@pytest.mark.parametrize(
    ("keys", "cases", "names"),
    [
        (("x", "y"), [("1", "2"), ("1", "3")], ["y=2", "y=3"]),
        (("x", "args"), [("1", "a" * 61), ("2", "b" * 61)], ["x=1", "x=2"]),  # a long text
        (("x", "args"), [("1", "a" * 60), ("2", "b" * 60)], ["x=1", "x=2"]),
        (("args",), [("a" * 61,), ("b" * 61,)], [f"args={'a' * 61}", f"args={'b' * 61}"]),
        (("x",), [("1",)], [""]),
        (("x", "y"), [("1", "2"), ("1", "3"), ("2", "2")], ["x=1, y=2", "x=1, y=3", "x=2, y=2"]),
    ],
)
def test_names_of_cases(keys: tuple[str, ...], cases: list[tuple[str, ...]], names: list[str]) -> None:
    assert [sides._case_names(keys, cases)[case] for case in cases] == names


def test_runs_of_a_side_that_differ_in_a_setting_are_no_repeats() -> None:
    side: Any = SimpleNamespace(name="s", settings={str(n): {"lr": str(n), "seed": "0", "x": "1"} for n in range(2)})
    with pytest.raises(UsageError, match="its runs are not repeats: lr differs between them"):
        sides._check_repeats(side, ["0", "1"], set())
    sides._check_repeats(side, ["0", "1"], {"lr"})
    sides._check_repeats(side, ["1"], set())
    side.settings["1"]["x"] = "2"
    with pytest.raises(UsageError, match="lr, x differ between them"):
        sides._check_repeats(side, ["0", "1"], set())


def test_the_base_comes_first_and_the_others_keep_their_order() -> None:
    three: list[Any] = [SimpleNamespace(name=name) for name in "abc"]
    assert [side.name for side in sides._base_first(three, "c")] == ["c", "a", "b"]
    with pytest.raises(UsageError, match="no side has the name of the base"):
        sides._base_first(three, "d")
    assert sides.setting_names("lr") == ("lr",) and sides.setting_names(["lr", "x", "lr"]) == ("lr", "x")


def matched(*by_side: list[dict[str, str]], ignored: tuple[str, ...] = ()) -> tuple[list[Any], list[Any], list[str]]:
    """Cases, runs that are left out with the reason, and warnings, of sides whose runs have these settings."""
    made: list[Any] = [
        SimpleNamespace(
            name=name,
            settings={f"{name}{k}": settings for k, settings in enumerate(runs, 1)},
            labels={f"{name}{k}": f"label {k}" for k in range(1, len(runs) + 1)},
        )
        for name, runs in zip("ab", by_side, strict=True)
    ]
    cases, left_out, warnings = sides.match_runs(made, (), ("round", *ignored))
    return [(case.name, *case.runs) for case in cases], [(each.run, each.reason) for each in left_out], warnings


def test_runs_are_matched_by_the_settings_that_vary() -> None:
    """A seed tells repeats apart."""
    base = [{"x": "1", "seed": "0"}, {"x": "1", "seed": "1"}, {"x": "2", "seed": "0"}]
    cases, left_out, warnings = matched(base, [{"x": "1", "seed": "7"}, {"x": "3", "seed": "0"}])
    assert cases == [("x=1", ("a1", "a2"), ("b1",))]
    assert left_out == [("a3", "no other side has this configuration"), ("b2", "a does not have this configuration")]
    assert warnings == []
    assert matched(base, [{"x": "9"}, {"x": "8"}], ignored=("x",))[0] == [("", ("a1", "a2", "a3"), ("b1", "b2"))]
    assert matched(base, [{"x": "9"}, {"x": "8"}], ignored=("x", "y"))[2][0].startswith("no run has a setting `y`")
    assert matched(base, [{"x": "1"}, {"x": "1"}])[0] == [("x=1", ("a1", "a2"), ("b1", "b2"))]
    with pytest.raises(UsageError, match="its runs are not repeats: x differs"):
        matched(base, [{"x": "1", "y": "1"}, {"x": "1", "y": "2"}])  # another setting varies on each side
    assert matched(base[:2], [{"x": "7"}])[0] == [("", ("a1", "a2"), ("b1",))]  # one run compares with all


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    run = str(json_log(tmp_path / "a.json", steady_times(1)))
    (side,) = sides.named_sides([[run, run]])
    assert len(side.log) == 1
    assert side.log.warnings == [f"{side.name}: 1 run named again, the same bytes: each counts once"]
    with pytest.raises(UsageError, match="a comparison needs two sides") as error:
        sides.resolve_sides([{"x": run}])
    assert error.value.where == "x"
