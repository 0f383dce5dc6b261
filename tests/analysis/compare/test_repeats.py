"""What a repeat is: settings that do not part runs, settings that do, and copies of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.json_logs import json_log
from support.json_logs import steady_times as times

import perflog
from perflog.cli.main import main
from perflog.errors import InputError, UsageError

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes a log of JSON lines, with settings and step times in seconds, and returns its path."""

    def log(name: str, *contents: Any) -> str:
        return json_log(tmp_path / name, *contents)

    return log


ESPNET = (
    "Namespace(accum_grad=2, config='conf/train.yaml', elayers={layers}, outdir='exp/{seed}/results', "
    "seed={seed}, train_json='dump/{seed}.json', ctc_type='builtin')"
)


def test_a_seed_inside_a_text_parts_no_repeats(write: Write) -> None:
    sides = [
        f"{side}={write(f'{side}{i}.json', times(10 * k + i), {'args': ESPNET.format(layers=4, seed=10 * k + i)})}"
        for k, side in enumerate("ab")
        for i in range(2)
    ]
    compared = perflog.compare(*sides)
    assert (compared.headlines[0].base_runs, compared.headlines[0].side_runs) == (2, 2)
    assert not len(compared.settings)
    other = write("c.json", times(77), {"args": ESPNET.format(layers=8, seed=5)})
    compared = perflog.compare(*sides[:2], f"a={other}", sides[2])
    assert compared.cases[0].name.endswith("layers=4")
    assert "c.json" in compared.warnings[0]


def test_repeats_may_differ_in_incidental_settings(write: Write) -> None:
    sides = [
        f"{side}={write(f'{side}{i}.json', times(10 * k + i), {'seed': i, 'save': f'/ckpt/{k}/{i}', 'layers': 4})}"
        for k, side in enumerate("ab")
        for i in range(3)
    ]
    compared = perflog.compare(*sides)
    row = compared.headlines[0]
    assert (row.metric, row.base_runs, row.side_runs) == ("step_time", 3, 3)
    assert [case.name for case in compared.cases] == [""]
    varied = {(row.side, row.setting): row.values for row in compared.varied_records}
    assert varied["a", "seed"] == ("0", "1", "2")
    assert {setting for _, setting in varied} == {"seed", "save"}
    assert not len(compared.settings)  # they vary anyway, so they are no difference between the sides
    shown = CliRunner().invoke(main, ["compare", *sides, "--all"]).output
    assert "inside a: seed (3 values), save (3 values)" in shown


def test_a_setting_that_matters_parts_runs_unless_it_is_ignored(write: Write) -> None:
    a = [f"a={write(f'a{i}.json', times(i), {'buckets': i})}" for i in range(2)]
    b = f"b={write('b.json', times(7), {'buckets': 0})}"
    compared = perflog.compare(*a, b)
    assert [case.name for case in compared.cases] == ["buckets=0"]
    assert any("not compared" in text and "a1.json" in text for text in compared.warnings)
    row = perflog.compare(*a, b, ignore=["buckets"]).headlines[0]
    assert (row.base_runs, row.side_runs) == (2, 1)


def test_sides_that_disagree_in_a_setting_name_it(write: Write) -> None:
    sides = [f"{side}={write(f'{side}{i}.json', times(i), {'buckets': f'{side}{i}'})}" for side in "ab" for i in (1, 2)]
    with pytest.raises(UsageError, match="no configuration in common; they are matched by buckets"):
        perflog.compare(*sides)
    assert len(perflog.compare(*sides, ignore=["buckets"]).cases) == 1
    assert CliRunner().invoke(main, ["compare", *sides, "--ignore", "buckets"]).exit_code == 0


def test_runs_match_by_an_incidental_setting_on_demand(write: Write) -> None:
    sides = [f"{s}={write(f'{s}{i}.json', times(9 * i + k), {'seed': i})}" for k, s in enumerate("ab") for i in (1, 2)]
    assert [case.name for case in perflog.compare(*sides).cases] == [""]
    assert [case.name for case in perflog.compare(*sides, match=["seed"]).cases] == ["seed=1", "seed=2"]
    with pytest.raises(UsageError, match="no run has a setting `colour`"):
        perflog.compare(*sides, match=["colour"])


def test_a_copy_and_a_beginning_of_a_run_are_no_repeats(write: Write) -> None:
    whole = times(1)
    sides = [
        f"a={write('whole.json', whole)}",
        f"a={write('copy.json', whole, {'seed': 3})}",
        f"a={write('beginning.json', whole[:25])}",
        f"a={write('other.json', times(2))}",
        f"b={write('b.json', times(3))}",
    ]
    compared = perflog.compare(*sides)
    row = compared.headlines[0]
    assert row.base_runs == 2
    assert [(each.side, each.label) for each in compared.left_out] == [("a", "copy.json#1"), ("a", "beginning.json#1")]
    reason = "a copy of whole.json#1, or of its beginning"
    assert f"a: not compared, {reason}: copy.json#1, beginning.json#1" in compared.warnings


def test_few_rounded_figures_may_be_the_same_by_chance(write: Write) -> None:
    repeats = [f"a={write(f'{seed}.json', [0.1], {'seed': seed})}" for seed in range(2)]
    row = perflog.compare(*repeats, f"b={write('b.json', times(3))}").headlines[0]
    assert row.base_runs == 2


def test_a_run_on_both_sides_is_a_finding(write: Write) -> None:
    log = write("a.json", times(1))
    codes = perflog.compare(f"a={log}", f"b={log}").findings["code"].tolist()
    assert "comparison-same-run" in codes


def test_a_folder_with_other_files_is_a_side(write: Write, tmp_path: Path) -> None:
    sides = []
    for k, side in enumerate(("base", "new")):
        folder = tmp_path / side
        folder.mkdir()
        for i in range(3):
            Path(write(f"{i}.json", times(10 * k + i))).rename(folder / f"{i}.json")
        (folder / "statistics.md").write_text("# Results\n\nThe new one is faster.\n", encoding="utf-8")
        sides.append(str(folder))
    compared = perflog.compare(*sides)
    assert {(row.base_runs, row.side_runs) for row in compared.headlines} == {(3, 3)}
    left_out = [text for text in compared.warnings if text.startswith("left out")]
    assert len(left_out) == 2 and "statistics.md" in left_out[0]
    with pytest.raises(InputError):
        perflog.read(f"{sides[0]}/statistics.md")  # named, not found in a folder
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("only words\n", encoding="utf-8")
    with pytest.raises(InputError):
        perflog.read(tmp_path / "notes")
