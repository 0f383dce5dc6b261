"""`bench/mutant_trials.py`: each kind of change reaches the tests, in a fork or in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

MODULE = """\
from functools import lru_cache, wraps
LIMIT = 3
def logged(function):
    @wraps(function)
    def call(*given):
        return function(*given)
    return call
@logged
def double(value, factor=2):
    return value * factor + 0
def tabulated():
    return [10, 20]
TABLE = tabulated()
class Gauge:
    unit = 1
    @property
    def level(self):
        return self._level + 100
    @level.setter
    def level(self, value):
        self._level = value + 5
def counted(number):
    while number < LIMIT:
        number += 1
    return number
def untested():
    return 7
"""

TESTS = """\
from small.scale import Gauge, LIMIT, TABLE, counted, double
def test_scale():
    gauge = Gauge()
    gauge.level = 1
    assert (gauge.level, gauge.unit, double(4), TABLE[0], counted(1), LIMIT) == (106, 1, 8, 10, 3, 3)
"""

TRIALS = """\
import json, sys
sys.path.insert(0, sys.argv[1])
import mutant_trials
from pathlib import Path
mutant_trials.ALLOWED = 0.3
module = Path("small/scale.py")
text = module.read_text()
codes = [text.replace(old, new, 1) for old, new in json.loads(sys.argv[2])]
print(json.dumps(mutant_trials.Trials(Path.cwd()).verdicts(module, codes, float("inf"))))
print(Path("small/scale.py").read_text() == text)
"""

CHANGES = [
    ("value * factor", "value / factor", "killed"),  # below a decorator
    ("factor + 0", "factor - 0", "survived"),
    ("factor=2", "factor=3", "killed"),  # a default is code of the module
    ("LIMIT = 3", "LIMIT = 4", "killed"),
    ("unit = 1", "unit = 2", "killed"),
    ("[10,", "[11,", "killed"),  # called while the module is imported
    ("20]", "21]", "survived"),
    ("+ 100", "- 100", "killed"),  # two functions of one name
    ("+ 5", "+ 6", "killed"),
    ("number += 1", "number -= 1", "endless"),
    ("return 7", "return 8", "survived"),
]


@pytest.mark.parametrize("passes", [True, False])
def test_each_change_has_its_verdict(tmp_path: Path, passes: bool) -> None:
    checkout = tmp_path / "checkout"
    checkout.joinpath("small").mkdir(parents=True)
    checkout.joinpath("tests").mkdir()
    checkout.joinpath("small/scale.py").write_text(MODULE)
    checkout.joinpath("tests/test_scale.py").write_text(TESTS if passes else TESTS.replace("106", "107"))
    changes = json.dumps([change[:2] for change in CHANGES])
    command = [sys.executable, "-c", TRIALS, str(ROOT / "bench"), changes]
    verdicts, restored = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )[:2]
    assert json.loads(verdicts) == ([verdict for *_, verdict in CHANGES] if passes else None)
    assert restored == "True"
