"""What is said of an access that no rule, grant or place has decided."""

from .requests import Request
from .scopes import Access


def why_asked(request: Request, access: Access) -> str:
    """Why a person is asked, or a plan has no room for it, where no rule says so."""
    plan = access.plan
    match access.capability:
        case "exec" if plan is not None and plan.unknown:
            return f"the command can't be read for sure: {plan.unknown}"
        case "exec":
            return "it runs a command" if request.code is None else "it runs a program"
        case "write":
            return f"it writes {access.place.given}" if access.place is not None else "it changes something"
        case "network":
            return f"it talks to {access.host or access.url or 'the network'}"
        case "unknown" if request.unclear:
            return f"{request.unclear} can't be read"
        case _:
            return "what it does is not known"
