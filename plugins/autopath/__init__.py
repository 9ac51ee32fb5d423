"""``autopath``: completes names along the client's search path on the server's side."""

from __future__ import annotations

from fastdns.corefile import Config, Controller, CorefileError
from fastdns.corefile.errors import quoted, system_error
from fastdns.corefile.zone import normalize

__all__ = ["parse", "read_search", "setup"]


def setup(controller: Controller) -> None:
    """Add the handler; where a plugin knows the paths, it is asked for them once all of the block are set up."""
    zones, search, provider = parse(controller)
    from fastdns.plugins.autopath._autopath import AutopathHandler

    handler = AutopathHandler(zones, search)
    controller.config.add_handler(handler)
    if provider:
        controller.on_startup(lambda: _connect(handler, controller.config, provider))


def parse(controller: Controller) -> tuple[list[str], list[str] | None, str]:
    """Zones, the search path of a file, and the name of the plugin that knows it. Raises CorefileError."""
    zones: list[str] = []
    search: list[str] | None = None
    provider = ""
    while controller.next():
        arguments = controller.remaining_args()
        if not arguments:
            raise CorefileError("no resolv-conf specified")
        *names, source = arguments
        if source.startswith("@"):
            search, provider = None, source[1:]
        else:
            try:
                search, provider = [*read_search(source), "."], ""
            except OSError as error:
                raise CorefileError(f"failed to parse {quoted(source)}: {system_error(error, path=source)}") from None
        zones = controller.zones(names)
    return zones, search, provider


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


def _connect(handler: object, config: Config, provider: str) -> None:
    known = config.handler(provider)
    if known is None:
        return
    path = getattr(known, "search_path", None) or getattr(known.plugin, "search_path", None)
    if path is None:
        raise CorefileError(f"plugin/autopath: {provider} does not implement the AutoPather interface")
    handler.use(path())  # type: ignore[attr-defined]
