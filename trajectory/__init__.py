"""Event logs: where the facts of a session are kept."""

if __name__ != "unspool.trajectory":
    raise ImportError("trajectory/ is not a top-level package: import unspool.trajectory")
