"""Passes that need the order of the lines: rows of tables under their headers, blocks, states of progress bars."""
