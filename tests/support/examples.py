"""How many examples hypothesis tries for a property. The profiles are in `conftest.py`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(number: int, *, shares_fixtures: bool = False) -> settings:
    """Return settings for `number` examples where a profile tries 100; others try more or fewer in proportion.

    `shares_fixtures`: all examples use the same function-scoped fixtures, such as `tmp_path`, and do no harm to them.
    """
    profile = settings.default
    assert profile is not None, "conftest.py loads a profile"
    suppressed = [*profile.suppress_health_check]
    if shares_fixtures:
        suppressed.append(HealthCheck.function_scoped_fixture)
    return settings(max_examples=max(number * profile.max_examples // 100, 2), suppress_health_check=suppressed)
