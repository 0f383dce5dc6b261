"""The configuration of a project: where it is found, what it sets, what wins over it, and what is wrong in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.json_logs import json_log, steady_times

import perflog
from perflog.analysis.compare import baselines
from perflog.cli import config
from perflog.cli.main import main
from perflog.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "inside")
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path / "project"


def invoke(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def shown() -> dict[str, str | None]:
    return {row["key"]: row["value"] for row in json.loads(invoke("config", "--format", "json").stdout)["keys"]}


def test_the_nearest_file_above_counts(home: Path) -> None:
    assert config.find() == config.Config()
    (home.parent / "perflog.toml").write_text('baseline = "far"\n')
    assert shown()["baseline"] == "far"
    (home / "pyproject.toml").write_text('[project]\nname = "x"\n')  # says nothing of perflog
    assert shown()["baseline"] == "far"
    (home / "pyproject.toml").write_text('[tool.perflog]\nbaseline = "near"\n[tool.perflog.gates]\nregression = "2%"\n')
    assert (shown()["baseline"], shown()["gates"]) == ("near", "regression:2%")
    (home / "perflog.toml").write_text('baseline = "file"\n')
    assert shown()["baseline"] == "file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('baselin = "main"', "unknown key `baselin`"),
        ("[gate]\nregression = true", "unknown key `gate`"),
        ("store = 3", "`store` is a string"),
        ('match = "seed"', "`match` is a list"),
        ("warmup = -1", "`warmup` is a number of steps"),
        ("warmup = true", "`warmup` is a number of steps"),
        ("threshold = 2", "`threshold` is a share"),
        ('[gates]\nstep_time = "3%"', 'write "\\+3%"'),
        ('[gates]\nregression = "+3%"', 'write true or "5%"'),
        ('[gates]\ninconclusive = "1%"', "write true"),
        ("gates = 3", "`gates` is a table"),
        ("a = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(home: Path, text: str, message: str) -> None:
    (home / "perflog.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        config.find()
    done = invoke("config")
    assert done.exit_code == 2
    assert str(home / "perflog.toml") in done.stderr
    assert invoke("compare", "-h").exit_code == 0


def test_an_unknown_key_has_the_nearest_name(home: Path) -> None:
    (home / "perflog.toml").write_text('treshold = "2%"')
    assert "did you mean `threshold`?" in invoke("config").stderr


@pytest.fixture
def project(home: Path) -> Path:
    """A project whose store has a baseline of five runs, and two new runs, of which one is slower."""
    for k, level in enumerate((0.2, 0.2004, 0.1997, 0.2002, 0.1999)):
        perflog.ingest(json_log(home / f"{k}.json", steady_times(k, level, 40), {"seed": k}), store=home / "kept")
    baselines.set_baseline("main", where="format != x", store=home / "kept")
    json_log(home / "inside" / "same.json", steady_times(50, 0.2, 40), {"seed": 50})
    json_log(home / "inside" / "slow.json", steady_times(60, 0.22, 40), {"seed": 60})
    (home / "perflog.toml").write_text('store = "kept"\nbaseline = "main"\n[gates]\nregression = "2%"\n')
    return home


def test_the_store_is_beside_the_file_and_the_environment_wins(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(invoke("runs", "--format", "csv").stdout.splitlines()) == 1 + 5
    assert "PERFLOG_STORE" not in os.environ
    assert shown()["store"] == os.path.join("..", "kept")
    monkeypatch.setenv("PERFLOG_STORE", "elsewhere")
    assert invoke("runs").exit_code == 3
    assert invoke("runs", "--store", "../kept").exit_code == 0


def test_gates_and_baseline_are_defaults(project: Path) -> None:
    assert invoke("compare", "same.json").exit_code == 0
    assert invoke("compare", "slow.json").exit_code == 1
    assert invoke("compare", "slow.json", "--gate", "regression:20%").exit_code == 0  # the command line wins


def test_the_baseline_is_for_a_side_that_is_alone(project: Path) -> None:
    both = json.loads(invoke("compare", "same.json", "slow.json", "--format", "json").stdout)
    assert both["sides"] == ["same.json", "slow.json"]
    one = json.loads(invoke("compare", "new=same.json", "new=slow.json", "--format", "json").stdout)
    assert one["sides"] == ["main", "new"]


def test_the_threshold_and_lists(project: Path) -> None:
    (project / "perflog.toml").write_text(
        'store = "kept"\nbaseline = "main"\nthreshold = "30%"\nwarmup = 3\n'
        'require = ["accuracy"]\nhistory = ["0.json"]\n'
    )
    done = invoke("compare", "slow.json", "--format", "json")
    document = json.loads(done.stdout)
    assert document["rule"]["threshold"] == 0.3
    assert [case["warmup"] for case in document["cases"]] == [3]
    assert [gate["gate"] for gate in document["gates"]] == ["--require accuracy"]
    assert done.exit_code == 3
    assert config.find().defaults()["compare"]["history"] == [os.path.join("..", "0.json")]
    assert config.find().defaults()["aa"] == {"threshold": "30%", "warmup": 3}
