"""Modules import in one direction, between rooms and inside them, and help is light."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

import perflog

# The order of the house, a room a line. A module imports only what stands before it here: the rooms above its own,
# and the modules to its left. A new module takes its place in its room. `room` alone is the package's __init__.py.
LAYOUT = """
errors version arrays grouping lazy_patterns providers entry_points units signals provenance
files: bundled file_names file_lock temporary whole_files remote
tables: nulls arrow row_order schema columns sink parquet sql
tables.store: runs_footer folder commits object_store batch_files rewriting writer __init__
statistics: samples groups warmup students_t effects sessions bootstrap rank_tests two_tests standing_out repeats
statistics: shared_scatter levels shifts growth excursions
formats: vocabulary expressions flops durations figures bars surroundings template tokens openings torn_shapes
formats: token_line number_units object_shapes model plain_lines
formats.families: name_units base step_parts missing_values measured_lines case_lines title_lines header_facts
formats.families: unnamed_values
formats.families: cell_cutting cell_forms checkpoint_lines launch_commands step_headings whole_lines work_lines
formats.families: ended_lines header_columns header_tables json_lines key_value
formats.families.meters: names measured_words line_words bars evaluations text __init__
formats.loader: toml lines header_tables families format_file cache
formats: sample_checks registry
parsing.input: bar_cuts chunks compression containers dict_blocks json_documents limits archives log_names html_tables
parsing.input: notebooks emphasis logger_blocks stamped_lines indents panels rank_names name_prefixes program_headers
parsing.input: process_files source
parsing.input: growing_source followed_file file_lines spilled_input text_lines
parsing.match: numeric figure_counts prefilter rank_labels records opening_block captures fixed_width record_starts
parsing.match: spliced_lines object_lines scanner stamp_layouts line_stamps partial_lines discovery
parsing.match.ordered: __init__ table_cells segments header_rows joined_names table_evidence bar_table bar_roles
parsing.match.ordered: bar_states block_bodies setting_blocks
parsing.match.ordered: indented_headings fact_lines ordered_lines
parsing.failures: kinds origins failure failure_list log_starts stalled_ranks wrapped_lines
parsing.failures: reader rows first_cause __init__
parsing.assemble: column_values printed_times
parsing.assemble.runs: __init__ run_state printed_steps run_failures run_headings run_boundaries run_machine
parsing.assemble.runs: run_tracker line_account
parsing.assemble.runs: figure_account text_blocks
parsing.assemble.ranks: __init__ rank_streams
parsing.assemble: scopes
parsing.assemble.steps: __init__ pending_records step_groups
parsing.assemble: attributed_rows
parsing.assemble.ranks: local_ranks rank_votes rank_rules
parsing.assemble.steps: step_partners step_windows step_repeats timer_lines time_roles inner_counts step_rates
parsing.assemble.runs: run_ends
parsing.assemble.steps: run_clocks phase_counts
parsing.assemble.runs: setting_series
parsing.assemble: matrix_cells table_builder
parsing.assemble.steps: average_windows
parsing.assemble: assembler
log
readers: interface registry companions setting_files rank_files processes odd_numbers
readers.events: __init__ element_types event_columns timestamps string_interning event_table interval_index
readers.events: event_context spill_file key_counts device_names
readers.messages: __init__ protobuf message_columns
readers.trackers: __init__ scalar_series record_files tensorboard wandb
readers.dumps: __init__ plain_pickles dumped_data flight_recorder allocator_snapshot
readers.benchmarks: __init__ commit_runs github_benchmark asv bencher pytorch_benchmarks
readers.chrome: boundaries metadata json_repair kinds arguments argument_columns events worker_pool contents tracks
readers.chrome: scanner trace_processes reader
readers.operators: __init__ arrow_tables execution_trace
readers.xplane: arguments planes events reader
readers.perfetto: packets clocks tracks arguments events reader
readers.databases: __init__ sqlite_pages sqlite
readers.rocprof: kinds symbols events json_reader tables rocpd_reader
readers.nsys: session tables waits memory counters payloads collectives export reader
ingestion: joined_logs detect job_logs unrecognised explained late_formats memory workers forked_scanner ended_runs
ingestion: pipeline together
ingestion.suggest: segments number_extents name_words name_evidence naming number_specs line_shapes shape_merging
ingestion.suggest: line_draft
ingestion.suggest: json_objects headed_tables shared_names table_roles file_text role_evidence verification
ingestion.suggest: __init__
ingestion: batches earlier_states bulk cluster watching following in_memory
opening: __init__ tables_as_logs given_runs
settings: members run_settings name_settings __init__
metrics: directions compared options run_tables row_groups registry settings_by_run run_moments clock_offsets
metrics: step_orders attempts rank_files rank_hosts hardware semantics gpu_rates possible hasty_steps step_counters
metrics: unlabelled_ranks
metrics.profiles: __init__ kernel_categories
metrics.traces: __init__ intervals device_steps iterations device_work traced_steps
metrics: step_series run_rows
metrics.profiles: kernel_names operator_tables kernels ranges allocator
metrics.benchmarks: __init__ server_readings case_titles case_parameters case_tables cases serving server_loads
metrics.benchmarks: collectives node_pairs
metrics.series: __init__ divergence loss_spikes series_ends curves time_to_target epoch_times
metrics.jobs: __init__ last_steps pauses stuck_ranks job_intervals pause_marks attempt_clock usual_steps attempt_end
metrics.jobs: attempt_time timeline goodput step_levels step_drifts time_to_train
metrics.pipelines: __init__ schedule_simulation pipeline schedules
metrics.traces: input_shapes launches call_tree work_tree steady_work
metrics.traces: device_time copies idle_causes launch_delays start_up
metrics.traces.operators: __init__ device_kernels device_ranges device_operators operator_work operator_calls
metrics.traces.operators: operator_efficiency recorded_operators collective_volume host_operators
metrics.traces.collectives: __init__ jobs collective_matching absent_peers collective_wait collective_bandwidth
metrics.traces.collectives: rank_pairs rank_clocks time_loss
metrics.traces.replays: __init__ recorded_waits dependencies path_walk replay what_if scenario_changes critical_path
metrics.traces.replays: own_time idle_calls arrivals rank_replay stage_replay lateness scenarios
metrics.traces.replays: scenario_gains
metrics.traces.over_time: __init__ device_memory memory_holders counters counter_curve memory merged_spans
metrics.traces.over_time: trace_timeline
metrics.step_time: __init__ phase_table communication steps throughput unattributed_time phases matmul_efficiency wait
metrics.step_time: breakdown rank_spread headroom waterfall run_rates
metrics.skew: __init__ imbalance named_ranks ranks hot_experts placement
metrics.what_if: __init__ operation_graph step_replay modelled_jobs whatif
metrics.power: __init__ telemetry device_states lower_clocks unlike_devices energy energy_cases
metrics.many_runs: __init__ sweep versions version_levels history factors scaling_studies scaling scaling_losses
metrics.causes: cause step_causes slow_steps run_causes profile_causes job_causes trace_causes binding __init__
metrics: __init__
analysis: run_names repeats culprits program_starts job_endings equal_curves
analysis: job_hosts job_members run_stops run_filter
analysis.lint: registry wording losses consistency summaries step_times step_parts steps workload ranks profiles
analysis.lint: log_lines endings servers recordings traces __init__
analysis.compare: result_rows whole_jobs sides side_settings left_out operator_trees measures verdicts figures history
analysis.compare: baselines rows headline aa
analysis.compare.explanations: __init__ attribution operators averages warmup_costs cause_changes message_sizes
analysis.compare.explanations: speed_changes
analysis.compare: findings comparison comparing gates ci_formats __init__
analysis.overview: run_groups base_rows run_figures ranks_apart doubts hosts parts outliers
analysis.overview.facts: __init__ stuck what_if scaling_facts sweep_facts energy_facts telemetry_facts
analysis.overview.facts: host_operators version_changes folder_answers device_facts log_facts slow_steps server_facts
analysis.overview.facts: load_facts case_facts reward_facts epoch_facts setting_facts job_course targets
analysis.overview: headline reasons subject next_commands __init__
analysis: slow_members diagnosis live_steps run_list track
plots.drawing: __init__ sketch style palette files notebook_figure canvas heatmaps stacked_bars
plots: registry
plots.training: __init__ breakdown curves experts phases pipeline ranks step_times waterfall job_timeline whatif
plots.traces: __init__ devices counters launches memory kernels ranges trace_timeline critical_path rank_pairs roofline
plots.benchmarks: __init__ sweep collectives node_pairs history scaling server_loads
plots: __init__
output: terminal column_widths sheets screens brief
output.export: event_tracks metric_tracks step_timeline __init__
output.presenters: baselines diagnosis live run_marks aa compare_notes compare compare_screen findings formats metrics
output.presenters: overview runs track overview_rows brief compare_brief
output.report: data comparison_tables cells bars sweep_tables answers job sections sketches collect markdown
output.report.html: resources elements links metric_tables axis_ticks color_scales picture_values pictures plots
output.report.html: overview runs findings comparison page
output.report.html: notebook_answers notebook
output.report: __init__
ci: systems annotations comments kept_store summary gate
mcp: bounds confinement answers worker server
serve: source guard pages app __init__
trainer: phase_clock rank_context log_writer watched_process launch recipes __main__
trainer.models: __init__ collectives moe llama expert_strategies language_model synthetic_task master_weights
trainer: matmul_baseline regenerate training pipeline_training
trainer.printers: __init__ run_header reference_printer original_printers
trainer: kernels language
trainer.printers: pipeline_printers
trainer: pipeline
cli: completion options config progress live_lines
cli.commands: diagnose
cli.commands: watch overview analyze compact compare ci baseline completion aa export lint plot regenerate report rm
cli.commands: query track config demo mcp serve __init__
cli: main
__main__
"""

# Nothing of these while only help is printed: they cost more than the rest of the start-up together.
HEAVY = [
    "anyio",
    "matplotlib",
    "mcp",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "rich",
    "starlette",
    "torch",
    "uvicorn",
    "webbrowser",
]

PACKAGE = ROOT / "perflog"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def order(layout: str) -> list[str]:
    """Dotted names of all modules, in the order of the layout: `tables.schema`; `tables` for tables/__init__.py."""
    modules: list[str] = []
    for line in layout.strip().splitlines():
        room, _, members = line.partition(":")
        if not members:
            modules += line.split()
        for member in members.split():
            modules.append(room.strip() if member == "__init__" else f"{room.strip()}.{member}")
    return modules


ORDER = order(LAYOUT)


def module_of(path: Path) -> str:
    """`tables.schema` for perflog/tables/schema.py, `tables` for perflog/tables/__init__.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in SOURCES}


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, also those inside others. Expressions, which are most of a tree, are left out."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(tree, part, ()):
            yield each
            yield from statements(each)


def imports_of(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and module of each import from perflog, also those inside functions and those for types alone."""
    names: list[tuple[int, str]] = []
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.append((node.lineno, "perflog.<relative>"))  # never written here; one spelling keeps this test short
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # `from perflog.tables import schema` names a module; `from perflog.units import show` does not
                name = f"{node.module}.{alias.name}"
                is_module = name.removeprefix("perflog.") in MODULES
                names.append((node.lineno, name if is_module else node.module or ""))
    ours = [(line, name) for line, name in names if name == "perflog" or name.startswith("perflog.")]
    return [(line, name.removeprefix("perflog").lstrip(".")) for line, name in ours]


def points_back(module: str, tree: ast.AST) -> list[str]:
    """The imports of `module` that do not stand before it in the order. An empty package is not in it."""
    allowed = ORDER[: ORDER.index(module)] if module in ORDER else []
    return [f"line {line}: imports {name or 'perflog'}" for line, name in imports_of(tree) if name not in allowed]


def is_empty_package(module: str) -> bool:
    """Whether a module is the __init__.py of a package that holds a docstring at most."""
    path = PACKAGE.joinpath(*module.split("."), "__init__.py")
    return path.is_file() and len(ast.parse(path.read_text("utf-8")).body) <= 1


def test_every_module_has_its_place() -> None:
    missing = MODULES - set(ORDER) - {""}
    assert {module for module in missing if not is_empty_package(module)} == set(), "not in LAYOUT"
    assert set(ORDER) - MODULES == set(), "in LAYOUT, but not there"
    assert len(ORDER) == len(set(ORDER))


def test_no_import_points_back() -> None:
    found = {}
    for path in SOURCES:
        if path != PACKAGE / "__init__.py":  # the public face: it may name any module, as long as it does so late
            found[module_of(path)] = points_back(module_of(path), ast.parse(path.read_text("utf-8")))
    assert {module: imports for module, imports in found.items() if imports} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import perflog.cli.main",
        "from perflog.cli import main",
        "from perflog.cli.main import main",
        "def f():\n    from perflog.cli.main import main",
        "from . import errors",
        "import perflog",
        "from perflog import read",
    ],
)
def test_an_import_that_points_back_is_found(line: str) -> None:
    assert points_back("units", ast.parse(line))


def test_an_import_of_an_earlier_module_is_fine() -> None:
    assert points_back("units", ast.parse("from perflog.errors import PerflogError\nimport math")) == []


def test_rooms_stand_in_one_place() -> None:
    """A room is not left and entered again: its modules stand together in the order."""
    rooms = [module.partition(".")[0] for module in ORDER]
    entered = [room for room, before in zip(rooms, ["", *rooms], strict=False) if room != before]
    assert len(entered) == len(set(entered))


@pytest.mark.parametrize(
    "code",
    [
        "import perflog",
        "import runpy; sys.argv = ['perflog', '--help']; runpy.run_module('perflog', run_name='__main__')",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    # at exit, because help leaves by SystemExit
    look = f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    code = f"import atexit, sys; atexit.register(lambda: {look}); {code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "[]\n")


_DRAWING = ("matplotlib", "perflog.plots", "perflog.output.report", "duckdb", "scipy", "rich", "torch")
_READING = ("perflog.ingestion.bulk", "perflog.ingestion.pipeline", "perflog.parsing.match", "perflog.readers")
_COMPUTING = ("perflog.metrics", "perflog.analysis.overview", "perflog.analysis.lint", "perflog.analysis.compare")
_FRAMES = ("pandas", "numpy.random")
_LOADING = ("perflog.formats.loader.format_file", "perflog.formats.loader.toml", "tomli")

# What a command leaves out: it takes longer to load than the rest of the command to run.
NOT_LOADED = {
    "runs --format csv": (*_DRAWING, *_READING, *_COMPUTING, *_FRAMES, "perflog.formats", "pyarrow.compute"),
    "runs": (*_DRAWING, *_READING, *_COMPUTING, *_FRAMES, *_LOADING, "pyarrow.compute"),
    "runs --where steps>3 --sort -ingested": (*_DRAWING, *_READING, *_COMPUTING, *_FRAMES, "pyarrow.compute"),
    "show LABEL": (*_DRAWING, *_READING, *_COMPUTING, *_FRAMES, "perflog.formats"),
    "show LABEL steps": (*_DRAWING, *_READING, *_COMPUTING, *_FRAMES, "perflog.formats"),
    "show LOG#1": (*_DRAWING, *_COMPUTING, *_FRAMES, *_LOADING, "pyarrow.parquet"),
    "detect LOG": (
        *_DRAWING,
        *_COMPUTING,
        *_FRAMES,
        *_LOADING,
        "pyarrow.parquet",
        "perflog.log",
        "perflog.ingestion.pipeline",
    ),
    "ingest LOG": (*_DRAWING, *_COMPUTING, *_FRAMES, *_LOADING),
    "lint LOG": (*_DRAWING, *_FRAMES, "pyarrow.parquet", "perflog.analysis.overview", "perflog.analysis.compare"),
    "LOG": (*_DRAWING, "pyarrow.parquet", "fsspec", "s3fs"),
    "analyze LOG steps": (*_DRAWING, "pyarrow.parquet", "perflog.analysis.overview"),
    "compare LOG#1 LOG#2": (*_DRAWING, "pyarrow.parquet", "perflog.analysis.overview"),
    "compare STEPS STEPS": (*_DRAWING, "pandas", "pyarrow.parquet", "perflog.analysis.overview"),
}
"""Modules that a command does not import, with all that is in them, by the words of the command.

LOG stands for a log, STEPS for one without phases, LABEL for a run of the store.
"""


_EACH_IN_A_FORK = """
import json, os, sys
from perflog.cli.main import main
for words, left_out in json.load(sys.stdin):
    if not os.fork():
        answers = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            main(words)
        except SystemExit as ended:
            parts = tuple(f"{name}." for name in left_out)
            loaded = [name for name in sys.modules if name in left_out or name.startswith(parts)]
            os.write(answers, f"{json.dumps([ended.code, loaded])}\\n".encode())
        os._exit(0)
    os.wait()
"""
"""Runs commands in a process that has imported what each of them imports first."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By command: its exit code, and the modules that it loads and should not."""
    store, log = tmp_path_factory.mktemp("store"), ROOT / "tests" / "data" / "training_sweep.txt"
    perflog.ingest(str(log), store=str(store))
    steps = tmp_path_factory.mktemp("logs") / "steps.log"
    steps.write_text("".join(f"step {n} loss {5 - n / 100:.2f} time {500 + n % 7} ms\n" for n in range(40)))
    names = {"LOG": str(log), "STEPS": str(steps), "LABEL": "naive gpt2 16"}
    calls = [
        ([re.sub("^[A-Z]+", lambda name: names[name[0]], word) for word in command.split()], left_out)
        for command, left_out in NOT_LOADED.items()
    ]
    env = os.environ | {"PERFLOG_STORE": str(store)}
    line = [sys.executable, "-c", _EACH_IN_A_FORK]
    done = subprocess.run(
        line, cwd=ROOT, env=env, input=json.dumps(calls), stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(zip(NOT_LOADED, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("command", NOT_LOADED)
def test_a_command_loads_nothing_that_it_does_not_use(command: str, loaded: dict[str, Any]) -> None:
    assert loaded[command] == [0, []]
