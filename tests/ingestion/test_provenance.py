"""Which commit, branch and job made a log: what is read of the environment, what a store keeps, and what it matches."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.json_logs import json_log, steady_times

import perflog
from perflog.analysis.compare import Gate, failures
from perflog.cli.main import main
from perflog.errors import UsageError
from perflog.provenance import SYSTEMS, parse_tags, provenance
from perflog.settings.run_settings import settings_of
from perflog.tables.store import Store

SHA = "865bd25d00aabbccddeeff001122334455667788"

ENVIRONMENTS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "GitHub, pull request": (
        {
            "GITHUB_ACTIONS": "true", "GITHUB_SHA": SHA, "GITHUB_REF": "refs/pull/17/merge",
            "GITHUB_HEAD_REF": "faster", "GITHUB_REF_NAME": "17/merge", "GITHUB_JOB": "bench", "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "99", "RUNNER_NAME": "gpu-1", "GITHUB_TOKEN": "secret",
        },
        {
            "commit": SHA, "branch": "faster", "pull_request": "17", "ci_job": "bench",
            "ci_url": "https://github.com/a/b/actions/runs/99", "runner": "gpu-1",
        },
    ),
    "GitHub, branch": (
        {"GITHUB_ACTIONS": "true", "GITHUB_SHA": SHA, "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main",
         "GITHUB_HEAD_REF": "", "GITHUB_SERVER_URL": "https://github.com"},
        {"commit": SHA, "branch": "main"},
    ),
    "GitLab": (
        {
            "GITLAB_CI": "true", "CI_COMMIT_SHA": SHA, "CI_COMMIT_REF_NAME": "main", "CI_MERGE_REQUEST_IID": "4",
            "CI_COMMIT_TIMESTAMP": "2026-01-05T10:00:00+01:00", "CI_JOB_NAME": "bench", "CI_JOB_TOKEN": "secret",
            "CI_JOB_URL": "https://user:secret@gitlab.com/a/b/-/jobs/5",
        },
        {
            "commit": SHA, "branch": "main", "pull_request": "4", "commit_date": "2026-01-05T10:00:00+01:00",
            "ci_job": "bench", "ci_url": "https://gitlab.com/a/b/-/jobs/5",
        },
    ),
    "Jenkins": (
        {"JENKINS_URL": "https://ci", "GIT_COMMIT": SHA, "GIT_BRANCH": "origin/main", "JOB_NAME": "bench",
         "BUILD_URL": "https://ci/job/bench/5/", "NODE_NAME": "node-3", "JENKINS_PASSWORD": "secret"},
        {"commit": SHA, "branch": "origin/main", "ci_job": "bench", "ci_url": "https://ci/job/bench/5/",
         "runner": "node-3"},
    ),
    "Buildkite": (
        {"BUILDKITE": "true", "BUILDKITE_COMMIT": "HEAD", "BUILDKITE_BRANCH": "main", "BUILDKITE_PULL_REQUEST": "false",
         "BUILDKITE_PIPELINE_SLUG": "bench", "BUILDKITE_AGENT_ACCESS_TOKEN": "secret"},
        {"branch": "main", "ci_job": "bench"},
    ),
    "Slurm": (
        {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train", "SLURMD_NODENAME": "node018"},
        {"slurm_job": "4711", "slurm_job_name": "train", "host": "node018"},
    ),
    "none": ({"GITHUB_SHA": SHA, "HOSTNAME": "laptop", "USER": "me"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("system", ENVIRONMENTS)
def test_what_an_environment_tells(system: str) -> None:
    environment, known = ENVIRONMENTS[system]
    assert provenance(environment=environment) == known
    assert provenance({"branch": "mine"}, environment) == known | {"branch": "mine"}


def test_a_branch_of_a_fork_is_not_that_of_the_repository(tmp_path: Path) -> None:
    """`branch = main` chooses no run of a stranger."""
    event = tmp_path / "event.json"
    known = {"GITHUB_ACTIONS": "true", "GITHUB_HEAD_REF": "main", "GITHUB_REPOSITORY": "a/b"}
    known["GITHUB_EVENT_PATH"] = str(event)
    for repository, branch in (({"full_name": "c/b"}, "c/b:main"), ({"full_name": "a/b"}, "main"),
                               (None, "deleted fork:main")):  # fmt: skip
        event.write_text(json.dumps({"pull_request": {"head": {"repo": repository}}}))
        assert provenance(environment=known)["branch"] == branch
    event.write_text("[]")
    assert provenance(environment=known)["branch"] == "main"
    gitlab = {"GITLAB_CI": "true", "CI_COMMIT_REF_NAME": "main", "CI_MERGE_REQUEST_PROJECT_PATH": "a/b"}
    assert provenance(environment=gitlab)["branch"] == "main"
    assert provenance(environment=gitlab | {"CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "c/b"})["branch"] == "c/b:main"
    assert provenance(environment=gitlab | {"CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "a/b"})["branch"] == "main"
    jenkins = {"JENKINS_URL": "x", "CHANGE_FORK": "c", "CHANGE_BRANCH": "main"}
    assert provenance(environment=jenkins)["branch"] == "c:main"
    assert provenance(environment={"JENKINS_URL": "x", "GIT_BRANCH": "origin/main", "GIT_LOCAL_BRANCH": "main"}) == {
        "branch": "main"
    }


def test_the_event_of_a_push_tells_the_date_of_its_commit(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    known = {"GITHUB_ACTIONS": "true", "GITHUB_SHA": SHA, "GITHUB_EVENT_PATH": str(event)}
    for commit, date, is_told in ((SHA, "2026-01-05T10:00:00+01:00", True), (SHA, "yesterday", False),
                                  ("0" * 40, "2026-01-05T10:00:00Z", False)):  # fmt: skip
        event.write_text(json.dumps({"head_commit": {"id": commit, "timestamp": date}}))
        assert provenance(environment=known) == {"commit": SHA} | ({"commit_date": date} if is_told else {})


def test_no_variable_that_is_read_is_a_secret() -> None:
    names = {name for of in SYSTEMS.values() for sources in of.values() for name in sources} | set(SYSTEMS)
    assert not [name for name in names if any(word in name for word in ("TOKEN", "SECRET", "PASS", "KEY", "AUTH"))]


def test_the_date_of_a_commit_is_that_of_its_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where the current folder is at the commit that the CI system names."""
    monkeypatch.chdir(tmp_path)

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "train.py").write_text("1")
    git("add", "train.py")
    git("commit", "-q", "-m", "first", "--date", "2026-01-05T10:00:00+00:00")
    head = git("rev-parse", "HEAD")
    known = provenance(environment={"GITHUB_ACTIONS": "true", "GITHUB_SHA": head})
    assert known["dirty"] == "no" and known["commit_date"] == git("show", "-s", "--format=%cI", "HEAD")
    (tmp_path / "train.py").write_text("2")
    assert provenance(environment={"GITHUB_ACTIONS": "true", "GITHUB_SHA": head})["dirty"] == "yes"
    assert provenance(environment={"GITHUB_ACTIONS": "true", "GITHUB_SHA": SHA}) == {"commit": SHA}
    assert provenance(environment={}) == {}


@pytest.mark.parametrize("text", ["gpu", "=x", "gpu=", "1a=b", "a b=c"])
def test_what_is_no_tag(text: str) -> None:
    with pytest.raises(UsageError, match="KEY=VALUE"):
        parse_tags([text])


def made(log: perflog.Log) -> set[str | None]:
    return {row["provenance"] for row in log.arrow("runs").to_pylist()}


def test_a_store_keeps_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the log is ingested again elsewhere, and when the store is made smaller; tags are added."""
    folder, store = tmp_path / "runs", tmp_path / "store"
    folder.mkdir()
    for k in range(3):
        json_log(folder / f"{k}.json", steady_times(k))
    for name, value in ENVIRONMENTS["GitHub, pull request"][0].items():
        monkeypatch.setenv(name, value)
    first = made(perflog.ingest(folder, store=store))
    assert [json.loads(text or "{}") for text in first] == [ENVIRONMENTS["GitHub, pull request"][1]]
    for name in ENVIRONMENTS["GitHub, pull request"][0]:
        monkeypatch.delenv(name)
    assert made(perflog.ingest(folder, store=store)) == first
    done = CliRunner().invoke(main, ["ingest", str(folder / "1.json"), "--store", str(store), "--tag", "image=v2"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["compact", "--store", str(store)]).exit_code == 0
    of_logs = sorted(map(dict, Store(store).provenance().values()), key=len)
    assert of_logs[0] == of_logs[1] == ENVIRONMENTS["GitHub, pull request"][1]
    assert of_logs[2] == of_logs[0] | {"image": "v2"}
    assert not any(b"secret" in file.read_bytes() for file in store.rglob("*") if file.is_file())
    assert made(perflog.read(folder)) == {None}


def test_a_commit_is_incidental_and_a_gpu_is_not(tmp_path: Path) -> None:
    tags = [
        ("main", "1", {"commit": SHA, "branch": "main", "host": "a", "gpu_name": "NVIDIA H100 80GB HBM3"}),
        ("main", "2", {"commit": SHA[::-1], "branch": "main", "host": "b", "gpu_name": "NVIDIA H100 80GB HBM3"}),
        ("same", "3", {"commit": SHA, "branch": "pr", "host": "b", "gpu_name": "NVIDIA H100 80GB HBM3"}),
        ("other", "4", {"commit": SHA, "branch": "pr", "host": "b", "gpu_name": "NVIDIA H200"}),
    ]
    for side, name, of_run in tags:
        (tmp_path / side).mkdir(exist_ok=True)
        path = json_log(tmp_path / side / f"{name}.json", steady_times(int(name)))
        perflog.ingest(path, store=tmp_path / "store", label=side, tags=of_run)
    log = perflog.load(tmp_path / "store")
    main_runs, same, other = (log.select(*log.match(side)) for side in ("main", "same", "other"))
    assert [len(runs) for runs in perflog.compare(main_runs, same).cases[0].runs] == [2, 1]
    assert not perflog.compare(main_runs, same).other_settings
    compared = perflog.compare(main_runs, other)
    assert [each.setting for each in compared.other_settings] == ["gpu_name"]
    assert {each.kind for each in failures(compared, [Gate()])} == {"cannot judge"}
    assert settings_of(other.arrow("runs").to_pylist()[0])["gpu_name"] == "NVIDIA H200"
