"""What the environment of a CI system says of the job that runs: the pull request, whether it is of the main branch.

Of the event of GitHub Actions, which strangers can write, only numbers and the name of the default branch are taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern
from perflog.provenance import github_event, provenance

_NUMBER = lazy_pattern(r"[0-9]{1,18}")
_OF_REQUEST = "pull_request"  # events of pull requests begin with it


class Job(Struct, frozen=True):
    """The job of a CI system that runs now.

    Attributes:
        system: The system; empty if perflog cannot write comments there.
        request: The number of the pull request or merge request; empty without one.
        is_main: Whether the job runs on the default branch, for no pull request.
        commit: The commit; empty if not known.
        address: The page of the job; empty if not known.
    """

    system: Literal["github", "gitlab", ""] = ""
    request: str = ""
    is_main: bool = False
    commit: str = ""
    address: str = ""


def this_job(environment: Mapping[str, str] | None = None) -> Job:
    """Return the job that runs now, as the environment describes it."""
    variables = os.environ if environment is None else environment
    known = provenance(environment=variables)
    commit, address = known.get("commit", ""), known.get("ci_url", "")
    if variables.get("GITHUB_ACTIONS"):
        event = github_event(variables)
        return Job("github", _request(event, variables), _is_main(event, variables), commit, address)
    if variables.get("GITLAB_CI"):
        number = variables.get("CI_MERGE_REQUEST_IID", "")
        branch = variables.get("CI_COMMIT_BRANCH", "")  # not set for a merge request
        is_main = bool(branch) and branch == variables.get("CI_DEFAULT_BRANCH")
        return Job("gitlab", number if _NUMBER.fullmatch(number) else "", is_main, commit, address)
    return Job(commit=commit, address=address)


def _request(event: Mapping[str, object], variables: Mapping[str, str]) -> str:
    """The number of the pull request: of the event, or of the ref that is checked out."""
    request = event.get("pull_request")
    number = request.get("number") if isinstance(request, dict) else None
    if isinstance(number, int) and not isinstance(number, bool) and number > 0:
        return str(number)
    pull = re.fullmatch(r"refs/pull/([0-9]+)/(?:merge|head)", variables.get("GITHUB_REF", ""))
    return pull[1] if pull else ""


def _is_main(event: Mapping[str, object], variables: Mapping[str, str]) -> bool:
    name = variables.get("GITHUB_EVENT_NAME", "")
    if not name or name.startswith(_OF_REQUEST) or event.get("pull_request"):
        return False
    if name == "schedule":
        return True  # runs on the default branch only
    repository = event.get("repository")
    branch = repository.get("default_branch") if isinstance(repository, dict) else None
    return isinstance(branch, str) and variables.get("GITHUB_REF") == f"refs/heads/{branch}"
