"""A headless Chromium, asked over a pipe: https://chromedevtools.github.io/devtools-protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FOUND = next(filter(None, map(shutil.which, NAMES)), None)
PATIENCE_S = 60.0


class Browser:
    """One tab. `events` holds all that it told, such as messages on the console and requests."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._buffer, self._count, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and wait for its answer."""
        self._count += 1
        call = {"id": self._count, "method": method, "params": params}
        call |= {"sessionId": self._session} if self._session else {}
        os.write(self._writes, json.dumps(call).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._count:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result
            self.events.append(said)

    def wait(self, method: str) -> None:
        """Wait until an event has come."""
        while not self.told(method):
            self.events.append(self._next())

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """The events of some methods so far."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def open(self, place: Path | str, width: int = 1280, height: int = 900) -> None:
        """Load a file or an address, in a window of that size, and forget what was told before."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.events.clear()
        self.ask("Page.navigate", url=place if isinstance(place, str) else place.as_uri())
        self.wait("Page.loadEventFired")

    def run(self, code: str) -> Any:
        """The value of a JavaScript expression."""
        done = self.ask("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reads], [], [], PATIENCE_S)
            assert ready, "the browser does not answer"
            data = os.read(self._reads, 1 << 20)
            assert data, "the browser has gone"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        said: dict[str, Any] = json.loads(message)
        return said


@contextmanager
def browser(home: Path) -> Iterator[Browser]:
    """A browser whose profile lies in `home`, until the block ends."""
    assert FOUND, "no browser"
    (their_in, writes), (reads, their_out) = os.pipe(), os.pipe()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    command = [FOUND, *flags, f"--user-data-dir={home}", "--remote-debugging-pipe", "about:blank"]
    become = "import os, sys; [os.dup2(int(fd), to) for to, fd in ((3, sys.argv[1]), (4, sys.argv[2]))]; "
    become += "os.execv(sys.argv[3], sys.argv[3:])"  # it reads its descriptor 3 and writes its descriptor 4
    started = subprocess.Popen(
        [sys.executable, "-c", become, str(their_in), str(their_out), *command],
        pass_fds=(their_in, their_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(their_in)
    os.close(their_out)
    try:
        one = Browser(reads, writes)
        yield one
        one.ask("Browser.close")
        started.wait(PATIENCE_S)
    finally:
        os.close(writes)
        os.close(reads)
        started.kill()
        started.wait()
