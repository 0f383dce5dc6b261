"""A gate in continuous integration: reads the logs of a change, compares them, says the result where people look."""
