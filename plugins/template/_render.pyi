from fastdns.setup.config import Config

class Source:
    """A template of a section: parsed, and in native form. TemplateError."""

    @property
    def text(self) -> str: ...
    def __init__(self, name: str, text: str) -> None: ...
    def resolve(self, config: Config) -> None:
        """Looks up the labels of metadata that `.Meta` names; before the chain is published."""
