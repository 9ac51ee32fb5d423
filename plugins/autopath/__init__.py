"""``autopath``: completes names along the client's search path on the server's side."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted, system_error
from fastdns.corefile.zone import normalize
from fastdns.setup import Config, Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "read_search", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


@dataclass
class Settings:
    """What the directive says; of several in a block the last counts."""

    zones: list[str] = field(default_factory=list)
    #: The search path of a file, the root at its end; None where a plugin knows it.
    search: list[str] | None = None
    #: That plugin.
    provider: str = ""
    #: Whether the namespace is that in the question, and not that of the client.
    by_question: bool = False


def setup(controller: Controller) -> None:
    """Add the handler; where a plugin knows the paths, it is asked for them once all of the block are set up."""
    settings = parse(controller)
    from fastdns.plugins.autopath._autopath import AutopathHandler

    handler = AutopathHandler(settings.zones, settings.search)
    controller.config.add_handler(handler)
    if settings.provider:
        controller.on_startup(lambda: _connect(handler, controller.config, settings))


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError."""
    settings = Settings()
    while controller.next():
        settings = Settings()
        arguments = controller.remaining_args()
        if not arguments:
            raise CorefileError("no resolv-conf specified")
        *names, source = arguments
        if source.startswith("@"):
            settings.provider = source[1:]
        else:
            controller.reads(source)
            try:
                settings.search = [*read_search(source), "."]
            except OSError as error:
                raise CorefileError(f"failed to parse {quoted(source)}: {system_error(error, path=source)}") from None
        settings.zones = controller.zones(names)
        while controller.next_block():
            _read_property(controller, settings)
    return settings


def _read_property(controller: Controller, settings: Settings) -> None:
    if controller.val() != "namespace_from":
        raise controller.err(f"unknown property '{controller.val()}'")
    origin = controller.one_arg()
    if origin not in ("client", "question"):
        raise controller.err(f"namespace_from must be client or question: {origin}")
    if not settings.provider:
        raise controller.err("namespace_from needs a plugin that knows namespaces, such as @kubernetes")
    settings.by_question = origin == "question"


def read_search(path: str) -> list[str]:
    """The search list of a resolv.conf(5), as names with a final dot: the last of its ``search`` and ``domain`` lines. Raises OSError."""
    search: list[str] = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split()
            if len(words) > 1 and words[0] == "domain":
                search = [words[1]]
            elif words and words[0] == "search":
                search = words[1:]
    return [normalize(name) for name in search]


def _connect(handler: object, config: Config, settings: Settings) -> None:
    provider = settings.provider
    known = config.handler(provider)
    if known is None:
        return
    path = getattr(known, "search_path", None) or getattr(known.plugin, "search_path", None)
    if path is None:
        raise CorefileError(f"plugin/autopath: {provider} does not implement the AutoPather interface")
    if settings.by_question:
        path = getattr(known, "question_path", None)
        if path is None:
            raise CorefileError(f"plugin/autopath: {provider} finds no namespace in a question")
    handler.use(path())  # type: ignore[attr-defined]
