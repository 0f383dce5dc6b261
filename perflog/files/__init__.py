"""Files: their names, locks, temporary ones, whole writes, object storage, and those that come with the package."""
