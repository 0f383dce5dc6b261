"""`perflog serve` in a thread of the test."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode

from perflog.serve.app import application
from perflog.serve.guard import Guard
from perflog.serve.source import Source

LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


class Answer(NamedTuple):
    """Status, headers with names in lower case, and text."""

    status: int
    headers: Mapping[str, str]
    text: str


class LocalServer(NamedTuple):
    """A server that runs. `source`: what it serves."""

    port: int
    source: Source

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET", **asked: Any) -> Answer:
        """Ask for a path, as a program that sends these headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        query = f"?{urlencode(asked, doseq=True)}" if asked else ""
        connection.putrequest(method, path + query, skip_host=bool(headers and "Host" in headers))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)


@contextmanager
def serving(*names: str, token: str = "") -> Iterator[LocalServer]:
    """Serve some names until the block ends; with a token under any host."""
    import uvicorn  # here: it takes as long to load as all of perflog.serve

    source = Source(names)
    guard = Guard(application(source), frozenset() if token else LOOPBACK, token)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(guard, log_level="error", server_header=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield LocalServer(listening.getsockname()[1], source)
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
