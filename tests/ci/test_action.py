"""The steps of action.yml, run by bash with made events, against a server that plays the API of GitHub."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.action_runner import Ran, Runner
from support.comment_server import TOKEN, CommentServer, comment_server
from support.forked_commands import perflog_program
from support.gate_logs import MARKUP, change, night
from support.paths import ROOT

yaml = pytest.importorskip("yaml")

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
REPOSITORY = {"default_branch": "main"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with perflog_program(tmp_path_factory.mktemp("program")) as path:
        yield path


@pytest.fixture
def server() -> Iterator[CommentServer]:
    with comment_server() as running:
        yield running


@pytest.fixture
def runner(tmp_path: Path, program: Path, server: CommentServer) -> Runner:
    return Runner(tmp_path, program, server.address)


def of_main(runner: Runner, **inputs: str) -> Ran:
    head = {"id": runner.commit, "timestamp": f"2026-01-{runner.runs + 1:02}T10:00:00Z"}
    content = {"repository": REPOSITORY, "head_commit": head}
    return runner.run("push", "refs/heads/main", content, artifact="false", **inputs)


def of_request(runner: Runner, **inputs: str) -> Ran:
    content = {"pull_request": {"number": 7}, "repository": REPOSITORY}
    return runner.run("pull_request", "refs/pull/7/merge", content, **{"artifact": "false", **inputs})


def with_nights(runner: Runner, **inputs: str) -> Ran:
    """Two nights of the main branch: the first makes the baseline, and is red for that."""
    for k in range(2):
        night(runner.workspace / f"night{k}", k)
        ran = of_main(runner, logs=f"night{k}", **inputs)
        assert (ran.code, ran.outputs["outcome"]) == ((0, "passed") if k else (3, "no baseline")), ran.printed
    return ran


def test_a_pull_request_from_the_first_run_to_the_repaired_one(runner: Runner, server: CommentServer) -> None:
    tracked = with_nights(runner, track="true")
    assert "| 4 runs | dllogger: 2 versions, 8 are needed |" in tracked.step_summary
    assert len(runner.cache) == 2
    change(runner.workspace / "change", "slow")
    first = of_request(runner, logs="change/*.json\n", gates="regression\nstep_time:+2%")
    assert (first.code, first.outputs["exit-code"], first.outputs["outcome"]) == (1, "1", "regression")
    assert "comment created" in first.printed
    (body,) = server.bodies()
    assert "### ❌ perflog gate: a gate failed, step\\_time +1" in body.replace("step_time", "step\\_time")
    assert first.step_summary in body
    assert first.annotations[0].startswith("::error title=perflog gate%3A a gate failed::change: step_time median: +1")
    change(runner.workspace / "repaired", "same", 700)
    second = of_request(runner, logs="repaired")
    assert (second.code, second.outputs["outcome"], second.annotations) == (0, "passed", [])
    assert "comment updated" in second.printed
    (body,) = server.bodies()
    assert "### ✅ perflog gate: passed" in body
    assert len(runner.cache) == 2  # a pull request keeps nothing


@pytest.mark.parametrize(
    ("kind", "outcome", "words"),
    [
        ("crash", "ended early", "change stopped at step 9 where others reach 39"),
        ("other", "other settings", "layers 8 (baseline 4)"),
        ("vanished", "figure missing", "change does not print what all runs of the base print: loss"),
        ("nan", "diverged", "so its speed is not a result"),
    ],
)
def test_what_cannot_be_judged_is_red_and_says_why(
    nights: Runner, server: CommentServer, kind: str, outcome: str, words: str
) -> None:
    nights.api = server.address
    change(nights.workspace / kind, kind)
    ran = of_request(nights, logs=kind)
    assert (ran.code, ran.outputs["exit-code"], ran.outputs["outcome"]) == (3, "3", outcome)
    assert words in server.bodies()[0].replace("\\", "")
    assert any(line.startswith("::error") and words in line for line in ran.annotations)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Runner:
    runner = Runner(tmp_path_factory.mktemp("nights"), program, "http://127.0.0.1:9")
    with_nights(runner)
    return runner


def test_a_pull_request_from_a_fork_before_there_is_a_baseline(runner: Runner, server: CommentServer) -> None:
    """A token that only reads is told, and is no failure of its own: the exit code is that of the gate."""
    server.is_read_only = True
    change(runner.workspace / "change")
    ran = of_request(runner, logs="change")
    assert (ran.code, ran.outputs["outcome"]) == (3, "no baseline")
    assert "no comment: " in ran.printed
    assert "the token may not write comments: 403" in ran.printed
    assert "there is no baseline" in ran.step_summary
    assert server.comments == []
    assert runner.cache == {}


def test_runs_in_turns_in_one_job(runner: Runner, server: CommentServer) -> None:
    night(runner.workspace / "base", 0)
    night(runner.workspace / "new", 1)
    ran = of_request(runner, logs="new", base_logs="base\n", artifact="true", gates="regression:20%")
    assert (ran.code, ran.outputs["outcome"]) == (0, "passed")
    assert ran.artifacts == {"perflog-gate": ["page.html", "summary.md"]}
    assert not any("tore" in name for name in ran.ran)
    (body,) = server.bodies()
    assert "change against base: " in body


def test_the_store_on_a_branch(runner: Runner) -> None:
    """The branch has one commit, whoever kept the store last."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(runner.home / "o" / "r")], check=True)
    with_nights(runner, store="branch:perflog-store")
    assert runner.cache == {}
    logged = ["git", "-C", str(runner.home / "o" / "r"), "log", "--format=%an %s", "perflog-store"]
    assert subprocess.run(logged, capture_output=True, text=True, check=True).stdout == "perflog The store of perflog\n"
    change(runner.workspace / "change", "slower")
    unsure = of_request(runner, logs="change", store="branch:perflog-store", comment="false")
    assert (unsure.code, unsure.outputs["outcome"]) == (0, "passed")
    assert "### ⚠️ perflog gate: passed, step_time +3" in unsure.step_summary
    assert unsure.annotations[0].startswith("::warning title=perflog gate%3A passed::regression: step_time +3")
    lost = of_request(runner, logs="change", store="branch:a b")
    assert lost.code == 2
    assert lost.outputs["outcome"] == ""


def test_names_that_are_markup_and_commands(runner: Runner, server: CommentServer) -> None:
    change(runner.workspace / "base", "markup")
    change(runner.workspace / "new", "markup", 900)
    (runner.workspace / "new" / f"1 {MARKUP.replace('/', '')}.json").write_text("Killed\n")
    ran = of_request(runner, logs="new", base_logs="base")
    assert (ran.code, ran.outputs["outcome"]) == (3, "ended early")
    (body,) = server.bodies()
    from markdown_it import MarkdownIt

    html = MarkdownIt("gfm-like", {"linkify": False}).render(body)
    allowed = r"</?(?:h3|p|ul|li|table|thead|tbody|tr|th|td|strong|em|code|details|summary|sub)(?: style=\"[\w:-]+\")?>"
    others = re.sub(rf"{allowed}|<!-- perflog:gate -->", "", html)
    assert "<" not in others, re.findall(r"<[^>]*>?", others)
    assert not re.search(r"@\w|#\d", html)
    assert all("::no" not in line or line.startswith("::error title=perflog gate") for line in ran.annotations)
    assert [line for line in ran.annotations if not line.startswith("::error title=perflog gate")] == []


def test_what_is_not_as_it_should_be(runner: Runner) -> None:
    bad = of_request(runner, logs="x", name="a b; rm -rf")
    assert (bad.code, bad.ran) == (2, ["Install perflog"])
    nothing = of_request(runner, logs="none/*.log")
    assert (nothing.code, nothing.outputs["outcome"]) == (3, "not read")


def test_perflog_is_installed_from_the_action_with_its_pins(runner: Runner) -> None:
    change(runner.workspace / "change")
    of_request(runner, logs="change", comment="false")
    lines = runner.pip.read_text().splitlines()
    assert all(f"--constraint {ROOT}/constraints.txt" in line for line in lines)
    assert lines[0].endswith(" hatchling")
    assert lines[1].endswith(f" --no-build-isolation {ROOT}")
    runner.pip.unlink()
    of_request(runner, logs="change", comment="false", store="s3://bucket/store.zip")
    assert runner.pip.read_text().splitlines()[1].endswith(f" {ROOT}[remote]")


# --- the file -----------------------------------------------------------------------------------------------------


def test_no_expression_is_text_of_a_script() -> None:
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []
    untrusted = re.compile(r"github\.(?:event|head_ref|ref|actor)")
    assert untrusted.search((ROOT / "action.yml").read_text("utf-8")) is None


def test_only_actions_of_github_are_used() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[a-z/-]+@v\d+", name) for name in used)


def test_inputs_are_described_and_used() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    for name, each in ACTION["inputs"].items():
        assert each["description"], name
        assert "required" in each or "default" in each, name
        assert f"inputs.{name} " in text or f"inputs.{name} }}" in text, name
    assert all(step["shell"] == "bash" for step in STEPS if "run" in step)


def test_the_token_is_given_to_the_steps_that_need_it() -> None:
    having = [step["name"] for step in STEPS if "GITHUB_TOKEN" in step.get("env", {})]
    assert having == ["Restore the store", "Keep the store", "Comment on the pull request"]


def test_the_token_is_nowhere_in_what_is_kept_or_printed(runner: Runner, server: CommentServer) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(runner.home / "o" / "r")], check=True)
    night(runner.workspace / "night", 0)
    ran = of_main(runner, logs="night", store="branch:s")
    assert TOKEN not in ran.printed + ran.step_summary
    files = [path for path in (runner.workspace / ".perflog-action").rglob("*") if path.is_file()]
    assert files and all(TOKEN.encode() not in path.read_bytes() for path in files)


# --- the page of documentation ------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")
RECIPES = [yaml.safe_load(code) for code in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]


def test_recipes_use_the_action_as_it_is() -> None:
    steps = [step for recipe in RECIPES for job in recipe.get("jobs", {}).values() for step in job["steps"]]
    ours = [step for step in steps if step.get("uses", "").startswith("perflog-ml/perflog@")]
    assert len(ours) == 2
    for step in ours:
        assert set(step["with"]) <= set(ACTION["inputs"])
        assert step["if"] == "${{ !cancelled() }}"  # a crashed run has an outcome
        assert "logs" in step["with"]
    for recipe in RECIPES:
        events = recipe.get(True, {})  # YAML takes `on` for a switch
        assert "pull_request_target" not in events
        assert set(recipe.get("permissions", {}).items()) <= {("contents", "read"), ("pull-requests", "write")}


def test_the_page_has_every_outcome() -> None:
    from perflog.analysis.compare.gates import TITLES

    section = PAGE.partition("## What a job says")[2].partition("##")[0]
    assert set(re.findall(r"^\| `([a-z ]+)`", section, re.MULTILINE)) == set(TITLES)
    described = ACTION["outputs"]["outcome"]["description"]
    assert {name.strip(" .") for name in described.split(",")} == set(TITLES)


def test_commands_of_the_recipe_for_gitlab_are_commands(tmp_path: Path) -> None:
    """Bash reads the script, and perflog knows the options."""
    from perflog.cli.commands.ci import gate

    (script,) = [recipe["speed"]["script"] for recipe in RECIPES if "speed" in recipe]
    (tmp_path / "script.sh").write_text("\n".join(script))
    subprocess.run(["bash", "-n", str(tmp_path / "script.sh")], check=True)
    known = {name for option in gate.params for name in option.opts}
    assert {word for line in script if "ci gate" in line for word in line.split() if word.startswith("--")} <= known
