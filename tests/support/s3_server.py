"""An S3 server for tests: moto's, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

_CODE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
SECRET = "b1gS3cr3t"


class Bucket:
    """An empty bucket, as fsspec sees it."""

    def __init__(self, name: str) -> None:
        import fsspec

        self.address = f"s3://{name}"
        self.name = name
        self.files: Any = fsspec.filesystem("s3")
        self.files.invalidate_cache()
        if self.files.exists(name):
            self.files.rm(name, recursive=True)
        self.files.mkdir(name)

    def put(self, key: str, data: bytes) -> str:
        """Write an object, and return its address."""
        self.files.pipe_file(f"{self.name}/{key}", data)
        return f"{self.address}/{key}"

    def every_key(self) -> list[str]:
        """Return the keys of all objects."""
        self.files.invalidate_cache()
        return sorted(path.removeprefix(f"{self.name}/") for path in self.files.find(self.name))


@contextmanager
def s3_server() -> Iterator[str]:
    """Start a server, name it in the environment as users do, and yield its URL."""
    if not all(map(find_spec, ("moto", "flask", "flask_cors", "s3fs"))):
        pytest.skip("needs the S3 server of the extra dev")
    import fsspec

    words = [sys.executable, "-W", "ignore", "-c", _CODE]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", url)
            patch.setenv("AWS_ACCESS_KEY_ID", "tester")
            patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            patch.setenv("no_proxy", "*")
            fsspec.get_filesystem_class("s3").clear_instance_cache()  # they know the server of other tests
            yield url
        server.stdin.close()
