"""Provenance of runs: the commit, branch and job that made a log, as far as the environment of `ingest` shows.

Only the variables in `SYSTEMS` are read, which are no secrets, and what shows that a pull request comes from a
fork. Of the event of GitHub Actions the fork and the date of the commit are taken. A checkout says of a log only what
the job of a CI system confirms: the folder may have moved on since the log was written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from perflog.errors import UsageError
from perflog.lazy_patterns import lazy_pattern

SYSTEMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "GITHUB_ACTIONS": {
        "commit": ("GITHUB_SHA",),
        "branch": ("GITHUB_HEAD_REF", "GITHUB_REF_NAME"),
        "pull_request": ("GITHUB_REF",),
        "ci_job": ("GITHUB_JOB",),
        "ci_url": ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"),
        "runner": ("RUNNER_NAME",),
    },
    "GITLAB_CI": {
        "commit": ("CI_COMMIT_SHA",),
        "branch": ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"),
        "commit_date": ("CI_COMMIT_TIMESTAMP",),
        "pull_request": ("CI_MERGE_REQUEST_IID",),
        "ci_job": ("CI_JOB_NAME",),
        "ci_url": ("CI_JOB_URL",),
        "runner": ("CI_RUNNER_DESCRIPTION",),
    },
    "JENKINS_URL": {
        "commit": ("GIT_COMMIT",),
        "branch": ("CHANGE_BRANCH", "BRANCH_NAME", "GIT_LOCAL_BRANCH", "GIT_BRANCH"),
        "pull_request": ("CHANGE_ID",),
        "ci_job": ("JOB_NAME",),
        "ci_url": ("BUILD_URL",),
        "runner": ("NODE_NAME",),
    },
    "BUILDKITE": {
        "commit": ("BUILDKITE_COMMIT",),
        "branch": ("BUILDKITE_BRANCH",),
        "pull_request": ("BUILDKITE_PULL_REQUEST",),
        "ci_job": ("BUILDKITE_PIPELINE_SLUG",),
        "ci_url": ("BUILDKITE_BUILD_URL",),
        "runner": ("BUILDKITE_AGENT_NAME",),
    },
    "SLURM_JOB_ID": {
        "slurm_job": ("SLURM_JOB_ID",),
        "slurm_job_name": ("SLURM_JOB_NAME",),
        "host": ("SLURMD_NODENAME",),
    },
}
"""By the variable that shows that a system runs, the variables of each name. The first variable that is set counts.

`ci_url` of GitHub is made of all three.
"""

_HASH = lazy_pattern(r"[0-9a-f]{7,64}")
_USER = lazy_pattern(r"//[^/@\s]*@")  # of an address: it may hold a password
_DATE = lazy_pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)")
_TAG = lazy_pattern(r"[A-Za-z_][\w.-]*")


def provenance(tags: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what is known of where logs come from that are ingested now, by name; tags come before the environment.

    Args:
        tags: What the caller says.
        environment: Variables. Default: the environment of this process.
    """
    variables = os.environ if environment is None else environment
    known: dict[str, str] = {}
    for shows, variables_by_name in SYSTEMS.items():
        if variables.get(shows):
            fork = _fork(shows, variables)
            for name, sources in variables_by_name.items():
                values = [value for source in sources if (value := variables.get(source, "").strip())]
                found = _value(name, values, len(sources))
                if found is not None:
                    known.setdefault(name, f"{fork}:{found}" if fork and name == "branch" else found)
    if "commit" in known:
        known |= _of_event(variables, known["commit"])
        known |= _checkout(known["commit"])
    return known | dict(tags or {})


def github_event(variables: Mapping[str, str]) -> Mapping[str, object]:
    """Return the event that started a workflow of GitHub Actions; empty if it cannot be read."""
    try:
        event = json.loads(Path(variables["GITHUB_EVENT_PATH"]).read_bytes())
    except (KeyError, OSError, ValueError):
        return {}
    return event if isinstance(event, dict) else {}


def _of_event(variables: Mapping[str, str], commit: str) -> dict[str, str]:
    """The date of a commit that was pushed, if the event of GitHub Actions states it."""
    head = github_event(variables).get("head_commit") if variables.get("GITHUB_ACTIONS") else None
    date = head.get("timestamp") if isinstance(head, dict) and head.get("id") == commit else None
    return {"commit_date": date} if isinstance(date, str) and _DATE.fullmatch(date) else {}


def _fork(shows: str, variables: Mapping[str, str]) -> str:
    """The fork that a pull request comes from; empty if it comes from the repository itself, or if nothing states it.

    A branch `main` of a fork is not the branch `main` of the repository.
    """
    if shows == "GITLAB_CI":
        source = variables.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", "")
        return source if source != variables.get("CI_MERGE_REQUEST_PROJECT_PATH", source) else ""
    if shows == "JENKINS_URL":
        return variables.get("CHANGE_FORK", "")
    if shows != "GITHUB_ACTIONS" or not variables.get("GITHUB_HEAD_REF"):
        return ""
    member: Any = github_event(variables)
    for name in ("pull_request", "head", "repo", "full_name"):
        if not isinstance(member, dict) or name not in member:
            return ""
        member = member[name]
        if member is None:
            return "deleted fork"
    return member if isinstance(member, str) and member != variables.get("GITHUB_REPOSITORY") else ""


def parse_tags(texts: Iterable[str]) -> dict[str, str]:
    """Return tags from `KEY=VALUE`. Raises UsageError for something else."""
    tags: dict[str, str] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not value or not _TAG.fullmatch(name):
            raise UsageError(
                "a tag must be KEY=VALUE", text, "a key begins with a letter: --tag gpu_name='NVIDIA H200'"
            )
        tags[name] = value
    return tags


def _value(name: str, values: list[str], source_count: int) -> str | None:
    """The value of a name, from the variables that are set, of `source_count` that may be; None if they state none."""
    if not values:
        return None
    first = values[0]
    if name == "commit":
        return first if _HASH.fullmatch(first) else None  # Buildkite's may be HEAD
    if name == "pull_request":
        number = re.fullmatch(r"(?:refs/pull/)?([0-9]+)(?:/(?:merge|head))?", first)
        return number[1] if number else None
    if name == "ci_url":
        address = f"{first}/{values[1]}/actions/runs/{values[2]}" if source_count == len(values) == 3 else first
        return _USER.sub("//", address) if source_count in (1, len(values)) else None
    return first


def _checkout(commit: str) -> dict[str, str]:
    """The date of a commit, and whether files differ from it, where the current folder is a checkout of it."""
    head = _git("show", "--no-patch", "--format=%H %cI", "HEAD")
    if head is None or not head.startswith(commit):
        return {}
    changed = _git("status", "--porcelain", "--untracked-files=no")
    dirty = {} if changed is None else {"dirty": "yes" if changed else "no"}
    return {"commit_date": head.split()[1], **dirty}


def _git(*words: str) -> str | None:
    import subprocess

    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def as_json(known: Mapping[str, str]) -> str | None:
    """Return provenance as a store holds it; None where nothing is known."""
    return json.dumps(dict(sorted(known.items())), ensure_ascii=False) if known else None
