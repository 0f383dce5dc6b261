"""Options of metrics by keyword."""

from __future__ import annotations

import pytest

from perflog.errors import UsageError
from perflog.metrics.options import Options


def test_keywords_are_options() -> None:
    found = Options.of(warmup=3, targets={"loss": 2.5})
    assert (found.warmup, found.targets, found.level) == (3, {"loss": 2.5}, 0.95)
    assert hash(found) == hash(Options.of(warmup=3)) and found != Options.of(warmup=3)


def test_an_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no option `warm_up`") as caught:
        Options.of(warm_up=3)
    assert "did you mean `warmup`" in str(caught.value.help)
    with pytest.raises(UsageError) as caught:
        Options.of(zzz=3)
    assert "there are: warmup, gpu" in str(caught.value.help)
