"""Inputs that are not text logs: traces and databases. `interface` says what a reader is, `registry` finds one."""
