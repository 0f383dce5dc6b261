"""Runs the steps of action.yml on this machine, as a runner of GitHub Actions does, with a made event.

Steps that run a script are run by bash, in the environment that GitHub gives. Of the actions of GitHub that other steps
use, the cache and the upload of artifacts are played. Expressions are names, and conditions of names and words.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.comment_server import TOKEN
from support.paths import ROOT

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_NAME = re.compile(r"\b(?:inputs|steps|github|runner)\.[\w.-]+")
_SHELL = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail"]  # of `shell: bash`
_PYTHON = """\
#!/usr/bin/env bash
# Plays Python: an environment has the program of the tests, and what pip is asked for is only noted.
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "{program}" "$3/bin/perflog" ;;
  "-m pip") shift 2; echo "$*" >> "{noted}" ;;
esac
"""


@dataclass
class Ran:
    """What came of an action: the exit code of its steps, what they printed, and what GitHub would show.

    `ran` has the names of the steps that ran.
    """

    code: int = 0
    printed: str = ""
    step_summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    artifacts: dict[str, list[str]] = field(default_factory=dict)

    @property
    def annotations(self) -> list[str]:
        """The lines that GitHub takes for annotations: commands, where these are not stopped."""
        lines, token = [], ""
        for line in map(str.strip, self.printed.splitlines()):
            if token:
                token = "" if line == f"::{token}::" else token
            elif line.startswith("::stop-commands::"):
                token = line.removeprefix("::stop-commands::")
            elif line.startswith("::"):
                lines.append(line)
        return lines


class Runner:
    """A runner with its folder, and the cache of a repository.

    Args:
        home: A folder for all.
        program: The program `perflog`.
        api: The address of the API.
    """

    def __init__(self, home: Path, program: Path, api: str) -> None:
        yaml = pytest.importorskip("yaml")
        self.action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
        self.home, self.api = home, api
        self.workspace = home / "work"
        self.workspace.mkdir()
        self.pip = home / "pip.txt"
        self.python = home / "python"
        self.python.write_text(_PYTHON.format(program=program, noted=self.pip))
        self.python.chmod(0o755)
        self.cache: dict[str, Path] = {}
        self.runs = 0

    @property
    def commit(self) -> str:
        """The commit of the next run."""
        return f"{self.runs + 1:040x}"

    def run(self, event: str, ref: str, content: Mapping[str, Any], **inputs: str) -> Ran:
        """Run all steps for an event. Names of inputs have `_` for `-`."""
        commit = self.commit
        self.runs += 1
        temp = self.home / f"temp{self.runs}"
        temp.mkdir()
        (temp / "event.json").write_text(json.dumps(content))
        known = {f"inputs.{name}": each.get("default", "") for name, each in self.action["inputs"].items()}
        known |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        known |= {"inputs.python": str(self.python), "inputs.token": TOKEN}
        known |= {"github.run_id": str(self.runs), "github.run_attempt": "1"}
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("CI_", "GITLAB", "GIT"))}
        variables |= {
            "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_REF": ref,
            "GITHUB_EVENT_PATH": str(temp / "event.json"), "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(temp), "GITHUB_REPOSITORY": "o/r",
            "GITHUB_API_URL": self.api, "GITHUB_SERVER_URL": f"file://{self.home}", "GITHUB_SHA": commit,
            "GITHUB_RUN_ID": str(self.runs), "GITHUB_JOB": "bench", "no_proxy": "*",
        }  # fmt: skip
        result = Ran()
        for step in self.action["runs"]["steps"]:
            self._step(step, known, variables, temp, result)
        outputs = {name: each["value"] for name, each in self.action["outputs"].items()}
        result.outputs = {name: _filled(value, known) for name, value in outputs.items()}
        return result

    def _step(
        self, step: Mapping[str, Any], known: dict[str, str], variables: Mapping[str, str], temp: Path, result: Ran
    ) -> None:
        condition = str(step.get("if", "success()"))
        always = "cancelled()" in condition
        if (result.code and not always) or not _holds(condition, known):
            return
        result.ran.append(step["name"])
        if "uses" in step:
            self._use(step["uses"], {name: _filled(str(value), known) for name, value in step["with"].items()}, result)
            return
        files = {name: temp / f"{len(result.ran)}.{name}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.touch()
        script = temp / f"{len(result.ran)}.sh"
        script.write_text(step["run"])
        env = {**variables, **{name: str(path) for name, path in files.items()}}
        env |= {name: _filled(str(value), known) for name, value in step.get("env", {}).items()}
        folder = self.workspace / _filled(step.get("working-directory", "."), known)
        done = subprocess.run(
            [*_SHELL, str(script)], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        result.printed += done.stdout
        result.step_summary += files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
        for line in files["GITHUB_OUTPUT"].read_text("utf-8").splitlines():
            name, _, value = line.partition("=")
            known[f"steps.{step.get('id')}.outputs.{name}"] = value
        known[f"steps.{step.get('id')}.outcome"] = "failure" if done.returncode else "success"
        if done.returncode and not step.get("continue-on-error"):
            result.code = result.code or done.returncode

    def _use(self, action: str, given: Mapping[str, str], result: Ran) -> None:
        name = action.partition("@")[0]
        if name == "actions/upload-artifact":
            result.artifacts[given["name"]] = sorted(path.name for path in Path(given["path"]).iterdir())
            return
        folder = self.workspace / given["path"]
        if name == "actions/cache/save":
            kept = self.home / "cache" / given["key"]
            shutil.copytree(folder, kept)
            self.cache[given["key"]] = kept
        elif name == "actions/cache/restore":
            keys = [key for key in self.cache if key.startswith(given["restore-keys"])]
            if keys:
                shutil.copytree(self.cache[keys[-1]], folder)
        else:
            raise AssertionError(f"{action} is not played here")


def _filled(text: str, known: Mapping[str, str]) -> str:
    """A text with the values of its expressions; what a step has not set is empty."""
    return _EXPRESSION.sub(lambda match: known.get(match[1].strip(), ""), text)


def _holds(condition: str, known: Mapping[str, str]) -> bool:
    """Whether a condition holds: names and words with ==, != and &&."""
    text = _EXPRESSION.sub(r"\1", condition)
    text = text.replace("!cancelled()", "True").replace("success()", "True").replace("&&", " and ")
    return bool(eval(_NAME.sub(lambda match: repr(known.get(match[0], "")), text), {"__builtins__": {}}))
