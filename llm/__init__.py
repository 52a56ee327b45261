"""Chat models: one file per wire format, and models that play a script."""

if __name__ != "unspool.llm":
    raise ImportError("llm/ is not a top-level package: import unspool.llm")
