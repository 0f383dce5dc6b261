"""SQLite files, read column by column."""
