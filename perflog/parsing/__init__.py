"""From the bytes of a log to rows of tables."""
