"""The typed tables: their columns, their Arrow form, where readers put rows, and the store of Parquet files."""
