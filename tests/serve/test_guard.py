"""Who may ask the server: hosts, origins, methods and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from perflog.serve.guard import COOKIE, Guard, Receive, Scope, Send, host_name


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
    await send({"type": "http.response.body", "body": b"page"})


def asked(
    headers: dict[str, str], hosts: frozenset[str] = frozenset({"localhost"}), token: str = "", **scope: Any
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of an answer."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    usual = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": raw}
    asyncio.run(Guard(page, hosts, token)(usual | scope, receive, send))
    if not sent:
        return 0, {}, b""
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


HOST = {"host": "localhost:8000"}


@pytest.mark.parametrize(
    ("headers", "scope", "status"),
    [
        (HOST, {}, 200),
        (HOST, {"method": "HEAD"}, 200),
        (HOST, {"method": "POST"}, 405),
        ({"host": "LOCALHOST"}, {}, 200),
        ({"host": "other.example"}, {}, 403),
        ({}, {}, 403),
        (HOST | {"origin": "http://localhost:8000"}, {}, 200),
        (HOST | {"origin": "http://LOCALHOST:8000"}, {}, 200),
        (HOST | {"origin": "http://localhost:9000"}, {}, 403),
        (HOST | {"origin": "null"}, {}, 403),
        (HOST | {"sec-fetch-site": "cross-site"}, {}, 403),
        (HOST | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, {}, 200),
        (HOST | {"sec-fetch-site": "same-origin"}, {}, 200),
    ],
)
def test_requests_that_another_site_could_make_are_refused(
    headers: dict[str, str], scope: dict[str, Any], status: int
) -> None:
    found, sent, body = asked(headers, **scope)
    assert found == status and (body == b"page") == (status == 200)
    assert sent[b"x-content-type-options"] == b"nosniff" and sent[b"cache-control"] == b"no-store"
    assert (sent.get(b"x-own") == b"1") == (status == 200)


@pytest.mark.parametrize(
    ("cookie", "status"),
    [("secret", 200), ("Secret", 401), ("", 401), ("secret2", 401), (None, 401)],
)
def test_each_request_needs_the_token(cookie: str | None, status: int) -> None:
    headers = HOST | ({} if cookie is None else {"cookie": f"other=1; {COOKIE}={cookie}"})
    assert asked(headers, token="secret")[0] == status
    assert asked({"host": "any.example"} | headers, frozenset(), "secret")[0] == status


@pytest.mark.parametrize(
    ("path", "query", "target"),
    [
        ("/", b"token=secret", b"/"),
        ("/a", b"token=secret&b=1", b"/a?b=1"),
        ("//evil.example", b"token=secret", b"/evil.example"),
    ],
)
def test_a_token_in_the_address_becomes_a_cookie(path: str, query: bytes, target: bytes) -> None:
    status, sent, body = asked(HOST, token="secret", path=path, query_string=query)
    assert (status, sent[b"location"], body) == (303, target, b"")
    assert sent[b"set-cookie"] == f"{COOKIE}=secret; HttpOnly; SameSite=Strict; Path=/".encode()
    assert asked(HOST, token="secret", query_string=b"token=wrong")[0] == 401


def test_only_http_is_answered() -> None:
    assert asked(HOST, type="websocket") == (0, {}, b"")
    assert asked({}, type="lifespan")[0] == 200
    with pytest.raises(ValueError, match="needs a token"):
        Guard(page, frozenset())


@pytest.mark.parametrize(
    ("host", "name"), [("[::1]:8000", "::1"), ("A.b:1", "a.b"), ("a", "a"), ("[", ""), ("", ""), ("a:b:c", "a")]
)
def test_the_name_in_a_host_header(host: str, name: str) -> None:
    assert host_name(host) == name
