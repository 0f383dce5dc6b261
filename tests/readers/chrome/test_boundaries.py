"""Where the elements of a JSON array begin and end."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.chrome.boundaries import scan_elements


@given(st.text(st.sampled_from('{}[]"\\,a'), max_size=40))
def test_brackets_in_strings_do_not_count(text: str) -> None:
    events = [json.dumps({"name": text}), json.dumps([text, {"x": [text]}]), json.dumps({text: 1})]
    data = (", ".join(events) + "]tail").encode()
    elements = scan_elements(data)
    cut = [data[a:b].decode() for a, b in zip(elements.starts, elements.ends, strict=True)]
    assert cut == events and data[elements.close :] == b"]tail"
