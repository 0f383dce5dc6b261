"""A server that plays the comments of GitHub and the notes of GitLab, on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "s3cr3t-t0k3n"
BOT = "github-actions[bot]"
_LIST = re.compile(r"/repos/o/r/issues/7/comments|/projects/12/merge_requests/7/notes")
_ONE = re.compile(r"/repos/o/r/issues/comments/([0-9]+)|/projects/12/merge_requests/7/notes/([0-9]+)")


class CommentServer(ThreadingHTTPServer):
    """Pull request 7 of repository o/r, and merge request 7 of project 12.

    Attributes:
        comments: Number, author and text of each.
        asked: Method and path of each request.
        is_read_only: Whether writes are forbidden, as to the token of a fork.
        statuses: Statuses with which the next requests fail; of POST after the comment was made.
        author: Who writes.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[tuple[int, str, str]] = []
        self.asked: list[tuple[str, str]] = []
        self.is_read_only = False
        self.statuses: list[tuple[str, int]] = []
        self.author = BOT

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def bodies(self) -> list[str]:
        return [body for _, _, body in self.comments]

    def count(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)


class _Handler(BaseHTTPRequestHandler):
    server: CommentServer

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def _answer(self, status: int, data: object = None, **headers: str) -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)

    def _serve(self) -> None:
        server, url = self.server, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.asked.append((self.command, self.path))
        failing = server.statuses and server.statuses[0][0] == self.command
        status = server.statuses.pop(0)[1] if failing else 0
        known = (self.headers.get("Authorization"), self.headers.get("PRIVATE-TOKEN"), self.headers.get("JOB-TOKEN"))
        one = _ONE.fullmatch(url.path)
        if status and self.command != "POST":
            self._answer(status, Location=server.address, Retry_After="0")
        elif f"Bearer {TOKEN}" not in known and TOKEN not in known:
            self._answer(401)
        elif url.path == "/user" and known[1]:
            self._answer(200, {"username": server.author})
        elif self.command == "GET" and _LIST.fullmatch(url.path):
            asked = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
            start = (asked["page"] - 1) * asked["per_page"]
            shown = server.comments[start : start + asked["per_page"]]
            self._answer(200, [self._shown(*each) for each in shown])
        elif server.is_read_only:
            self._answer(403, {"message": "Resource not accessible by integration"})
        elif self.command == "POST" and _LIST.fullmatch(url.path):
            server.comments.append((len(server.comments) + 1, server.author, json.loads(body)["body"]))
            self._answer(status or 201, {"id": len(server.comments)})
        elif self.command in ("PATCH", "PUT") and one:
            number = int(one[1] or one[2])
            server.comments[number - 1] = (number, server.comments[number - 1][1], json.loads(body)["body"])
            self._answer(200, {"id": number})
        else:
            self._answer(404)

    def _shown(self, number: int, author: str, body: str) -> dict[str, Any]:
        name = "user" if "/repos/" in self.path else "author"
        return {"id": number, name: {"login" if name == "user" else "username": author}, "body": body}

    do_GET = do_POST = do_PATCH = do_PUT = _serve  # noqa: N815


@contextmanager
def comment_server() -> Iterator[CommentServer]:
    """A server that runs until the block ends."""
    with CommentServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
