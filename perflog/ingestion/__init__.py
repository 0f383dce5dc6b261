"""The whole way of a log: detect its format, read it, and write its tables to a store."""
