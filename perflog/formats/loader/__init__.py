"""From a TOML file to a `Format`; each error names the line of the file and what to do."""
