"""numba's cache on disk, in a given directory, and for sources that may be in a zip archive.

numba asks a *locator* for the location of a function's machine code and for a stamp of its source. Ours returns the
directory, whose name is derived from the sources (`build`), so nothing in it is ever out of date.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache


def cache_of(function: Callable[..., Any], directory: Path) -> FunctionCache:
    """Return the cache of one function."""

    class Locator:
        """The locator that numba asks."""

        @classmethod
        def from_function(cls, _function: Callable[..., Any], _file: str) -> Locator:
            return cls()

        def ensure_cache_path(self) -> None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

        def get_cache_path(self) -> str:
            return str(directory)

        def get_source_stamp(self) -> str:
            return directory.name

        def get_disambiguator(self) -> str:
            return ""

    class Implementation(CompileResultCacheImpl):
        _locator_classes = (Locator,)

    class Cache(FunctionCache):
        _impl_class = Implementation

    return Cache(function)
