"""Runs of a log: where they begin and end, their settings, the counts of their lines and figures, their failures."""
