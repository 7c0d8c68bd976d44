"""Finding the application that `horarium worker app.jobs:h` names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from horarium import errors
from horarium.sdk import client


def load(app: str) -> client.Horarium:
    """The `Horarium` object that `module:attribute` names; ConfigurationError says what is wrong.

    The attribute may be left out when the module has just one. The working directory is searched first.
    """
    module_name, _, attribute = app.partition(":")
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        raise errors.ConfigurationError(f"{app!r} is not an application; write module:attribute, such as app.jobs:h")
    module = _import(module_name)
    found = getattr(module, attribute, None) if attribute else _only_one(module)
    if not isinstance(found, client.Horarium):
        raise errors.ConfigurationError(_explain(app, module, attribute))
    if found.app is None:
        found.app = module_name
    return found


def search_working_directory() -> None:
    """Let modules of the working directory be imported, as `python -m` does."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a module that the application itself imports is missing: its traceback tells where
        raise errors.ConfigurationError(
            f"there is no module {error.name!r} in {Path.cwd()} or on the Python path"
        ) from None


def _objects(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, client.Horarium)]


def _only_one(module: ModuleType) -> object:
    names = _objects(module)
    return getattr(module, names[0]) if len(names) == 1 else None


def _explain(app: str, module: ModuleType, attribute: str) -> str:
    names = _objects(module)
    choice = " or ".join(f"{module.__name__}:{name}" for name in names)
    if not names:
        return f"the module {module.__name__} has no Horarium object; it needs a line like h = Horarium()"
    if not attribute:
        return f"{app} has several Horarium objects; write {choice}"
    return f"{app} is not a Horarium object; did you mean {choice}?"
