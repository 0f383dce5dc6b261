"""Who may ask: requests that a page of another site, or another host, could make are refused."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "perflog_token"

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What the pages of the server may load: their own style and script."""


class Guard:
    """Passes on what the reader of the pages asks for.

    Only GET and HEAD are answered. The Host has to be one of those that the server was started for, so that no other
    name that leads to this address works (DNS rebinding); Origin and Sec-Fetch-Site have to match its own pages.
    With a token each request needs it: once as `?token=`, which becomes a cookie.

    Args:
        app: The application.
        hosts: Names and addresses under which the server may be asked, in lower case and without a port.
            Empty: any, which needs a token.
        token: The token; "" for none.
    """

    def __init__(self, app: App, hosts: frozenset[str], token: str = "") -> None:
        if not hosts and not token:
            raise ValueError("a server for any host needs a token")
        self._app, self._hosts, self._token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if refused := self._refusal(scope, headers):
            await _answer(send, *refused)
            return
        if self._token:
            asked = dict(parse_qsl(scope["query_string"].decode("latin-1")))
            if _is_same(asked.pop("token", ""), self._token):
                await _answer(send, 303, "", self._without_token(scope, asked))
                return
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
            if not _is_same(cookie.value if cookie else "", self._token):
                await _answer(send, 401, "this server needs its token: open the address that it printed, with ?token=")
                return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this server is read-only: use GET or HEAD"
        host = headers.get("host", "")
        if self._hosts and host_name(host) not in self._hosts:
            return 403, "this server answers under other names: start it with --host"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, "the request comes from a page of another site"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return 403, "the request comes from a page of another site"
        return None

    def _without_token(self, scope: Scope, asked: dict[str, str]) -> list[tuple[bytes, bytes]]:
        path = "/" + scope["path"].lstrip("/")  # never //other.host
        target = path + (f"?{urlencode(asked)}" if asked else "")
        cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
        return [(b"location", target.encode("ascii", "ignore")), (b"set-cookie", cookie.encode())]


def host_name(host: str) -> str:
    """Return the name in a Host header, in lower case, without the port: `[::1]:8000` is `::1`."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    body = f"{text}\n".encode() if text else b""
    known = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*known, *(headers or []), *_HEADERS]})
    await send({"type": "http.response.body", "body": body})
