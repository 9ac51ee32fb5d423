from fastdns.expression.checker import Instruction
from fastdns.setup.config import Config

class Code:
    """A compiled expression, which native handlers evaluate."""

    @property
    def source(self) -> str: ...
    def __init__(self, source: str, instructions: list[Instruction]) -> None: ...
    def resolve(self, config: Config) -> None:
        """Look up the metadata labels that the expression names. Called by the plugin's start-up hook, before the chain is published."""

def evaluate_text(code: Code) -> str:
    """The value, as templates print it, of an expression that does not refer to a query. Raises ValueError when the evaluation fails."""
