"""Something that happens before a step of the product."""

from collections.abc import Callable
from typing import Any

import pytest


def before(patch: pytest.MonkeyPatch, owner: object, name: str, happen: Callable[..., object]) -> None:
    """Let it happen before each call of the owner's function or method, with the arguments of the call."""
    step = getattr(owner, name)

    def stepped(*arguments: Any, **named: Any) -> Any:
        happen(*arguments, **named)
        return step(*arguments, **named)

    patch.setattr(owner, name, stepped)
