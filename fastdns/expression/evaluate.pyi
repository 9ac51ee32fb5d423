from fastdns.expression.checker import Instruction
from fastdns.setup.config import Config

class Code:
    """An expression in native form."""

    @property
    def source(self) -> str: ...
    def __init__(self, source: str, instructions: list[Instruction]) -> None: ...
    def resolve(self, config: Config) -> None:
        """Looks up the labels of metadata that the expression names; before the chain is published."""

def evaluate_text(code: Code) -> str:
    """The value of an expression that asks nothing of a query, as templates print it. ValueError when it fails."""
