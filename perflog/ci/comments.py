"""One comment on a pull request of GitHub or a merge request of GitLab, which is made once and then updated.

The own comment begins with a marker that readers do not see, and its author is the one that the token writes as: others
may copy the marker. https://docs.github.com/rest/issues/comments, https://docs.gitlab.com/api/notes/
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from time import sleep
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from msgspec import Struct

from perflog.ci.systems import Job, this_job
from perflog.errors import PerflogError, UsageError
from perflog.lazy_patterns import lazy_pattern

PAUSES_S = (1.0, 2.0, 4.0)
"""Pauses before each further attempt, where the server fails or is busy."""

_GITHUB_AUTHOR = "github-actions[bot]"  # of what the token of a workflow writes
_LONGEST_PAUSE_S = 30.0  # that a server may ask for
_PATIENCE_S = 20.0  # for an answer
_PAGE = 100  # comments, the most that both systems send at once
_MOST_PAGES = 200
_LONGEST = 65_000  # characters of a comment; GitHub takes 65,536
_CUT = "\n\nThe rest is in the summary of the job.\n"
_KEY = lazy_pattern(r"[A-Za-z0-9][\w.-]{0,60}")
_HTTP = ("https://", "http://")
_FORBIDDEN = (401, 403, 404)
_BUSY = (408, 429, 500, 502, 503, 504)


class ReadOnlyError(PerflogError):
    """The token may not read or write comments."""


class BusyError(PerflogError):
    """The server fails or is busy: another attempt may succeed. `pause_s` is the pause that it asks for."""

    pause_s = 0.0


class Conversation(Struct, frozen=True):
    """The comments of a pull request or merge request.

    Attributes:
        comments: The address of the list, to which new ones are posted.
        comment: The address of a comment, before its number.
        method: The HTTP method that replaces a comment.
        headers: What goes with each request, such as the token.
        author: The author of comments of this token; empty if the API names it.
        user: The address at which the API names the owner of the token.
    """

    comments: str
    comment: str
    method: Literal["PATCH", "PUT"]
    headers: Mapping[str, str]
    author: str = ""
    user: str = ""


def conversation(
    job: Job | None = None, author: str = "", environment: Mapping[str, str] | None = None
) -> Conversation | str:
    """Return the conversation of the request that this job is for, or why there is none that can be written.

    Args:
        job: The job. Default: the one that runs now.
        author: Who writes with the token. Default: github-actions[bot] on GitHub, the owner of the token on GitLab.
        environment: Variables. Default: the variables of this process. On GitHub GITHUB_TOKEN is the token, on GitLab
            GITLAB_TOKEN, else CI_JOB_TOKEN.
    """
    variables = os.environ if environment is None else environment
    job = job or this_job(variables)
    if not job.system:
        return "no job of GitHub Actions or GitLab runs here"
    if not job.request:
        return "this job is for no pull request"
    if job.system == "github":
        token, home = variables.get("GITHUB_TOKEN", ""), variables.get("GITHUB_API_URL", "https://api.github.com")
        issues = f"{home}/repos/{quote(variables.get('GITHUB_REPOSITORY', ''))}/issues"
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        headers |= {"X-GitHub-Api-Version": "2022-11-28"}
        place = f"{issues}/{job.request}/comments"
        found = Conversation(place, f"{issues}/comments", "PATCH", headers, author or _GITHUB_AUTHOR)
    else:
        own = variables.get("GITLAB_TOKEN", "")
        token = own or variables.get("CI_JOB_TOKEN", "")
        home = variables.get("CI_API_V4_URL", "https://gitlab.com/api/v4")
        project = quote(variables.get("CI_PROJECT_ID", ""), safe="")
        notes = f"{home}/projects/{project}/merge_requests/{job.request}/notes"
        headers = {"PRIVATE-TOKEN": token} if own else {"JOB-TOKEN": token}
        found = Conversation(notes, notes, "PUT", headers, author, f"{home}/user")
    if not token:
        return "there is no token"
    if not home.lower().startswith(_HTTP):
        raise UsageError("this is not the address of an API", home)
    return found


def put_comment(to: Conversation, body: str, key: str) -> Literal["created", "updated"]:
    """Write the comment with a key: update the one that is there, or make it.

    Each attempt looks for the comment again: if only the answer was lost, it is not made twice.

    Raises:
        UsageError: The key has other characters than a key may have.
        ReadOnlyError: The token may not write comments, as in a pull request from a fork.
        PerflogError: The server fails at each attempt, or its answer is not as documented.
    """
    if not _KEY.fullmatch(key):
        raise UsageError("a key consists of letters, digits, dots and dashes", key)
    mark = f"<!-- perflog:{key} -->"
    text = f"{mark}\n{body}"
    if len(text) > _LONGEST:
        text = text[: text.rindex("\n", 0, _LONGEST - len(_CUT))] + _CUT
    for pause in (*PAUSES_S, None):
        try:
            return _put(to, text, mark)
        except BusyError as error:
            if pause is None:
                raise
            sleep(min(max(pause, error.pause_s), _LONGEST_PAUSE_S))
    raise AssertionError("the last attempt returns or raises")


def _put(to: Conversation, text: str, mark: str) -> Literal["created", "updated"]:
    author = to.author or _author(to)
    for comment in _comments(to):
        body = comment.get("body")
        if isinstance(body, str) and body.lstrip().startswith(mark) and _name(comment) == author:
            _ask(to, to.method, f"{to.comment}/{int(comment['id'])}", {"body": text})
            return "updated"
    _ask(to, "POST", to.comments, {"body": text})
    return "created"


def _author(to: Conversation) -> str:
    """The owner of the token. Without a name no comment is taken for its own."""
    answer = _ask(to, "GET", to.user)
    name = answer.get("username") if isinstance(answer, dict) else None
    if not isinstance(name, str) or not name:
        raise ReadOnlyError("the server does not name the owner of the token", to.user, "name the author: --author")
    return name


def _name(comment: Mapping[str, Any]) -> str:
    """The author of a comment: `user.login` of GitHub, `author.username` of GitLab."""
    user = comment.get("user") or comment.get("author")
    name = (user.get("login") or user.get("username")) if isinstance(user, dict) else None
    return name if isinstance(name, str) else ""


def _comments(to: Conversation) -> Iterator[Mapping[str, Any]]:
    """Yield the comments, page by page."""
    for page in range(1, _MOST_PAGES + 1):
        found = _ask(to, "GET", f"{to.comments}?per_page={_PAGE}&page={page}")
        if not isinstance(found, list):
            raise PerflogError("the server did not return a list of comments", to.comments)
        yield from (each for each in found if isinstance(each, dict))
        if len(found) < _PAGE:
            return


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the token is for one host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _ask(to: Conversation, method: str, address: str, body: Mapping[str, str] | None = None) -> Any:
    """Send a request, and return the JSON of the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"User-Agent": "perflog", "Content-Type": "application/json", **to.headers}
    request = Request(address, data, headers, method=method)
    try:
        with build_opener(_NoRedirects).open(request, timeout=_PATIENCE_S) as answer:
            return json.loads(answer.read())
    except HTTPError as error:
        with error:
            raise _of_status(error, method, address) from error
    except (OSError, HTTPException) as error:
        raise BusyError(f"cannot be reached: {error}", address, "try again") from error
    except ValueError as error:
        raise BusyError("the response is not JSON", address, "try again") from error


def _of_status(error: HTTPError, method: str, address: str) -> PerflogError:
    """The error that a status means."""
    asked = error.headers.get("Retry-After", "")
    is_limit = asked.isdigit() or error.headers.get("X-RateLimit-Remaining") == "0"
    if error.code in _BUSY or (error.code == 403 and is_limit):
        busy = BusyError(f"{method} failed: {error.code} {error.reason}", address, "try again later")
        busy.pause_s = float(asked) if asked.isdigit() else 0.0
        return busy
    if error.code in _FORBIDDEN:
        help = (
            "a pull request from a fork has a token that only reads; else the job needs `pull-requests: write`, or a "
            "token of GitLab with scope api"
        )
        return ReadOnlyError(f"the token may not write comments: {error.code} {error.reason}", address, help)
    return PerflogError(f"{method} failed: {error.code} {error.reason}", address)
