"""The ``unspool`` command."""

if __name__ != "unspool.cli":
    raise ImportError("cli/ is not a top-level package: import unspool.cli")
