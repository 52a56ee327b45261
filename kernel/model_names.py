"""Models by name: whoever knows how to make a model of ``provider/model`` says so here.

The kernel knows no provider; ``unspool`` registers its own presets when it is imported.

Read with: ``agent.py`` (the caller).
"""

from collections.abc import Callable

from .ports import ChatModel

_resolvers: list[Callable[[str], ChatModel]] = []


def register_models(resolve: Callable[[str], ChatModel]) -> None:
    """Make models of names with ``resolve`` from now on."""
    _resolvers[:] = [resolve]


def model_of(model: ChatModel | str) -> ChatModel:
    """The model itself, or the one of this name.

    Raises:
        ValueError: nobody makes models of names here.
    """
    if not isinstance(model, str):
        return model
    if not _resolvers:
        raise ValueError(f"model: nobody makes models of names here, give a ChatModel (name={model!r})")
    return _resolvers[0](model)
