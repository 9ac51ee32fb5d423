from fastdns._mux import NativeHandler
from fastdns.plugins.template import Template
from fastdns.setup.config import Config

class TemplateHandler(NativeHandler):
    """Answers from templates, in their order."""

    def __init__(self, templates: list[Template]) -> None: ...
    def resolve(self, config: Config) -> None:
        """Looks up the labels of metadata that templates and expressions name; before the chain is published."""
