"""Names that no file can have."""

from __future__ import annotations

import pytest

from perflog.errors import InputError
from perflog.files.bundled import bundled
from perflog.files.file_names import usable


@pytest.mark.parametrize("name", ["a b", "", "\u00e9", "\udc80"])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert usable(name) == name


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_system_takes_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match="this is not a valid file name"):
        usable(name)


def test_folders_of_data_are_in_the_package_or_next_to_it() -> None:
    assert bundled("formats").parent.name == "perflog"
    assert (bundled("parsers") / "README.md").is_file()
