"""Figures: they hold the numbers of the metrics, say what they show, and nothing lies over anything else."""

from __future__ import annotations

import inspect
import itertools
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.text import Text
from support import seeds
from support.drawings import check_sketch
from support.paths import ROOT
from support.plotted_logs import LOGS, figure, made, panels, reference, tables
from support.reading import DATA, NAMES

from perflog import metrics, plots
from perflog.cli.main import main
from perflog.errors import PerflogError, UsageError
from perflog.metrics import Options, Tables
from perflog.plots import PLOTS
from perflog.plots.drawing.canvas import envelope, plain, unit_of
from perflog.plots.drawing.heatmaps import coarse
from perflog.plots.drawing.palette import FILLS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOME = ROOT
KINDS = {
    "moe_layer": {"waterfall", "breakdown", "steps", "distribution", "phases", "wait", "loads", "imbalance", "sweep"},
    "moe_layer_early": {"waterfall", "breakdown", "steps", "distribution"},
    "training_sweep": {"waterfall", "breakdown", "steps", "distribution", "sweep"},
    "nvprof": {"breakdown", "kernels", "ranges"},
    "pipeline_layers": {"waterfall", "curves", "steps", "distribution", "imbalance", "layers", "schedule", "schedules"},
}


def kinds(name: str, of: str) -> set[str]:
    """The plots that a log has; cut-downs of one run are no sweep, of one loss no curve, of 3 steps no distribution."""
    missing = {
        "moe_layer": {"sweep", "distribution"},
        "moe_layer_early": {"distribution"},
        "pipeline_layers": {"curves", "distribution"},
    }
    return KINDS[name] - (missing.get(name, set()) if of == "cut_down" else set())


# --- which are possible, and how they look ----------------------------------------------------------------------


@pytest.mark.parametrize("of", LOGS)
@pytest.mark.parametrize("name", NAMES)
def test_possible_kinds_are_those_that_can_be_drawn(name: str, of: str) -> None:
    log = tables(name, of)
    found = {one.name for one in plots.possible(log)}
    assert found == kinds(name, of)
    for kind in set(PLOTS) - found:
        with pytest.raises(UsageError) as caught:
            PLOTS[kind](log)
        assert set(re.findall(r"\w+", caught.value.help.partition(":")[2])) == found


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_is_possible_for_the_logs_themselves(name: str) -> None:
    assert {one.name for one in plots.possible(seeds.log(name))} == KINDS[name]


CASES = [(name, kind) for name in NAMES for kind in sorted(KINDS[name])]


@pytest.fixture(params=CASES, ids="-".join)
def drawn(request: pytest.FixtureRequest) -> tuple[Figure, str]:
    """Each kind of each log, and the name of the log."""
    name, kind = request.param
    return figure(name, kind), f"{name}.txt"


def test_axes_say_what_they_show_and_in_which_unit(drawn: tuple[Figure, str]) -> None:
    found, log = drawn
    assert log in found.get_suptitle()
    for axes in panels(found):
        assert axes.get_title(loc="left") or all("n = " in label.get_text() for label in axes.get_yticklabels())
        assert re.search(r"\((ms|s|us|%)\)$|^(step|layer)$", axes.get_xlabel()), axes.get_xlabel()
        assert axes.get_ylabel() or all(label.get_text() for label in axes.get_yticklabels())
    for axes in set(found.axes) - set(panels(found)):
        assert re.search(r"\((ms|s|us|blocks)\)", axes.get_ylabel())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_sketch_has_what_matplotlib_draws(name: str, kind: str) -> None:
    log = tables(name)
    check_sketch(figure(name, kind), PLOTS[kind].sketched(PLOTS[kind].rows(log, Options()), log, Options()), kind)


def test_all_text_is_on_the_canvas(drawn: tuple[Figure, str]) -> None:
    found, _ = drawn
    canvas = found.bbox.padded(1.5)
    for text in set(found.findobj(Text)) - beyond_limits(found):
        if text.get_visible() and text.get_text().strip():
            box = text.get_window_extent()
            assert canvas.x0 <= box.x0 and canvas.y0 <= box.y0, text
            assert box.x1 <= canvas.x1 and box.y1 <= canvas.y1, text


def beyond_limits(figure: Figure) -> set[Text]:
    """Texts of ticks beyond the limits of an axis: they are there, and not drawn."""
    found: set[Text] = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.majorTicks, *axis.minorTicks):
            if not low <= tick.get_loc() <= high:
                found |= {tick.label1, tick.label2}
    return found


def test_tick_labels_do_not_touch(drawn: tuple[Figure, str]) -> None:
    found, _ = drawn
    unseen = beyond_limits(found)
    for axes in found.axes:
        for axis in (axes.xaxis, axes.yaxis):
            seen = [text for text in axis.get_ticklabels() if text.get_text() and text not in unseen]
            boxes = [text.get_window_extent() for text in seen]
            for one, other in itertools.pairwise(boxes):
                assert not one.padded(-0.5).overlaps(other.padded(-0.5)), (axes.get_title(loc="left"), axis)


def test_legend_and_titles_cover_no_data(drawn: tuple[Figure, str]) -> None:
    found, _ = drawn
    legends = [one.get_window_extent() for one in found.legends]
    titles = [axes._left_title.get_window_extent() for axes in panels(found)]  # type: ignore[attr-defined]
    for box in legends:
        assert not any(box.overlaps(other) for other in [*titles, *(axes.get_window_extent() for axes in found.axes)])
    for at, title in enumerate(titles):
        others = [axes.get_window_extent() for axes in panels(found)] + titles[:at] + titles[at + 1 :]
        assert not any(title.padded(-1).overlaps(other) for other in others), panels(found)[at].get_title(loc="left")


def test_fills_are_told_apart_in_grey() -> None:
    def grey(color: str) -> float:
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        return (0.299 * red + 0.587 * green + 0.114 * blue) / 255

    assert len(set(FILLS)) == len(FILLS)
    for i, (color, hatch) in enumerate(FILLS):
        for other, other_hatch in FILLS[:i]:
            assert hatch != other_hatch or abs(grey(color) - grey(other)) > 0.1, (color, other, hatch)


# --- numbers ----------------------------------------------------------------------------------------------------


# --- text, size, length -----------------------------------------------------------------------------------------


def test_text_of_a_log_is_no_mathtext() -> None:
    label = "a $x_1$ 50 % \\$ \\alpha_b ^ {c} $"
    found = plots.steps(made([0.1] * 20, label))
    title = next(text for text in found.findobj(Text) if "x_1" in text.get_text())
    shown, is_math = title._preprocess_math(title.get_text().splitlines()[0])  # type: ignore[attr-defined]
    assert (shown, is_math) == (label, False)
    assert plots.render(found, "svg") and plots.render(found, "pdf")


def test_signs_the_font_lacks_make_no_warning() -> None:
    assert plain("中文 a\x07\tb") == "\ufffd\ufffd a\ufffd b"
    assert plots.render(plots.steps(made([0.1] * 20, "中文\n\u202e")), "png")


def test_long_text_keeps_both_ends() -> None:
    assert plain("a" * 50 + "b" * 50, 21) == "a" * 13 + "…" + "b" * 7


@pytest.mark.parametrize("values", [[], [np.nan], [0.0], [0.0, np.inf]])
def test_a_unit_is_found_for_any_values(values: list[float]) -> None:
    assert unit_of(values, "s") == ("s", 1.0)


def test_units_of_axes() -> None:
    assert unit_of([0.001, 0.02, np.nan], "s") == ("ms", 1e-3)
    assert unit_of([3e-6], "s") == ("us", 1e-6)
    assert unit_of([0.5], "1") == ("%", 0.01)


def test_long_runs_keep_their_extremes() -> None:
    y = np.random.default_rng(0).normal(1, 0.01, 100_000)
    y[[31_415, 77_777]] = 9, -9
    x, thin, k = envelope(np.arange(100_000.0), y)
    assert k > 1 and len(x) <= 3000
    assert {31_415, 77_777} <= set(x) and {9, -9} <= set(thin)
    assert np.all(np.diff(x) > 0)
    assert np.array_equal(y[x.astype(int)], thin)


def test_coarse_grids_keep_their_largest() -> None:
    grid = np.zeros((3, 5000))
    grid[1, 4999], grid[2, :] = 7, np.nan
    found, k = coarse(grid)
    assert k == (1, 5) and found.shape == (3, 1000)
    assert found[1, -1] == 7 and np.isnan(found[2]).all() and (found[0] == 0).all()


# --- the library's state, files, command --------------------------------------------------------------------------


def test_settings_of_the_user_neither_count_nor_change() -> None:
    log = reference("moe_layer_early")
    usual = plots.render(plots.steps(log), "svg")
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "lines.linewidth": 9}):
        before = dict(mpl.rcParams)
        assert plots.render(plots.steps(log), "svg") == usual
        assert dict(mpl.rcParams) == before


def test_pyplot_is_not_loaded() -> None:
    code = "import sys, perflog, perflog.plots as p; a = 'matplotlib' in sys.modules; "
    code += f"p.steps(perflog.read({str(DATA / 'moe_layer.txt')!r})); print(a, 'matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False\n", "")


@pytest.mark.parametrize(
    ("end", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")]
)
def test_the_command_writes_each_kind_of_file(end: str, magic: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"out.{end}"
    log = str(DATA / "moe_layer.txt")
    done = CliRunner().invoke(main, ["plot", log, "steps", "-o", str(path), "--dpi", "50", "--size", "8x5"])
    assert (done.exit_code, done.output) == (0, f"{path}\n")
    assert path.read_bytes().startswith(magic)


def test_the_command_lists_what_is_possible() -> None:
    done = CliRunner().invoke(main, ["plot", str(DATA / "nvprof.txt")])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()[1:]] == ["breakdown", "kernels", "ranges"]


def test_the_command_draws_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log, other = str(DATA / "training_sweep.txt#1"), str(DATA / "training_sweep.txt#2")
    done = CliRunner().invoke(main, ["plot", log, "distribution", "--with", other])
    assert done.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == [done.output.strip()]
    assert re.fullmatch(r"distribution-[0-9a-f]{12}-1\.png", done.output.strip())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["step"], "did you mean `steps`?"),
        (["kernels"], "no rows in table `kernels`"),
        (["steps", "-o", "a.gif"], "png, svg or pdf"),
        (["steps", "--size", "1x1"], "does not fit"),
        (["steps", "--size", "big"], "width and height in inches"),
    ],
)
def test_what_cannot_be_drawn_is_said(args: list[str], says: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["plot", str(DATA / "moe_layer.txt"), *args])
    assert done.exit_code == 2
    assert says in done.output


def test_a_file_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(PerflogError, match="cannot be written"):
        plots.save(figure("nvprof", "kernels"), tmp_path / "no" / "a.png")


def test_the_docs_have_every_kind() -> None:
    text = (HOME / "docs" / "plots.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    assert sorted(rows) == sorted((one.name, one.metric, one.caption) for one in PLOTS.values())


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_a_plot_documents_itself(plot: plots.Plot) -> None:
    parameters = inspect.signature(plot).parameters
    options = [name for name in Options.__dataclass_fields__ if name not in ("targets", "gpu_hour")]  # no plot has them
    assert list(parameters) == ["logs", "size", *options]
    assert parameters["warmup"].annotation == (int | None) and parameters["level"].default == Options().level
    text = pydoc.plain(pydoc.render_doc(plot))
    assert all(f"{name} (" in text for name in parameters)
    assert (plot.draw.__doc__ or "").partition("\n")[0] in text
    assert all(section in text for section in ("Args:", "Returns:", "Raises:"))
    assert "Example:" in text or plot.name == "device_time"  # no trace is bundled
    assert repr(plot) == f"<plot {plot.name}: {plot.title}; draws metric {plot.metric}>"


def test_unknown_options_are_errors() -> None:
    with pytest.raises(UsageError, match="no option `warm_up`") as caught:
        plots.steps(made([0.1] * 8), warm_up=2)  # type: ignore[arg-type]
    assert "warmup" in caught.value.help


def test_the_list_of_plots_is_one_line() -> None:
    assert repr(PLOTS).startswith(f"<{len(PLOTS)} plots: ") and "\n" not in repr(PLOTS)


def test_every_plot_is_a_function_of_the_package() -> None:
    assert all(getattr(plots, name) is one for name, one in PLOTS.items())
    assert all(one.needs == metrics.get(one.metric).needs for one in PLOTS.values())


def test_tables_will_do_for_a_log() -> None:
    assert panels(plots.steps(Tables(reference("moe_layer_early"))))
