"""The typed tables: their schema, their Arrow form, the sinks that take rows, and the store of Parquet files."""
