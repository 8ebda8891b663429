"""What the component exports."""

from __future__ import annotations

import sys
from typing import Any

if sys.platform == "wasi":
    # Now and not in the functions: there are no files to import from once the component is built.
    from . import _wit as _bridge
else:
    _bridge: Any = None


class Tools:
    """The interface ``tools``, which componentize-py looks for in the plugin's module.

    `tool` puts it there. A plugin whose tools are all in other modules imports it: ``from layby import Tools``.
    """

    def list_tools(self) -> Any:
        return _bridge.list_tools()

    def call_tool(self, name: str, arguments: str) -> Any:
        return _bridge.call_tool(name, arguments)
