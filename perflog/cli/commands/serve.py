"""`perflog serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perflog.cli import completion, options
from perflog.errors import UsageError

if TYPE_CHECKING:
    import socket

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command(
    short_help="Show the runs of a store or a folder in the browser.",
    epilog=options.examples("perflog serve", "perflog serve logs/ --port 8100"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, metavar="[STORE|FOLDER|LOG]...")
@options.store
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, metavar="N", help="Port; 0: a free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. Unless it is a loopback address, requests need the token in the printed address.",
)
@click.option("--open", "opens", is_flag=True, help="Open the browser.")
def serve(runs: tuple[str, ...], store: str | None, port: int, host: str, opens: bool) -> None:
    """Serve runs as web pages until Ctrl-C: a list to filter and sort, the report of each run, comparisons.

    The list is updated while logs grow and a store is written. The server only reads, listens on this machine alone
    unless --host says otherwise, and needs no network. Without a name it serves the store.
    """
    import secrets

    from perflog.output import terminal

    try:
        import uvicorn

        from perflog.serve.app import application
    except ImportError as error:
        help = "pip install starlette uvicorn"
        raise UsageError("`perflog serve` needs Starlette and uvicorn, which are not installed", help=help) from error
    from perflog.serve.guard import Guard
    from perflog.serve.source import Source

    source = Source(runs, store)
    is_local = host in _LOOPBACK
    token = "" if is_local else secrets.token_urlsafe(24)
    guarded = Guard(application(source), frozenset(_LOOPBACK if is_local else ()), token)
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/" + f"?token={token}" * bool(token)
    terminal.put(f"{source.title}: {address}  (Ctrl-C ends the server)")
    if opens:
        import webbrowser

        webbrowser.open(address)
    config = uvicorn.Config(guarded, log_level="error", server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    Raises:
        UsageError: The address is taken, or none of this machine.
    """
    import socket

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, ValueError) as error:  # UnicodeError is a ValueError
        reason = f"cannot listen there: {getattr(error, 'strerror', None) or error}"
        raise UsageError(reason, f"{host}:{port}", "--port 0 takes a free port") from error
