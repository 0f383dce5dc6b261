"""`perflog serve`: the runs of a store, or of logs that may still grow, as pages of a local web server."""
