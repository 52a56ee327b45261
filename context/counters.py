"""Which counter counts for a model.

Read with: ``encodings.py``, ``estimate.py``.
"""

from .encodings import EncodingMissingError, encoding_of, open_encoding
from .estimate import Estimate
from .tokens import TextCounter


async def counter_for(given: TextCounter | str, model: str) -> TextCounter:
    """The counter that is meant by ``given`` for a model: itself, or one by name.

    ``auto`` is the model's encoding where its file is on disk, else an estimate; ``estimate`` is that; any other
    name is an encoding's. Nothing is fetched, and loading does not hold up the event loop.

    Raises:
        EncodingMissingError: an encoding was asked for by name, and its file is nowhere on this machine.
        ValueError: there is no encoding of that name.
    """
    if not isinstance(given, str):
        return given
    if given == "estimate":
        return Estimate()
    if given != "auto":
        return await open_encoding(given)
    try:
        return await open_encoding(encoding_of(model))
    except EncodingMissingError:
        return Estimate()
