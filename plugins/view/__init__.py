"""view: has a server block answer only queries that its expressions hold for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdns import expression
from fastdns.corefile import CorefileError
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.expression.evaluate import Code

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``view NAME { expr EXPRESSION... }``, once in a block."""
    name, expressions = parse(controller)
    from fastdns.plugins.view._view import ViewFilter

    view = ViewFilter(name, expressions)
    if controller.config.filters:
        raise CorefileError("multiple views defined in server block")
    controller.config.view = name
    controller.config.add_filter(view)
    controller.on_startup(lambda: view.resolve(controller.config))


def parse(controller: Controller) -> tuple[str, list[Code]]:
    """The view's name and its expressions, compiled. Raises CorefileError."""
    name, codes = "", []
    while controller.once():
        name = controller.one_arg()
        while controller.next_block():
            if controller.val() != "expr":
                raise controller.err(f"unknown property '{controller.val()}'")
            try:
                codes.append(expression.compile(" ".join(controller.remaining_args()))[0])
            except expression.ExpressionError as error:
                raise CorefileError(str(error)) from None
    return name, codes
