"""perflog works once installed, away from the checkout: from a wheel and editable. The sdist gives the same wheel.

Each goes into a fresh environment. The dependencies are borrowed from the running one, so that nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple

import pytest
from support.paths import ROOT

pytestmark = pytest.mark.slow

LOG = min((ROOT / "tests" / "data").glob("*.txt"), default=None)
WAYS = ["sdist", "editable"]


class Installed(NamedTuple):
    """A fresh environment with perflog in it, and an empty folder to work in."""

    way: str
    bin: Path
    work: Path


def run(*command: object, cwd: Path) -> str:
    """Standard output of a command that must succeed, started without this environment's Python settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PERFLOG_"))}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What each way installs. `build` without --wheel makes the sdist first and the wheel out of it."""
    folder = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    run(*build, folder / "wheel", "--wheel", ROOT, cwd=folder)
    run(*build, folder / "sdist", ROOT, cwd=folder)
    return {"wheel": only(folder / "wheel", "*.whl"), "sdist": only(folder / "sdist", "*.whl"), "editable": ROOT}


@pytest.fixture(scope="module")
def borrowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to all that is installed here except perflog itself."""
    folder = tmp_path_factory.mktemp("borrowed")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "perflog" not in path.name and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module", params=WAYS)
def installed(
    request: pytest.FixtureRequest, built: dict[str, Path], borrowed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    folder = tmp_path_factory.mktemp(request.param)
    work = folder / "work"
    work.mkdir()
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=work)
    python = folder / "venv" / "bin" / "python"
    library = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=work).strip())
    (library / "borrowed.pth").write_text(f"{borrowed}\n")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", "--quiet"]
    install.append("--no-compile")  # only what is imported is compiled then
    editable = ["--no-build-isolation", "--editable"] if request.param == "editable" else []
    run(*install, *editable, built[request.param], cwd=work)
    return Installed(request.param, python.parent, work)


def test_the_version_is_that_of_the_package(installed: Installed) -> None:
    code = "import importlib.metadata as m; print(m.version('perflog-ml'))"
    version = run(installed.bin / "python", "-c", code, cwd=installed.work).strip()
    assert version in run(installed.bin / "perflog", "--version", cwd=installed.work)


def test_the_formats_are_found(installed: Installed) -> None:
    listed = run(installed.bin / "python", "-m", "perflog", "formats", "list", cwd=installed.work)
    names = {path.stem for path in (ROOT / "parsers").glob("*.toml")} - {"common"}  # lines of any log, not a format
    assert names
    assert [name for name in names if name not in listed] == []


def test_the_formats_come_from_where_the_package_is(installed: Installed) -> None:
    code = "import perflog.formats.registry as f; print(f.builtin())"
    folder = Path(run(installed.bin / "python", "-c", code, cwd=installed.work).strip()).resolve()
    home = ROOT if installed.way == "editable" else installed.bin.parent.resolve()
    assert folder.is_relative_to(home)


def test_a_log_is_read_into_a_store(installed: Installed) -> None:
    assert LOG is not None, "no *.txt in tests/data"
    said = json.loads(run(installed.bin / "perflog", "ingest", "--json", "--store", "store", LOG, cwd=installed.work))
    assert "schema_version" in said
    assert list((installed.work / "store" / "runs").rglob("*.parquet"))


def test_the_wheel_of_the_sdist_is_that_of_the_checkout(built: dict[str, Path]) -> None:
    """So what holds for one of them, once installed, holds for the other one."""
    with zipfile.ZipFile(built["wheel"]) as wheel, zipfile.ZipFile(built["sdist"]) as of_sdist:
        contents = [{name: each.read(name) for name in each.namelist()} for each in (wheel, of_sdist)]
    assert contents[0] == contents[1]


def test_the_wheel_holds_the_formats_and_nothing_else_beside_them(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["sdist"]) as wheel:
        names = wheel.namelist()
    inside = {name.removeprefix("perflog/parsers/") for name in names if name.startswith("perflog/parsers/")}
    assert inside == {path.name for path in (ROOT / "parsers").glob("*.toml")} | {"README.md"}
    assert [name for name in names if not name.startswith(("perflog/", "perflog_ml-"))] == []
    assert "perflog/py.typed" in names  # type checkers take the annotations of a package only where it lies


def test_the_description_of_the_wheel_has_no_relative_links(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["sdist"]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(wheel.read(name))
    text = str(metadata.get_payload())
    assert text.startswith("# perflog\n")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    addresses = dict(entry.split(", ") for entry in metadata.get_all("Project-URL", []))
    assert len(links) > 10
    home = addresses["Repository"]
    assert [link for link in links if not link.startswith((f"{home}/blob/main/", f"{home}/raw/main/docs/", "#"))] == []
    assert f"]({home}/raw/main/docs/demo.svg)" in text
