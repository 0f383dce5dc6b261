"""Log formats as data: line templates, families of lines, and the loader of format files."""
