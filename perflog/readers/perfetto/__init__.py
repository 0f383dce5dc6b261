"""Traces of Perfetto (`*.pftrace`, `*.perfetto-trace`), as its SDK, rocprofv3 and other tools write them."""
