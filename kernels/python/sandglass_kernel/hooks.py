"""Settings for libraries at the moment they are imported, be it in the zygote or by a cell.

A finder ahead of the others looks for the few names below only, lets the real finders do their work, and calls the
setting once the module has run.
"""
from __future__ import annotations

import importlib.util
import sys


def _pyplot(module) -> None:
    from . import figures
    figures.configure(module)


def _pandas(module) -> None:
    """A model takes a hidden column for an empty one: show up to 50, and say by "..." that there are more."""
    module.set_option("display.max_columns", 50)
    module.set_option("display.width", 160)
    module.set_option("display.max_colwidth", 80)


def _getpass(module) -> None:
    """There is no terminal to ask at; say so as input() does."""

    def getpass(prompt="Password: ", stream=None):
        """Asks nobody: there is no standard input here."""
        print(prompt, end="", file=stream or sys.stderr, flush=True)
        raise EOFError("EOF when reading a line")

    module.getpass = getpass


SETTINGS = {"matplotlib.pyplot": _pyplot, "pandas": _pandas, "getpass": _getpass}


class _Loader:
    """The module's own loader, and the setting after it."""

    def __init__(self, loader, setting):
        self._loader, self._setting = loader, setting

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._setting(module)


class Finder:
    _busy = False

    def find_spec(self, name, path=None, target=None):
        setting = SETTINGS.get(name)
        if setting is None or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, setting)
        return spec


def install() -> None:
    for name, setting in SETTINGS.items():
        if name in sys.modules:
            setting(sys.modules[name])
    sys.meta_path.insert(0, Finder())
