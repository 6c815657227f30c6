"""What one rendering may cost, counted in steps and not in seconds: the same template and values always end alike."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from jinja2 import Environment, nodes, pass_context
from jinja2.runtime import Context

MAX_ITERATIONS: Final = 10_000
"""Of all loops of one rendering of a part together: a long order has hundreds of lines."""
MAX_STEPS: Final = 1_000_000
"""Of one rendering of a part: a second at the very worst. A mail with 300 lines of an order takes 35,000."""
_STEPS_OF_A_USE: Final = 100
"""A filter, test or comparison, whatever it is used on: Babel takes 30 µs to write an amount."""
_CHARACTERS_A_STEP: Final = 5
_STEPS_OF_AN_ITEM: Final = 4
"""`title` takes 0.2 µs a character and `sort` 4 µs an item on a busy machine."""

BUDGET: Final = "_budget"
"""Name under which it stands in a rendering's context; authors' names never begin so."""
BOUNDED: Final = "_bounded"
WEIGHED: Final = "_weighed"


class BoundExceededError(Exception):
    """A rendering wanted more than its share; the message names the bound."""


class Budget:
    """What one rendering has left."""

    __slots__ = ("iterations", "steps")

    def __init__(self) -> None:
        self.iterations = MAX_ITERATIONS
        self.steps = MAX_STEPS

    def rounds(self, items: Iterable[Any], steps: int) -> Iterator[Any]:
        """The items, each of which takes one iteration and these steps."""
        for item in items:
            self.iterations -= 1
            if self.iterations < 0:
                raise BoundExceededError(f"loops of more than {MAX_ITERATIONS} rounds in all")
            self.spend(steps)
            yield item

    def weigh(self, value: Any) -> None:
        """Pay for something that looks at all of a value once or a few times."""
        if isinstance(value, str):
            self.spend(_STEPS_OF_A_USE + len(value) // _CHARACTERS_A_STEP)
        elif isinstance(value, list | tuple | dict):
            self.spend(_STEPS_OF_A_USE + len(value) * _STEPS_OF_AN_ITEM)
        else:
            self.spend(_STEPS_OF_A_USE)

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise BoundExceededError(f"more than {MAX_STEPS} steps: loops or filters over too much")


def charge(tree: nodes.Template, environment: Environment) -> None:
    """Make everything in the tree that can take long draw on the rendering's budget, in place: loops by what is in
    them, filters, tests, comparisons and slices by what they are used on.
    """
    for node in list(tree.find_all((nodes.For, nodes.Filter, nodes.Test, nodes.Compare, nodes.Getitem))):
        match node:
            case nodes.For():
                steps = sum(1 for _ in node.find_all(nodes.Node))
                node.iter = _through(BOUNDED, node.iter, environment, nodes.Const(steps))
            case nodes.Filter(node=inner) if inner is not None:
                node.node = _through(WEIGHED, inner, environment)
            case nodes.Test():
                node.node = _through(WEIGHED, node.node, environment)
                node.args = [_through(WEIGHED, argument, environment) for argument in node.args]
            case nodes.Compare():
                node.expr = _through(WEIGHED, node.expr, environment)
                for operand in node.ops:
                    operand.expr = _through(WEIGHED, operand.expr, environment)
            case nodes.Getitem(arg=nodes.Slice()):
                node.node = _through(WEIGHED, node.node, environment)


def _through(name: str, node: nodes.Node, environment: Environment, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno, environment=environment)


@pass_context
def bounded(context: Context, items: Iterable[Any], steps: int) -> Iterator[Any]:
    budget: Budget = context[BUDGET]
    return budget.rounds(items, steps)


@pass_context
def weighed(context: Context, value: Any) -> Any:
    budget: Budget = context[BUDGET]
    budget.weigh(value)
    return value
