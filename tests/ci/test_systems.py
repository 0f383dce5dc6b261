"""What the environment says of the job that runs, and what strangers cannot say in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perflog.ci.systems import Job, this_job

MAIN = {"repository": {"default_branch": "main"}}


def on_github(tmp_path: Path, event: Any, **variables: str) -> Job:
    (tmp_path / "event.json").write_text(json.dumps(event))
    return this_job({"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(tmp_path / "event.json"), **variables})


@pytest.mark.parametrize(
    ("event", "ref", "request_number"),
    [
        ({"pull_request": {"number": 12}}, "", "12"),
        ({"pull_request": {"number": 12}}, "refs/pull/34/merge", "12"),
        ({"pull_request": {"number": "12"}}, "", ""),
        ({"pull_request": {"number": True}}, "", ""),
        ({"pull_request": {"number": 0}}, "", ""),
        ({"pull_request": {"number": -1}}, "", ""),
        ({"pull_request": 12}, "", ""),
        ({}, "refs/pull/34/merge", "34"),
        ({}, "refs/pull/34/head", "34"),
        ({}, "refs/pull/34/other", ""),
        ({}, "refs/pull/x/merge", ""),
        ({}, "refs/heads/main", ""),
    ],
)
def test_the_pull_request(tmp_path: Path, event: Any, ref: str, request_number: str) -> None:
    job = on_github(tmp_path, event, GITHUB_REF=ref, GITHUB_EVENT_NAME="pull_request")
    assert (job.system, job.request, job.is_main) == ("github", request_number, False)


@pytest.mark.parametrize(
    ("name", "event", "ref", "is_main"),
    [
        ("push", MAIN, "refs/heads/main", True),
        ("push", MAIN, "refs/heads/other", False),
        ("push", MAIN, "refs/tags/main", False),
        ("push", {}, "refs/heads/main", False),
        ("push", {"repository": {"default_branch": None}}, "refs/heads/None", False),
        ("push", {"repository": "main"}, "refs/heads/main", False),
        ("schedule", {}, "refs/heads/other", True),
        ("pull_request_target", MAIN, "refs/heads/main", False),
        ("workflow_run", MAIN | {"pull_request": {"number": 1}}, "refs/heads/main", False),
        ("", MAIN, "refs/heads/main", False),
    ],
)
def test_the_main_branch(tmp_path: Path, name: str, event: Any, ref: str, is_main: bool) -> None:
    assert on_github(tmp_path, event, GITHUB_EVENT_NAME=name, GITHUB_REF=ref).is_main == is_main


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({"CI_MERGE_REQUEST_IID": "7"}, ("7", False)),
        ({"CI_MERGE_REQUEST_IID": "7x"}, ("", False)),
        ({"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}, ("", True)),
        ({"CI_COMMIT_BRANCH": "other", "CI_DEFAULT_BRANCH": "main"}, ("", False)),
        ({"CI_COMMIT_BRANCH": "", "CI_DEFAULT_BRANCH": ""}, ("", False)),
        ({}, ("", False)),
    ],
)
def test_a_job_of_gitlab(variables: dict[str, str], job: tuple[str, bool]) -> None:
    found = this_job({"GITLAB_CI": "true", "CI_COMMIT_SHA": "abc", **variables})
    assert (found.system, found.request, found.is_main) == ("gitlab", *job)


def test_another_system() -> None:
    assert this_job({}).system == "" and this_job({"CI": "true", "CI_MERGE_REQUEST_IID": "7"}).request == ""
