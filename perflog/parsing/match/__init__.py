"""From a chunk of lines to records: which template reads each line, and the values of its fields."""
