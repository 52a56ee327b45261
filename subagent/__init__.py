"""Agents as tools, and handoffs. Empty so far."""

if __name__ != "unspool.subagent":
    raise ImportError("subagent/ is not a top-level package: import unspool.subagent")
