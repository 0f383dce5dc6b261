"""`perflog regenerate`: what is listed, refused, counted, kept and told. Most runs are played from sample logs."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.paths import ROOT, TESTS
from support.trainer_ranks import ForkedRanks

from perflog.cli.main import main
from perflog.errors import UsageError
from perflog.formats.registry import get
from perflog.opening import load, reference
from perflog.trainer import regenerate
from perflog.trainer.launch import LaunchError, RankOptions
from perflog.trainer.regenerate import StepCounter, make_plan

DATA = TESTS / "data"
RECIPES = ["kernels", "moe-layer", "pipeline", "sweep"]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """Lets a sample log stand for what the ranks print; gives the commands that were started."""

    def play(name: str) -> list[Any]:
        started: list[Any] = []

        def launch(program: Sequence[str], ranks: RankOptions, log: Path, *_: object) -> None:
            started.append((list(program), ranks))
            shutil.copyfile(DATA / name, log)

        monkeypatch.setattr(regenerate, "launch", launch)
        return started

    return play


def run(*args: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["regenerate", *map(str, args)], prog_name="perflog")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


# --- before anything runs -----------------------------------------------------------------------------------------


def test_without_a_recipe_all_are_listed() -> None:
    rows = json.loads(run("--format", "json").stdout)["rows"]
    assert [row["recipe"] for row in rows] == RECIPES
    formats = {row["like"] for row in rows}
    assert formats <= {row["format"] for row in reference().arrow("runs").to_pylist()}
    assert "One mixture-of-experts layer" in run().stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["moe-lair"], "did you mean `moe-layer`"),
        (["moe-layer", "sweep"], "`sweep` is another"),
        (["moe-layer", "--preset", "papers"], "no preset `papers`"),
        (["kernels", "--dialect", "original"], "no original dialect"),
        (["sweep", "--trace", "t.json"], "writes no trace"),
        (["pipeline", "--ranks", "100"], "do not fit|stages"),
        (["moe-layer", "--steps", "0"], "0 is not in the range"),
        (["moe-layer", "--device", "tpu"], "'tpu' is not one of"),
    ],
)
def test_what_is_asked_wrongly_starts_nothing(args: list[str], said: str, played: Any) -> None:
    started = played("moe_layer.txt")
    error = run(*args, code=2).stderr
    assert any(word in error for word in said.split("|")), error
    assert started == []


def test_a_log_is_not_overwritten(work: Path, played: Any) -> None:
    played("moe_layer.txt")
    (work / "mine.log").write_text("precious\n")
    assert "this log exists already" in run("moe-layer", "--log", "mine.log", code=2).stderr
    assert (work / "mine.log").read_text() == "precious\n"


def test_the_trainer_gets_what_was_asked(played: Any) -> None:
    started = played("moe_layer.txt")
    asked = "--ranks 3 --device cpu --dtype bfloat16 --steps 7 --seed 2 --scale 0.5 --dialect original --timeout 9"
    run("moe-layer", *asked.split(), "--set", "top_k=1", "--set", "overlap=2", "--", "--nnodes", "2")
    ((program, ranks),) = started
    want = "-m perflog.trainer moe-layer --preset default --device cpu --dtype bfloat16 --steps 7 --seed 2 --scale 0.5"
    assert program == [*want.split(), "--dialect", "original", "--set", "top_k=1", "--set", "overlap=2"]
    assert ranks == RankOptions(3, ("--nnodes", "2"), 9.0)


def test_the_presets_ranks_are_the_default() -> None:
    assert make_plan("moe-layer").ranks.count == 2
    assert make_plan("moe-layer", "paper").ranks.count == 4
    assert len(make_plan("sweep").specs) == 9


def test_only_unscaled_paper_sizes_are_those_of_the_bundled_runs() -> None:
    assert make_plan("moe-layer", "paper").full
    assert not make_plan("moe-layer", "paper", scale=0.5).full
    assert not make_plan("moe-layer").full


# --- while it runs ------------------------------------------------------------------------------------------------


def test_steps_are_counted_over_all_runs() -> None:
    """Three runs of 20 steps, in lines written by the trainer's own format; ranks and other lines do not count."""
    lines = {line.name: line for line in get("reference").lines if line.read}
    begin, step = lines["begin"], lines["step"]
    values = begin.template.match(begin.samples[0]), step.template.match(step.samples[0])
    assert values[0] is not None
    assert values[1] is not None
    told: list[int] = []
    steps = StepCounter(make_plan("moe-layer").specs, told.append)
    assert steps.total == 60
    for place in (1, 2, 3):
        steps(begin.template.render({"_": "", **values[0], "place": place, "places": 3}))
        for number in range(20):
            for rank in (0, 1):
                steps(step.template.render({"_": "", **values[1], "step": number, "rank": rank}))
            steps("something else")
    assert told == list(range(1, 61))


def test_steps_are_counted_in_the_original_dialect_too() -> None:
    told: list[int] = []
    steps = StepCounter(make_plan("moe-layer", steps=4).specs, told.append)
    for line in (DATA / "moe_layer.txt").read_text().splitlines():
        steps(line)
    assert told == [1, 2, 3, 4]


def test_an_interrupt_tells_where_the_log_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(_: object, ranks: object, log: Path, *__: object) -> None:
        log.write_text("begun\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(regenerate, "launch", launch)
    assert "their output is in mine.log" in run("moe-layer", "--log", "mine.log", code=130).stderr
    assert Path("mine.log").read_text() == "begun\n"
    assert not Path(".perflog").exists()


def test_ranks_that_fail_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*_: object) -> None:
        raise LaunchError("rank 1 was killed by SIGKILL", "mine.log", "last lines:")

    monkeypatch.setattr(regenerate, "launch", launch)
    assert run("moe-layer", code=3).stderr == "perflog: mine.log: rank 1 was killed by SIGKILL\nlast lines:\n"
    assert not Path(".perflog").exists()


# --- when it has run ----------------------------------------------------------------------------------------------


def test_the_log_is_stored_and_held_against_the_bundled_run(played: Any) -> None:
    """The sample is the begin of the bundled log's first run: four steps of it."""
    played("moe_layer.txt")
    out = run("moe-layer", "--preset", "paper", "--log", "mine.log", "--store", "here").stdout
    (member,) = load("here").run_keys
    assert "0 unread" in out
    assert member.id in out
    assert "reference:moe_layer.txt#1" in out
    assert f"perflog compare --store here 'reference:moe_layer.txt#1' {member.id}" in out
    assert "another size" not in out


def test_each_run_stands_beside_the_one_that_is_most_like_it(played: Any) -> None:
    played("training_sweep.txt")
    rows = json.loads(run("sweep", "--format", "json").stdout)["runs"]
    assert [row["reference"] for row in rows] == ["reference:training_sweep.txt#1", "reference:training_sweep.txt#2"]
    assert [row["measure"] for row in rows] == ["step_time", "step_time"]


def own(recipe: str) -> str:
    """A log of the reference trainer that comes with perflog."""
    packed = ROOT / "reference_runs" / "trainer" / f"{recipe}.cpu.log.gz"
    return gzip.decompress(packed.read_bytes()).decode()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_stands_beside_that_of_its_recipe_on_the_same_kind_of_device(
    recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = own(recipe).partition("end of run 3 of 9")[0]  # of nine runs three will do
    monkeypatch.setattr(regenerate, "launch", lambda _, __, log, *___: log.write_text(text))
    said = json.loads(run(recipe, "--format", "json").stdout)
    rows = said["runs"]
    assert [row["reference"] for row in rows] == [f"reference:{recipe}.cpu.log#{n + 1}" for n in range(len(rows))]
    assert {row["change"] for row in rows} == {0.0}  # it is that very log
    assert "another size" not in json.dumps(said)


def test_on_another_device_a_run_stands_beside_the_original_log(monkeypatch: pytest.MonkeyPatch) -> None:
    text = own("pipeline").replace("device cpu", "device cuda")
    monkeypatch.setattr(regenerate, "launch", lambda _, __, log, *___: log.write_text(text))
    out = run("pipeline").stdout
    assert "reference:pipeline_layers.txt#1" in out
    assert "another size" in out


def test_full_sizes_stand_beside_the_original_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regenerate, "launch", lambda _, __, log, *___: log.write_text(own("moe-layer")))
    rows = json.loads(run("moe-layer", "--preset", "paper", "--format", "json").stdout)["runs"]
    assert {row["reference"].partition("#")[0] for row in rows} == {"reference:moe_layer.txt"}


def test_smaller_sizes_are_told(played: Any) -> None:
    played("moe_layer.txt")
    assert "its model is of another size" in run("moe-layer").stdout


def test_a_kind_without_a_bundled_run_is_told(played: Any) -> None:
    played("moe_layer.txt")
    out = run("kernels").stdout
    assert "no bundled run has a metric in common with it" in out
    assert "change: this run" not in out


@pytest.mark.parametrize(
    ("name", "recipe", "sample"),
    [("report.html", "moe-layer", "moe_layer"), ("report.md", "pipeline", "pipeline_layers")],
)
def test_a_report(name: str, recipe: str, sample: str, played: Any) -> None:
    played(f"{sample}.txt")
    assert run(recipe, "--report", name).stdout.endswith(f"{name}\n")
    text = Path(name).read_text()
    assert text.startswith("<!" if name.endswith("html") else "#")
    assert sample in text


def test_the_log_has_a_name_of_its_own(work: Path, played: Any) -> None:
    played("moe_layer.txt")
    run("moe-layer")
    (log,) = work.glob("moe-layer-*.log")
    assert log.read_bytes() == (DATA / "moe_layer.txt").read_bytes()


def test_a_log_in_which_nothing_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regenerate, "launch", lambda _, __, log, *___: log.write_text("what is this\n"))
    assert "mine.log: nothing in it is recognised" in run("moe-layer", "--log", "mine.log", code=3).stderr


def test_a_plan_needs_a_recipe() -> None:
    with pytest.raises(UsageError, match="there is no recipe"):
        make_plan("none")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_and_every_line_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torchrun starts one of them; the others are forked, because a start of PyTorch takes longer than they do."""
    if name != "kernels":

        def start(program: Sequence[str], _: RankOptions, log: Path, *__: object) -> None:
            assert program[0] == "-m"
            assert program[1] == "perflog.trainer"
            batch = json.dumps([(str(log.resolve()), program[2:])])
            ForkedRanks(1, log, str(TESTS / "support" / "trainer_batch.py"), "wall", batch).end()

        monkeypatch.setattr(regenerate, "launch", start)
    args = "--ranks 1 --steps 2 --scale 0.25 --device cpu --log mine.log --format json".split()
    said = json.loads(run(name, *args).stdout)
    (read,) = (value for key, value in said.items() if "lines" in str(value) and key not in ("runs", "next"))
    assert " 0 unread" in json.dumps(read)
    assert load().line_account["unread"] == 0
    assert {r["run"] for r in said["runs"]} == {r.id for r in load().run_keys}
