"""Shows modules as HTML in notebooks: a tree that can be folded, with numbers of parameters."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from .parameter import is_lazy

_OPEN_CHILDREN = 12  # a module with more of them is folded at first
_SOFT = "opacity:0.65;font-size:90%"


def tree(module: Any) -> str:
    """HTML for a module: its children, each with its arguments and its parameters."""
    return (f'<div style="font-family:ui-monospace,monospace;font-size:0.9em;line-height:1.5">'
            f"{_node(module, '')}</div>")


def _node(module: Any, name: str) -> str:
    children = list(module._modules.items())
    head = f"{_bold(name)}{html.escape(module._get_name())}"
    extra = module.extra_repr()
    arguments = f"({html.escape(extra)})" if extra or not children else ""
    line = f'{head}{arguments} <span style="{_SOFT}">{_count(module.parameters())}</span>'
    own = "".join(_parameter(n, p) for n, p in module._parameters.items() if p is not None)
    inner = own + "".join(_node(child, n) for n, child in children if child is not None)
    if not inner:
        return f"<div>{line}</div>"
    shown = " open" if children and len(children) <= _OPEN_CHILDREN else ""
    return (f"<details{shown}><summary>{line}</summary>"
            f'<div style="padding-left:1.4em">{inner}</div></details>')


def _bold(name: str) -> str:
    return f"<b>{html.escape(name)}</b>: " if name else ""


def _parameter(name: str, parameter: Any) -> str:
    kind = "not known yet" if is_lazy(parameter) else f"{parameter.dtype.name}{_shape(parameter)}"
    frozen = "" if parameter.requires_grad else ", frozen"
    return f'<div style="{_SOFT}">{html.escape(f"{name} {kind}{frozen}")}</div>'


def _shape(parameter: Any) -> str:
    return f"[{', '.join(map(str, parameter.shape))}]"


def _count(parameters: Iterable[Any]) -> str:
    known, lazy = 0, False
    for parameter in parameters:
        if is_lazy(parameter):
            lazy = True
        else:
            known += parameter.size
    more = " and more, not known yet" if lazy else ""
    return f"{known:,} parameters{more}"
