"""`perflog serve`: what its pages and answers hold, who may ask, and that it follows its logs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from support.browser import FOUND, browser
from support.commands import run
from support.json_logs import json_log, steady_times
from support.local_server import LocalServer, serving

import perflog
from perflog.serve import pages
from perflog.serve.guard import host_name

HOSTILE = '<img src=x onerror="document.title=1">&\'"'


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three logs, of which one has a name and a setting that are markup."""
    folder = tmp_path_factory.mktemp("logs")
    json_log(folder / "fast.json", steady_times(1, 0.1), {"layers": 4})
    json_log(folder / "slow.json", steady_times(2, 0.2), {"layers": 8})
    json_log(folder / f"{HOSTILE}.json", steady_times(3, 0.3), {"layers": 8, "model": HOSTILE})
    return folder


@pytest.fixture(scope="module")
def server(logs: Path) -> Iterator[LocalServer]:
    with serving(str(logs)) as running:
        yield running


def names(page: str) -> list[str]:
    """The names of the runs that a list shows, in its order."""
    return [unescape(name) for name in re.findall(r'name="run" value="([^"]*)"', page)]


def test_the_list_has_each_run_and_links_to_it(server: LocalServer) -> None:
    page = server.get("/")
    assert page.status == 200
    assert sorted(names(page.text)) == sorted(["fast.json", "slow.json", f"{HOSTILE}.json"])
    assert "<img" not in page.text
    for link in re.findall(r'href="(/run\?[^"]*)"', page.text):
        assert server.get(unescape(link)).status == 200


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"sort": "median_step"}, ["fast.json", "slow.json", f"{HOSTILE}.json"]),
        ({"sort": "-median_step", "where": "layers = 8"}, [f"{HOSTILE}.json", "slow.json"]),
        ({"where": "median_step < 0.15"}, ["fast.json"]),
        ({"where": "layers = 5"}, []),
        ({"where": "layers = 8", "sort": "median_step", "page": 99}, ["slow.json", f"{HOSTILE}.json"]),
    ],
)
def test_runs_are_chosen_and_sorted(server: LocalServer, asked: dict[str, Any], expected: list[str]) -> None:
    assert names(server.get("/", **asked).text) == expected


@pytest.mark.parametrize("where", ["bogus < 3", "layers <", HOSTILE])
def test_a_condition_that_cannot_be_read_is_told(server: LocalServer, where: str) -> None:
    page = server.get("/", where=where)
    assert page.status == 400
    assert 'role="alert"' in page.text and "<img" not in page.text
    assert len(names(page.text)) == 3


def test_long_lists_have_pages(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 2)
    first, second = (server.get("/", sort="median_step", page=page).text for page in (1, 2))
    assert (names(first), names(second)) == (["fast.json", "slow.json"], [f"{HOSTILE}.json"])
    assert "Page 1 of 2" in first and 'href="/?sort=median_step&amp;page=2"' in first


def test_a_run_is_its_report(server: LocalServer, logs: Path) -> None:
    page = server.get("/run", run="slow.json")
    report = perflog.report(logs / "slow.json")
    added = re.compile(r"(?<=<body)[^>]*>(<p .*?</p>)")
    assert added.sub(">", page.text, count=1).replace("; connect-src &#x27;self&#x27;", "") == report
    assert "read at" in page.text and '<a href="/">All runs</a>' in page.text


def test_runs_are_compared_with_the_first_one(server: LocalServer) -> None:
    page = server.get("/compare", run=["fast.json", "slow.json"])
    assert page.status == 200 and "slow.json against fast.json: " in unescape(page.text)
    answer = json.loads(server.get("/api/compare", run=["fast.json", "slow.json"]).text)
    assert answer["sides"] == ["fast.json", "slow.json"]
    (median,) = [row for row in answer["rows"] if (row["metric"], row["statistic"]) == ("step_time", "median")]
    assert median["change"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/run", {"run": "nothing"}, 404),
        ("/run", {}, 404),
        ("/compare", {}, 404),
        ("/compare", {"run": [f"{k}" for k in range(13)]}, 404),
        ("/api/compare", {"run": "fast.json"}, 400),
        ("/api/runs", {"where": "bogus = 1"}, 400),
        ("/run/../../etc/passwd", {}, 404),
        ("/serve.py", {}, 404),
    ],
)
def test_what_is_not_there_is_one_clear_error(
    server: LocalServer, path: str, asked: dict[str, Any], status: int
) -> None:
    answer = server.get(path, **asked)
    assert answer.status == status
    assert "Traceback" not in answer.text
    assert "<h1>:" not in answer.text


def test_reports_of_equal_logs_keep_their_own_names(logs: Path, tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        shutil.copy(logs / "fast.json", tmp_path / name)
        shutil.copy(logs / "slow.json", tmp_path / f"slow-{name}")
        with serving(str(tmp_path / name), str(tmp_path / f"slow-{name}")) as server:
            page = server.get("/compare", run=[name, f"slow-{name}"]).text
            assert f"slow-{name} against {name}" in unescape(page)
            by_id = server.source.current().log.run_keys[0].id
            assert f"slow-{name} against {by_id}" in unescape(server.get("/compare", run=[by_id, f"slow-{name}"]).text)


def test_what_could_not_be_read_is_tried_again(logs: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.json"
    shutil.copy(logs / "fast.json", log)
    with serving(str(log)) as server:
        log.unlink()
        for _ in range(2):
            server.source._looked = -1e9
            assert server.get("/").status == 404
        shutil.copy(logs / "slow.json", log)
        server.source._looked = -1e9
        assert names(server.get("/").text) == ["a.json"]


def test_answers_for_programs_are_those_of_the_commands(server: LocalServer, logs: Path) -> None:
    rows = json.loads(server.get("/api/runs", sort="median_step", limit=1).text)["rows"]
    assert [row["log"] for row in rows] == [str(logs / "fast.json")]
    overview = json.loads(server.get("/api/overview", run="slow.json").text)
    assert overview == json.loads(run("overview", logs / "slow.json", "--format", "json").stdout)


# --- who may ask ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ({"Host": "127.0.0.1:80"}, "GET", 200),
        ({"Host": "LOCALHOST:9"}, "HEAD", 200),
        ({"Host": "[::1]:9"}, "GET", 200),
        ({"Host": "evil.example"}, "GET", 403),
        ({"Host": "127.0.0.1.evil.example"}, "GET", 403),
        ({"Host": ""}, "GET", 403),
        ({"Host": "[::1"}, "GET", 403),
        ({"Host": "localhost", "Origin": "http://localhost"}, "GET", 200),
        ({"Host": "localhost", "Origin": "http://evil.example"}, "GET", 403),
        ({"Host": "localhost", "Origin": "null"}, "GET", 403),
        ({"Host": "localhost", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "GET", 403),
        ({"Host": "localhost", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "GET", 200),
        ({}, "POST", 405),
        ({}, "DELETE", 405),
    ],
)
def test_other_hosts_sites_and_methods_are_refused(
    server: LocalServer, headers: dict[str, str], method: str, status: int
) -> None:
    assert server.get("/state", headers, method).status == status


def test_every_answer_forbids_frames_and_foreign_scripts(server: LocalServer) -> None:
    for path in ("/", "/run?run=fast.json", "/nothing"):
        headers = server.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    assert "'unsafe" not in server.get("/").headers["content-security-policy"]


def test_a_server_for_other_machines_needs_its_token(logs: Path) -> None:
    with serving(str(logs), token="secret") as server:
        assert server.get("/").status == 401
        assert server.get("/", token="wrong").status == 401
        given = server.get("/", token="secret", sort="steps")
        assert (given.status, given.headers["location"]) == (303, "/?sort=steps")
        cookie = given.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert server.get("/", {"Cookie": cookie.partition(";")[0], "Host": "node17"}).status == 200
        assert server.get("/", {"Cookie": "perflog_token=secre"}).status == 401
        assert server.get("//evil.example/", token="secret").headers["location"] == "/evil.example/"


@pytest.mark.parametrize(("host", "name"), [("A.b:80", "a.b"), ("[::1]:80", "::1"), ("", ""), ("[", "")])
def test_names_of_hosts(host: str, name: str) -> None:
    assert host_name(host) == name


# --- details of curves --------------------------------------------------------------------------------------------

LONG = 12_000  # steps, more than a page holds


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(json_log(tmp_path_factory.mktemp("long") / "long.json", steady_times(5, 0.2, LONG)))


@pytest.fixture(scope="module")
def long_server(long_run: Path) -> Iterator[LocalServer]:
    with serving(str(long_run.parent)) as running:
        yield running


def values(packed: Any) -> list[float]:
    return packed if isinstance(packed, list) else [packed["from"] + k * packed["by"] for k in range(packed["n"])]


def detail(server: LocalServer, first: int, last: int) -> dict[str, Any]:
    """The line of steps between two of them."""
    asked: dict[str, Any] = {"run": "long.json", "plot": "steps", "from": first, "to": last}
    (panel,) = json.loads(server.get("/detail", **asked).text)
    line: dict[str, Any]
    (line,) = [line for line in panel.values() if line["label"].startswith("step")]
    return line


@pytest.mark.parametrize(("first", "last"), [(0, 50), (5000, 5400), (11_990, 20_000)])
def test_between_two_steps_each_has_its_value_and_line(
    long_server: LocalServer, long_run: Path, first: int, last: int
) -> None:
    line = detail(long_server, first, last)
    steps = perflog.read(long_run).table("steps").set_index("step")
    wanted = steps[steps["step_time_s"].notna()]
    wanted = wanted.loc[max(first - 1, wanted.index[0]) : min(last + 1, wanted.index[-1])]
    assert "each" not in line
    assert values(line["x"]) == wanted.index.tolist()
    assert line["y"] == pytest.approx((wanted["step_time_s"] * 1e3).tolist(), rel=1e-5)
    assert values(line["lines"]) == wanted["line"].tolist()


def test_a_long_part_has_its_extremes(long_server: LocalServer, long_run: Path) -> None:
    line = detail(long_server, 1000, 11_000)
    times = perflog.read(long_run).table("steps").set_index("step")["step_time_s"].loc[1000:11_000] * 1e3
    assert line["each"] > 1 and len(line["y"]) <= 3000
    assert (min(line["y"]), max(line["y"])) == pytest.approx((times.min(), times.max()), rel=1e-5)


@pytest.mark.parametrize(
    "asked",
    [
        {"plot": "bogus", "from": 0, "to": 1}, {"plot": "steps", "from": "nan", "to": 1}, {"plot": "steps", "to": 1},
        {"plot": "kernels", "from": 0, "to": 1}, {"plot": "steps", "from": 0, "to": 1, "run": "none.json"},
    ],
)  # fmt: skip
def test_details_that_are_not_there_are_refused(long_server: LocalServer, asked: dict[str, Any]) -> None:
    answer = long_server.get("/detail", **{"run": "long.json", **asked})
    assert answer.status == 400 and json.loads(answer.text)["error"]


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason="needs Chromium on the PATH")
def test_a_link_shows_each_of_its_steps(long_server: LocalServer, long_run: Path, tmp_path: Path) -> None:
    steps = perflog.read(long_run).table("steps").set_index("step")
    plot = "[...document.querySelectorAll('figure')].find((one) => one.dataset.plot === 'steps')"
    panel = f"window.perflogPanels.find((one) => one.figure.element === {plot})"
    line = f"{panel}.series.find((one) => one.label.startsWith('step'))"
    look = f"() => {line}.each === 1 ? done(true) : setTimeout(look, 20)"
    fetched = f"new Promise((done) => {{ const look = {look}; look(); }})"
    shown = f"[{line}.x, {line}.y, {line}.lines]"
    with browser(tmp_path / "home") as page:
        page.open(f"{long_server.url}/#run=long.json&steps=6000-6020")
        ready = "window.perflogPanels?.length > 0 && document.readyState === 'complete'"
        page.run(f"new Promise((done) => {{ const look = () => {ready} ? done() : setTimeout(look, 20); look(); }})")
        assert page.run("location.pathname + location.search") == "/run?run=long.json"
        assert page.run(fetched)
        x, y, lines = page.run(shown)
        assert x == list(range(5999, 6022))
        wanted = steps.loc[x]
        assert y == pytest.approx((wanted["step_time_s"] * 1e3).tolist(), rel=1e-5)
        assert lines == wanted["line"].tolist()
        page.run(f"{panel}.show([0, 1])")
        assert page.run(f"{line}.each") > 1
        page.run(f"{panel}.show([0.25, 0.26])")
        address = "new Promise((done) => setTimeout(() => done(location.hash), 400))"
        first, last = map(float, re.findall(r"[\d.]+", page.run(address)))
        assert 0.24 * LONG < first < last < 0.27 * LONG
        assert page.run(fetched)
        assert not page.told("Runtime.exceptionThrown")
        assert not [told for told in page.told("Log.entryAdded") if "Policy" in told["entry"]["text"]]
        page.run("location.hash = '#steps=1-99'")
        assert page.run(f"new Promise((done) => setTimeout(() => done({panel}.valueAt(1)), 100))") == pytest.approx(99)


# --- figures over versions ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Twelve builds; from the seventh on the steps are slower. The program has a hostile name."""
    folder = tmp_path_factory.mktemp("nightly")
    for build in range(12):
        times = steady_times(build, 0.1 if build < 6 else 0.13)
        json_log(folder / f"{build:02}.json", times, {"build": build, "note": HOSTILE})
    with serving(str(folder)) as running:
        yield running


def test_figures_over_versions_are_those_of_track(nightly: LocalServer) -> None:
    page = nightly.get("/track", by="build")
    found = perflog.track(nightly.source.names[0], by="build")
    assert found.changes and page.status == 200
    text = unescape(page.text.replace("<wbr>", ""))
    assert all(sentence in text for sentence in found.sentences)
    assert page.text.count("<figure") == 1 and 'data-plot="history"' in page.text
    assert 'href="/track"' in nightly.get("/").text
    assert nightly.get("/track", by="build", where="build < 3").status == 200
    assert nightly.get("/track", where="bogus <").status == 404


def test_of_too_many_runs_some_are_to_be_chosen(nightly: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.serve.app._MOST_TRACKED", 5)
    refused = nightly.get("/track", by="build")
    assert refused.status == 404 and "12 runs are too many" in refused.text
    assert nightly.get("/track", by="build", where="build < 5").status == 200


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason="needs Chromium on the PATH")
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser_figures_over_versions_answer_to_the_pointer(
    nightly: LocalServer, tmp_path: Path, width: int
) -> None:
    with browser(tmp_path / "home") as page:
        page.open(f"{nightly.url}/track?by=build", width)
        page.run("document.querySelector('svg.plot').focus()")
        for kind in ("keyDown", "keyUp"):
            page.ask("Input.dispatchKeyEvent", type=kind, key="ArrowRight")
        assert page.run("document.getElementById('tip').innerText") != ""
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        assert page.run("document.title") != "1"
        assert page.told("Runtime.exceptionThrown", "Log.entryAdded") == []


# --- logs that grow, the browser, the command ---------------------------------------------------------------------


def test_a_log_that_grows_is_read_again(logs: Path, tmp_path: Path) -> None:
    """Its address stays, though its run id does not."""
    text = (logs / "fast.json").read_text().splitlines(keepends=True)
    growing = tmp_path / "a.json"
    growing.write_text("".join(text[:20]))
    shutil.copy(logs / "slow.json", tmp_path)
    with serving(str(tmp_path)) as server:

        def steps() -> dict[str, int]:
            rows = json.loads(server.get("/api/runs").text)["rows"]
            return {Path(row["log"]).name: row["steps"] for row in rows}

        before = json.loads(server.get("/state").text)["version"]
        assert steps() == {"a.json": 19, "slow.json": 40}
        growing.write_text("".join(text))
        server.source._looked = -1e9  # as if it had looked long ago
        after = json.loads(server.get("/state").text)
        assert after["version"] != before and after["grows"]
        assert steps() == {"a.json": 40, "slow.json": 40}
        assert "read them again" in server.get("/run", run="a.json").text


def test_a_store_that_is_written_is_read_again(logs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    perflog.ingest(logs / "fast.json", store=store)
    with serving(str(store)) as server:
        assert len(names(server.get("/").text)) == 1
        perflog.ingest(logs / "slow.json", store=store)
        server.source._looked = -1e9
        assert len(names(server.get("/").text)) == 2


@pytest.mark.skipif(FOUND is None, reason="no Chromium is installed")
def test_in_a_browser_the_list_follows_and_nothing_of_a_log_runs(logs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(logs, folder)
    with serving(str(folder)) as server, browser(tmp_path / "home") as page:
        page.open(server.url)
        count = "document.querySelectorAll('input[name=run]').length"
        assert page.run(count) == 3
        page.run("document.querySelector('input[name=run]').click()")
        json_log(folder / "new.json", steady_times(9, 0.4), {"layers": 2})
        page.run(f"new Promise(done => setInterval(() => {count} == 4 && done(), 50))")
        assert page.run("document.querySelectorAll('input[name=run]:checked').length") == 1
        assert page.run("document.title") == str(folder)
        for link in page.run("[...document.querySelectorAll('tbody a')].map(a => a.href)"):
            page.open(link)
            assert page.run("document.querySelector('main') !== null && document.title != '1'")
            assert not page.told("Runtime.exceptionThrown")
        scripts = [told["entry"]["text"] for told in page.told("Log.entryAdded")]
        assert not [text for text in scripts if "Content Security Policy" in text]


def test_the_command_prints_its_address_and_ends_with_ctrl_c(logs: Path) -> None:
    import signal

    started = subprocess.Popen(
        [sys.executable, "-m", "perflog", "serve", str(logs), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    line = started.stdout.readline()
    address = re.search(r"http://127\.0\.0\.1:[0-9]+/", line)
    assert address is not None
    with urlopen(f"{address[0]}state") as answer:  # it has begun, and so handles signals
        assert json.load(answer)["runs"] == 3
    started.send_signal(signal.SIGINT)
    started.stdout.close()
    assert started.wait(60) in (0, 130)


def test_a_taken_port_is_one_clear_error(server: LocalServer, logs: Path) -> None:
    done = run("serve", logs, "--port", server.port, code=2)
    assert "cannot listen there: " in done.output and "--port 0" in done.output
