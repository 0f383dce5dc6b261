"""From records to rows: runs, steps, ranks and the windows of averages filled in."""
