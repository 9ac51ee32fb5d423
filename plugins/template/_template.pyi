from fastdns._mux import NativeHandler
from fastdns.corefile.config import Config
from fastdns.plugins.template import Template

class TemplateHandler(NativeHandler):
    """Answers from templates, in their order."""

    def __init__(self, templates: list[Template]) -> None: ...
    def resolve(self, config: Config) -> None:
        """Looks up the labels of metadata that templates and expressions name; before the chain is published."""
