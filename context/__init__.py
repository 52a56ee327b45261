"""Context managers: what a model sees of a long transcript. Empty so far; the kernel's own
manager (``unspool.kernel.PassThrough``) shows everything."""

if __name__ != "unspool.context":
    raise ImportError("context/ is not a top-level package: import unspool.context")
