"""The process that reads logs for the server: a call of it that takes too long is ended with it.

It takes a line of JSON for each call, `{"tool": ..., "arguments": {...}}`, and answers with one: `{"answer": ...}` or
`{"error": "..."}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from perflog.errors import PerflogError
from perflog.mcp.answers import Answers
from perflog.mcp.confinement import Confinement
from perflog.output.terminal import visible

_MOST = 2_000  # characters of an error


def main(folders: list[str]) -> None:
    """Answer calls until the server closes the pipe."""
    answers_to = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what anything else prints is no answer
    os.environ.pop("PERFLOG_STORE", None)  # no store outside of the folders
    confinement = Confinement(folders)
    answers = Answers(confinement)
    for line in sys.stdin.buffer:
        call: dict[str, Any] = json.loads(line)
        reply: dict[str, Any]
        try:
            reply = {"answer": answers.call(call["tool"], call["arguments"])}
        except (PerflogError, OSError) as error:
            reply = {"error": _short(str(error))}
        except RecursionError:
            reply = {"error": "this is nested too deeply"}
        except MemoryError:
            reply = {"error": "this needs more memory than there is: ask about fewer runs or rows"}
        answers_to.write(f"{json.dumps(reply)}\n")
        answers_to.flush()


def _short(text: str) -> str:
    """The message of an error, which may quote a line of a log."""
    text = "\n".join(visible(line) for line in text.splitlines())
    return text if len(text) <= _MOST else f"{text[:_MOST]} …"


if __name__ == "__main__":
    main(sys.argv[1:])
