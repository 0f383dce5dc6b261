"""Inputs that are not lines of text: traces and databases. `interface` says what a reader is, `registry` finds one."""
