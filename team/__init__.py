"""Peers that work together: identities, mailboxes, shutdown. Empty so far."""

if __name__ != "unspool.team":
    raise ImportError("team/ is not a top-level package: import unspool.team")
