"""One comment on a pull request: made, updated, told apart from others', and what a server may answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.comment_server import BOT, TOKEN, CommentServer, comment_server

from perflog.ci import comments
from perflog.ci.systems import Job
from perflog.errors import PerflogError, UsageError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CommentServer]:
    monkeypatch.setattr(comments, "PAUSES_S", (0.0, 0.0, 0.0))
    with comment_server() as running:
        yield running


def github(server: CommentServer, token: str = TOKEN) -> comments.Conversation:
    known = {"GITHUB_TOKEN": token, "GITHUB_API_URL": server.address, "GITHUB_REPOSITORY": "o/r"}
    found = comments.conversation(Job("github", "7"), environment=known)
    assert isinstance(found, comments.Conversation)
    return found


def gitlab(server: CommentServer, author: str = "", **tokens: str) -> comments.Conversation:
    known = {"CI_API_V4_URL": server.address, "CI_PROJECT_ID": "12", **tokens}
    found = comments.conversation(Job("gitlab", "7"), author, known)
    assert isinstance(found, comments.Conversation)
    return found


def test_the_first_run_makes_the_comment_and_the_second_updates_it(server: CommentServer) -> None:
    assert comments.put_comment(github(server), "first", "gate") == "created"
    assert comments.put_comment(github(server), "second", "gate") == "updated"
    assert server.bodies() == ["<!-- perflog:gate -->\nsecond"]
    assert comments.put_comment(github(server), "other", "gpu-8.x") == "created"
    assert len(server.comments) == 2


def test_the_own_comment_is_found_behind_many_others(server: CommentServer) -> None:
    server.comments = [(k, "somebody", "hello") for k in range(1, 251)]
    comments.put_comment(github(server), "first", "gate")
    server.comments += [(k, "somebody", "more") for k in range(252, 300)]
    assert comments.put_comment(github(server), "second", "gate") == "updated"
    assert server.comments[250] == (251, BOT, "<!-- perflog:gate -->\nsecond")
    pages = [path.partition("page=")[2].partition("=")[2] for method, path in server.asked if method == "GET"]
    assert pages == ["1", "2", "3"] * 2


def test_the_marker_of_somebody_else_is_left_alone(server: CommentServer) -> None:
    copied = "<!-- perflog:gate -->\nall is well"
    server.comments = [(1, "stranger", copied), (2, BOT, f"> {copied}")]
    assert comments.put_comment(github(server), "first", "gate") == "created"
    assert server.bodies()[0] == copied
    assert len(server.comments) == 3


def test_a_token_of_a_fork_only_reads(server: CommentServer) -> None:
    server.is_read_only = True
    with pytest.raises(comments.ReadOnlyError, match="may not write comments: 403"):
        comments.put_comment(github(server), "text", "gate")
    with pytest.raises(comments.ReadOnlyError, match="401"):
        comments.put_comment(github(server, "wrong"), "text", "gate")
    assert server.count("POST") == 1  # a refusal is not repeated


@pytest.mark.parametrize(("method", "status"), [("GET", 503), ("GET", 429), ("POST", 502)])
def test_a_server_that_fails_is_asked_again(server: CommentServer, method: str, status: int) -> None:
    """A POST whose answer was lost is not made twice: the next attempt finds the comment."""
    server.statuses = [(method, status)]
    done = comments.put_comment(github(server), "text", "gate")
    assert done == ("updated" if method == "POST" else "created")
    assert server.bodies() == ["<!-- perflog:gate -->\ntext"]


def test_the_number_of_attempts_is_bounded(server: CommentServer) -> None:
    server.statuses = [("GET", 500)] * 20
    with pytest.raises(comments.BusyError, match="500"):
        comments.put_comment(github(server), "text", "gate")
    assert server.count("GET") == 4
    server.server_close()
    with pytest.raises(comments.BusyError):
        comments.put_comment(github(server), "text", "gate")


def test_a_limit_of_requests_is_no_missing_permission(server: CommentServer) -> None:
    server.statuses = [("GET", 403)]  # with Retry-After
    assert comments.put_comment(github(server), "text", "gate") == "created"


def test_the_token_follows_no_redirect(server: CommentServer) -> None:
    server.statuses = [("GET", 302)]
    with pytest.raises(PerflogError, match="302") as raised:
        comments.put_comment(github(server), "text", "gate")
    assert server.count("GET") == 1
    assert TOKEN not in str(raised.value)


def test_a_long_text_is_cut_at_a_line(server: CommentServer) -> None:
    comments.put_comment(github(server), "a line\n" * 20_000, "gate")
    (body,) = server.bodies()
    assert len(body) <= 65_000
    assert body.endswith("a line\n\nThe rest is in the summary of the job.\n")


def test_notes_of_gitlab(server: CommentServer) -> None:
    server.author = "project_12_bot"
    marked = "<!-- perflog:gate -->\nold"
    server.comments = [(1, "stranger", marked), (2, "project_12_bot", marked)]
    assert comments.put_comment(gitlab(server, GITLAB_TOKEN=TOKEN), "new", "gate") == "updated"
    assert server.bodies() == [marked, "<!-- perflog:gate -->\nnew"]
    assert comments.put_comment(gitlab(server, "project_12_bot", CI_JOB_TOKEN=TOKEN), "newer", "gate") == "updated"
    with pytest.raises(comments.ReadOnlyError):
        comments.put_comment(gitlab(server, CI_JOB_TOKEN=TOKEN), "text", "gate")


def test_where_there_is_nothing_to_comment_on() -> None:
    assert comments.conversation(Job()) == "no job of GitHub Actions or GitLab runs here"
    assert comments.conversation(Job("github")) == "this job is for no pull request"
    assert comments.conversation(Job("github", "7"), environment={}) == "there is no token"
    with pytest.raises(UsageError):
        comments.conversation(Job("github", "7"), environment={"GITHUB_TOKEN": "x", "GITHUB_API_URL": "file:///etc"})


@pytest.mark.parametrize("key", ["", "a b", "-->", "a\nb"])
def test_a_key_cannot_end_its_marker(server: CommentServer, key: str) -> None:
    with pytest.raises(UsageError):
        comments.put_comment(github(server), "text", key)
