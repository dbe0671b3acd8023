"""A picture as SVG that can stand in a page beside others."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

# Text stays text, which a reader can search and a browser draws in any script. The salt stands in
# for a random one: the same picture gives the same bytes.
_WRITING: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "gofstream"}
_FONTS = "'DejaVu Sans', Verdana, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_LONG = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """Write a figure as an SVG element for an HTML page.

    Parameters
    ----------
    name : unique in the page; every id in the picture begins with it.
    label : what the picture shows, for those who cannot see it.
    """
    buffer = io.BytesIO()
    with mpl.rc_context(_WRITING), warnings.catch_warnings():
        # Only the measuring of a text misses them: the browser has fonts of its own.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", dpi=200)
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            # The styles of a picture would reach the whole page; the page has them.
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(key): _value(key, value, name) for key, value in element.items()}
        if element.tag not in ("text", "tspan"):
            element.text = None
            for child in element:
                child.tail = None
    for size in ("width", "height"):
        root.attrib.pop(size)
    root.set("role", "img")
    root.set("aria-label", label)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _local(name: str) -> str:
    """Take the namespace from a name: HTML knows those of SVG by themselves."""
    return name.rpartition("}")[2]


def _value(key: str, value: str, name: str) -> str:
    """Put the picture's name before an id, and leave out digits finer than can be seen."""
    match _local(key):
        case "id":
            return f"{name}-{value}"
        case "href":
            return value.replace("#", f"#{name}-", 1) if value.startswith("#") else value
        case "style":
            return value.replace("'DejaVu Sans'", _FONTS)
        case "d" | "transform" | "x" | "y":
            return _LONG.sub(lambda digits: f"{float(digits[0]):.2f}", value)
        case _:
            return value.replace("url(#", f"url(#{name}-")
