"""Statistics of plain numbers: centre, spread, warm-up, bootstrap, rank tests. Nothing here depends on logs."""
