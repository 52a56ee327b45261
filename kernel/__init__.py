"""The kernel: messages, events, the fold, the loop."""

if __name__ != "unspool.kernel":
    raise ImportError("kernel/ is not a top-level package: import unspool.kernel")
