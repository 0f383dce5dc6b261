"""The application of the server: its addresses, and what they answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.resources import files
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from perflog import plots
from perflog.analysis.compare import compare
from perflog.analysis.run_list import RunList
from perflog.analysis.track import track
from perflog.errors import PerflogError, UsageError
from perflog.log import Log, RunKey, combined
from perflog.metrics import Options, Tables
from perflog.output.presenters import overview_rows
from perflog.output.presenters.runs import runs_sheet
from perflog.output.report import collect
from perflog.output.report.html.page import Page, page_of
from perflog.output.report.html.picture_values import series_of
from perflog.output.report.html.resources import script, style
from perflog.output.sheets import json_text
from perflog.serve import pages
from perflog.serve.guard import PAGE_POLICY
from perflog.serve.source import Snapshot, Source

if TYPE_CHECKING:
    from starlette.requests import Request

_KEPT = 32  # reports that are kept, of runs that have not changed
_TABLES_KEPT = 4  # of runs that are searched for curves
_MOST_TRACKED = 2_000  # runs that are tracked over versions
_MOST_ROWS = 10_000  # of an answer for programs

_Shown = tuple[tuple[str, str, str], ...]  # side, log and id of each run
_T = TypeVar("_T")


def application(source: Source, options: Options | None = None) -> Starlette:
    """Return the application that serves the runs of a source.

    Args:
        source: The runs.
        options: Options of all metrics.
    """
    return _Answers(source, options or Options()).application()


class _Answers:
    """Answers from the runs of a source. Reports are made one at a time, and kept while their runs stay the same."""

    def __init__(self, source: Source, options: Options) -> None:
        self._source, self._options = source, options
        self._making = threading.Lock()
        self._tracks: OrderedDict[_Shown, str] = OrderedDict()
        self._drawing = threading.Lock()
        self._tables: OrderedDict[_Shown, Tables] = OrderedDict()
        self._reports: OrderedDict[_Shown, Page] = OrderedDict()

    def application(self) -> Starlette:
        routes = [
            Route("/", self._page(self._list)),
            Route("/run", self._page(self._run)),
            Route("/compare", self._page(self._comparison)),
            Route("/track", self._page(self._track)),
            Route("/detail", self._json(self._detail)),
            Route("/state", self._json(self._state)),
            Route("/api/runs", self._json(self._runs)),
            Route("/api/overview", self._json(self._overview)),
            Route("/api/compare", self._json(self._compared)),
            *(Route(f"/{name}", partial(_resource, name)) for name in _RESOURCES),
        ]
        return Starlette(routes=routes, exception_handlers={404: _not_found})

    # --- pages ---

    def _page(self, answer: Callable[[Request], Response]) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            try:
                return await run_in_threadpool(answer, request)
            except PerflogError as error:
                text = ": ".join(filter(None, (error.where, error.reason)))
                return _html(pages.error_page(text, error.help), 404)

        return respond

    def _list(self, request: Request) -> Response:
        query = _query(request)
        snapshot = self._source.current()
        try:
            return _html(pages.list_page(self._source.title, snapshot, query))
        except UsageError as error:
            text = "; ".join(filter(None, (error.reason, error.help)))
            return _html(pages.list_page(self._source.title, snapshot, query, text), 400)

    def _run(self, request: Request) -> Response:
        snapshot = self._source.current()
        name = request.query_params.get("run", "")
        return self._report(request, snapshot, {"": snapshot.find(name)})

    def _comparison(self, request: Request) -> Response:
        snapshot = self._source.current()
        return self._report(request, snapshot, _sides(request, snapshot))

    def _track(self, request: Request) -> Response:
        snapshot = self._source.current()
        where, by = (request.query_params.get(name, "").strip() for name in ("where", "by"))
        chosen = RunList(snapshot.facts)
        if where:
            chosen.select(where, None)
        if len(chosen.keys) > _MOST_TRACKED:
            raise UsageError(f"{len(chosen.keys):,} runs are too many", help=f"?where= chooses up to {_MOST_TRACKED:,}")
        with self._making:
            key = ((where, by, snapshot.version),)
            page = _kept(self._tracks, key, _TABLES_KEPT, lambda: self._tracked(snapshot, chosen.keys, where, by))
        return _html(page)

    def _tracked(self, snapshot: Snapshot, keys: Sequence[RunKey], where: str, by: str) -> str:
        options = self._options
        found = track(snapshot.log.select(*keys), by=by or None, warmup=options.warmup, level=options.level)
        return pages.track_page(self._source.title, found, where, by, snapshot)

    def _report(self, request: Request, snapshot: Snapshot, sides: dict[str, Log]) -> Response:
        with self._making:
            page = _kept(self._reports, _shown(sides), _KEPT, lambda: self._made(request, sides))
        address = f"{request.url.path}?{request.url.query}"
        bar = pages.bar(self._source.title, snapshot, address)
        return HTMLResponse(page.written(bar), headers=_NO_FRAMES)

    def _made(self, request: Request, sides: dict[str, Log]) -> Page:
        given: tuple[object, ...] = (sides,) if len(sides) > 1 else tuple(sides.values())
        names = [("run", name) for name in request.query_params.getlist("run")]
        return page_of(collect(*given, options=self._options), f"/detail?{urlencode(names)}")

    def _detail(self, request: Request) -> Any:
        """The lines of a plot of a report, in detail between two places of its x-axis."""
        snapshot, asked = self._source.current(), request.query_params
        names = asked.getlist("run")
        sides = {"": snapshot.find(names[0])} if len(names) == 1 else _sides(request, snapshot)
        plot, window = plots.kind(asked.get("plot", "")), (_real(request, "from"), _real(request, "to"))
        with self._drawing:
            tables = _kept(self._tables, _shown(sides), _TABLES_KEPT, lambda: Tables(combined([*sides.values()])))
            sketch = plot.sketched(plot.rows_to_draw(tables, self._options), tables, self._options, window)
        return series_of(sketch)

    # --- answers for programs ---

    def _json(self, answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            try:
                found = await run_in_threadpool(answer, request)
            except PerflogError as error:
                body = {"error": error.reason, "where": error.where, "help": error.help}
                return JSONResponse(body, 400)
            return found if isinstance(found, Response) else JSONResponse(found)

        return respond

    def _state(self, request: Request) -> dict[str, object]:  # noqa: ARG002
        snapshot = self._source.current()
        return {"version": snapshot.version, "runs": len(snapshot.log), "grows": snapshot.grows}

    def _runs(self, request: Request) -> Response:
        query = _query(request)
        runs = RunList(self._source.current().facts)
        limit = min(_number(request, "limit") or pages.PAGE_ROWS, _MOST_ROWS)
        runs.select(query.where or None, query.sort or None, limit)
        return _json_text(json_text([runs_sheet(runs)]))

    def _overview(self, request: Request) -> Response:
        from perflog.analysis.overview import overview

        snapshot = self._source.current()
        log = snapshot.find(request.query_params["run"]) if "run" in request.query_params else snapshot.log
        return _json_text(json_text(list(overview_rows.overview_sheets(overview(log)))))

    def _compared(self, request: Request) -> Any:
        sides = _sides(request, self._source.current())
        if len(sides) < 2:
            raise UsageError("a comparison needs two runs", help="?run=A&run=B")
        return compare(sides).to_dict()


def _query(request: Request) -> pages.ListQuery:
    return pages.ListQuery(
        request.query_params.get("where", ""), request.query_params.get("sort", ""), _number(request, "page") or 1
    )


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _real(request: Request, name: str) -> float:
    """Return a parameter that is a number."""
    try:
        value = float(request.query_params.get(name, ""))
    except ValueError:
        value = nan
    if not isfinite(value):
        raise UsageError(f"`{name}` is not a number")
    return value


def _shown(sides: dict[str, Log]) -> _Shown:
    return tuple((side, key.log, key.id) for side, log in sides.items() for key in log.run_keys)


def _kept(kept: OrderedDict[_Shown, _T], key: _Shown, most: int, make: Callable[[], _T]) -> _T:
    """Return what is kept for a key, or make it and let go of what was asked for longest ago."""
    value = kept.pop(key) if key in kept else make()
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)
    return value


def _sides(request: Request, snapshot: Snapshot) -> dict[str, Log]:
    """Return the runs that a request names, each under its own name."""
    names = list(dict.fromkeys(request.query_params.getlist("run")))
    if not names:
        raise UsageError("no run is chosen", help="choose two or more in the list")
    if len(names) > pages.MOST_SIDES:
        raise UsageError(f"{len(names)} runs are chosen", help=f"a comparison takes {pages.MOST_SIDES}")
    return {name: snapshot.find(name) for name in names}


_NO_FRAMES = {"content-security-policy": "frame-ancestors 'none'"}
_RESOURCES = {
    "page.css": lambda: style("colors", "page"),
    "pictures.css": lambda: style("pictures"),
    "pictures.js": lambda: script("pictures"),
    "serve.css": lambda: _own("serve.css"),
    "serve.js": lambda: _own("serve.js"),
}
"""Texts of the files that pages load, by name."""


def _html(page: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(page, status, {"content-security-policy": PAGE_POLICY})


def _json_text(lines: Iterable[str]) -> Response:
    return Response("\n".join(lines), media_type="application/json")


async def _resource(name: str, request: Request) -> Response:  # noqa: ARG001
    types = {"css": "text/css", "js": "text/javascript"}
    return Response(_RESOURCES[name](), media_type=types[name.rpartition(".")[2]])


def _own(name: str) -> str:
    return files("perflog.serve").joinpath(name).read_text("utf-8")


async def _not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return _html(pages.error_page("There is no such page"), 404)
