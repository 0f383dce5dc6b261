"""All strategies compute what a dense one-process reference computes: outputs, gradients, loads, whole steps."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.paths import TESTS
from support.trainer_ranks import ForkedRanks

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)

pytestmark = pytest.mark.slow

SCRIPT = TESTS / "support" / "trainer_equality.py"
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 5e-2}
WAYS = ["padded", "padded with drops", "dropless", "shadow", "shadow of none"]
WAYS += ["padded overlapped with drops", "dropless overlapped", "shadow overlapped"]
OPTIONS = [f"{way} with all options" for way in ("padded", "dropless", "shadow")]
RANKS = pytest.mark.parametrize("ranks", [1, 2, 4])


@cache
def differences(ranks: int) -> dict[str, float]:
    """By what is compared. Rank 0 prints them."""
    with TemporaryDirectory() as folder:
        started = ForkedRanks(ranks, Path(folder) / "out", str(SCRIPT))
        started.end()
        return dict(json.loads(started.outs[0].read_text()))


@RANKS
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("way", WAYS)
def test_outputs_and_gradients_equal_the_dense_reference(ranks: int, way: str, dtype: str) -> None:
    found = {k: v for k, v in differences(ranks).items() if k.startswith(f"{way} torch.{dtype} ") and "loads" not in k}
    assert len(found) == 5
    assert {k: v for k, v in found.items() if v > TOLERANCE[dtype]} == {}


@RANKS
@pytest.mark.parametrize("way", WAYS)
def test_loads_and_drops_are_counted_exactly(ranks: int, way: str) -> None:
    assert differences(ranks)[f"{way} torch.float64 loads"] == 0


@RANKS
@pytest.mark.parametrize("way", ["dense", "padded", "dropless", "shadow", *OPTIONS])
def test_a_step_of_the_whole_model_has_the_gradients_of_the_mean_loss(ranks: int, way: str) -> None:
    found = {k: v for k, v in differences(ranks).items() if k.startswith(f"{way} model ")}
    assert len(found) == {"dense": 22, "padded": 24, "dropless": 24, "shadow": 24}.get(way, 28)
    assert {k: v for k, v in found.items() if v > 1e-5} == {}


@RANKS
def test_masters_of_bfloat16_parameters_are_equal_on_all_ranks(ranks: int) -> None:
    found = {k: v for k, v in differences(ranks).items() if k.startswith("masters ")}
    assert len(found) == 3 * 23 - 4  # experts differ from rank to rank
    assert {k: v for k, v in found.items() if v > (1e-6 if k.startswith("masters of") else 0)} == {}
