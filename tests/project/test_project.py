"""The files around the package agree: workflows, templates, hooks, citation, pins, Makefile."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT, TESTS

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
YAML = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("action.yml", ".github/**/*.yml", ".pre-commit-config.yaml", "mkdocs.yml", "CITATION.cff")
    for path in ROOT.glob(pattern)
)
TEXTS = ("*.md", "docs/*.md", "parsers/*.md", "reference_runs/*.md", "notebooks/*.ipynb", "perflog/**/*.py", "*.yml")
PIP = re.compile(r"\bpip[3\"]? install (?!--)([^\n`#]+)")
TEMPLATES = [name for name in YAML if "ISSUE_TEMPLATE/" in name and not name.endswith("config.yml")]


def parsed(name: str) -> dict[Any, Any]:
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load((ROOT / name).read_text("utf-8"))
    assert isinstance(content, dict)
    return content


def targets() -> set[str]:
    """Targets that `make` offers."""
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    return set(phony.split())


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


@pytest.mark.parametrize("name", YAML)
def test_yaml_can_be_parsed(name: str) -> None:
    assert parsed(name)


def test_the_project_has_its_workflows_and_templates() -> None:
    names = {"ci.yml", "release.yml", "bug.yml", "format.yml", "question.yml"}
    assert names <= {Path(name).name for name in YAML}
    assert (ROOT / ".github" / "pull_request_template.md").is_file()


@pytest.mark.parametrize("name", [name for name in YAML if "/workflows/" in name])
def test_a_workflow_calls_what_make_offers(name: str) -> None:
    workflow = parsed(name)
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    called = {words[-1] for words in map(str.split, "\n".join(commands).splitlines()) if words[:1] == ["make"]}
    assert called <= targets()
    assert called or "ci" in workflow["jobs"]  # the release runs the jobs of the other workflow
    assert workflow["permissions"] == {"contents": "read"}
    assert all(re.search(r"@(v\d+|release/v\d+)$", step["uses"]) for step in steps(workflow) if "uses" in step)


def test_the_matrix_is_what_the_classifiers_promise() -> None:
    matrix = parsed(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    promised = [c.rsplit(" ", 1)[1] for c in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert matrix["python"] == promised
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos"}


def test_only_the_publishing_job_may_ask_for_a_token() -> None:
    jobs = parsed(".github/workflows/release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert jobs["publish"]["environment"]["url"].rstrip("/").endswith("/" + PROJECT["project"]["name"])
    assert jobs["build"]["needs"] == "ci" and jobs["publish"]["needs"] == "build"


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_issue_form_has_what_github_asks_for(name: str) -> None:
    form = parsed(name)
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(set(names)) == len(names) > 0
    assert all(field["attributes"]["label"] for field in fields)
    assert {field["type"] for field in fields} <= {"textarea", "input", "checkboxes", "dropdown"}


def test_a_bug_comes_with_an_excerpt_and_the_version() -> None:
    required = {
        field["id"] for field in parsed(".github/ISSUE_TEMPLATE/bug.yml")["body"] if field["validations"]["required"]
    }
    assert {"excerpt", "version"} <= required


def test_hooks_call_programs_of_the_environment() -> None:
    (local,) = parsed(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"  # nothing from elsewhere: constraints.txt pins what they call
    assert all(hook["entry"].startswith(".venv/bin/") for hook in local["hooks"])
    assert all(hook["language"] == "system" for hook in local["hooks"])


def test_one_address_and_one_version_everywhere() -> None:
    home = PROJECT["project"]["urls"]["Homepage"]
    version = PROJECT["project"]["version"]
    citation = parsed("CITATION.cff")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert all(url.startswith(home) for url in PROJECT["project"]["urls"].values())
    assert citation["repository-code"] == home
    assert citation["version"] == version
    assert f"## [{version}] - {citation['date-released']}" in changes
    assert f"[{version}]: {home}/releases/tag/v{version}" in changes
    assert citation["license"] == PROJECT["project"]["license"]


def test_the_changelog_is_short() -> None:
    """A merge of an edit of lines that were removed brings all of them back."""
    for section in (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1:]:
        assert len(section.splitlines()) < 200, section[:40]


def pip_commands(*patterns: str) -> list[tuple[str, list[str]]]:
    """What the files of these patterns install with pip: the file, and the words after `pip install`."""
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    commands = ((path, line) for path in paths for line in PIP.findall(path.read_text("utf-8")))
    return [
        (path.relative_to(ROOT).as_posix(), re.findall(r"'[^']*'|\"[^\"]*\"|[^\s'\"]+", line))
        for path, line in commands
    ]


def test_perflog_is_installed_from_what_exists() -> None:
    """PyPI does not have it: a clone, a wheel, or the repository."""
    commands = pip_commands(*TEXTS)
    names = {name for name, _ in commands}
    assert {"README.md", "docs/remote.md", "docs/ci.md", "perflog/cli/commands/mcp.py"} <= names
    named = [(name, word.strip("'\"")) for name, words in commands for word in words if "perflog" in word]
    assert named and [(name, word) for name, word in named if not re.search(r"\.whl$|@ git\+https://", word)] == []


def test_messages_name_packages_of_the_extras() -> None:
    """They work however perflog was installed, as a name of an extra would not."""
    extras = [r for extra in PROJECT["project"]["optional-dependencies"].values() for r in extra]
    packages = {canonical(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in extras}
    commands = pip_commands("perflog/**/*.py")
    assert len(commands) > 5
    for where, words in commands:
        first = canonical(re.split(r"[<>=,]", words[0].strip("'"))[0])
        assert first in packages, (where, words)


def test_everything_that_make_installs_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.partition("==") for line in lines if line and not line.startswith("#")]
    assert all(separator == "==" and version for _, separator, version in pins)
    names = [canonical(name) for name, _, _ in pins]
    assert len(set(names)) == len(names)
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    wanted += PROJECT["build-system"]["requires"]
    needed = {canonical(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in wanted}
    assert needed - set(names) == set()


def test_the_top_of_the_makefile_names_every_target() -> None:
    head = MAKEFILE.partition("\n\n")[0]
    assert {name for name in targets() if f"make {name}" not in head} == {"lint", "types"}  # parts of make test


def test_the_sdist_names_files_that_exist() -> None:
    listed = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in listed if not (ROOT / name.lstrip("/")).exists()] == []
    ours = {path.name for path in ROOT.iterdir() if path.suffix in (".md", ".cff", ".yml", ".yaml")}
    assert ours <= {name.lstrip("/") for name in listed}


def test_no_test_reads_the_clock() -> None:
    """A busy machine is no reason to fail: tests count calls, or wait for events with `support.patience`."""
    clock = re.compile(r"perf_counter|\bmonotonic\(|\btime\.time\(")
    reading = [path for path in TESTS.rglob("*.py") if clock.search(path.read_text("utf-8"))]
    stand_ins = {"support/patience.py", "support/trainer_batch.py", "trainer/test_process.py"}
    assert {path.relative_to(TESTS).as_posix() for path in reading if path != Path(__file__)} == stand_ins
