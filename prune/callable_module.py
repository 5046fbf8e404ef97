"""Modules that can be called by their own name, so that ``prune.publish(path)`` works beside ``prune.publish.x``.

Python binds a package's attribute to a submodule the moment anything imports that submodule; a function of the
same name would be there or not by the order of imports.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self)[_last_part(self.__name__)](*args, **kwargs)


def make_callable(module_name: str) -> None:
    """Lets the module be called: ``prune.publish(...)`` is then ``prune.publish.publish(...)``.

    The module must define a function of its own last name. Call it at the end of the module with ``__name__``.
    """
    module = sys.modules[module_name]
    function = vars(module)[_last_part(module_name)]
    module.__class__ = _CallableModule
    module.__doc__ = function.__doc__ or module.__doc__
    vars(module)["__wrapped__"] = function  # inspect.signature and help() then show the function's own


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]
