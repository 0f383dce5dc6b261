"""Statistics of plain numbers: centre, spread, warm-up, bootstrap, rank tests. Knows nothing of logs."""
