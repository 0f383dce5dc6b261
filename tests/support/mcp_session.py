"""A session with `perflog mcp` over standard input and output, by the client of the SDK."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.paths import ROOT

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client


class Session:
    """Tools and resources of a server, called from code that is not asynchronous."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self.client = portal, client

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool, which is no error; its text is the same as JSON."""
        result = self._portal.call(self.client.call_tool, tool, arguments)
        assert not result.is_error, result.content[0].text
        (content,) = result.content
        assert json.loads(content.text) == result.structured_content
        answer: dict[str, Any] = result.structured_content
        return answer

    def error(self, tool: str, **arguments: Any) -> str:
        """The error of a call."""
        result = self._portal.call(self.client.call_tool, tool, arguments)
        assert result.is_error, result.structured_content
        return str(result.content[0].text)

    def call(self, name: str, *arguments: Any) -> Any:
        """The result of another request of the client, by the name of its method."""
        return self._portal.call(getattr(self.client, name), *arguments)


@contextmanager
def session(*folders: Path, here: Path = ROOT) -> Iterator[Session]:
    """A server for some folders, which starts in the folder `here`."""
    from anyio.from_thread import start_blocking_portal  # here: the client takes a second to load, in each worker
    from mcp import Client, StdioServerParameters, stdio_client

    command = StdioServerParameters(
        command=sys.executable, args=["-m", "perflog", "mcp", *map(str, folders)], cwd=str(here),
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    # By default the client keeps the stderr of the moment at which it was loaded, as of a command under test.
    transport = stdio_client(command, errlog=sys.__stderr__ or sys.stderr)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(transport)) as client:
        yield Session(portal, client)
