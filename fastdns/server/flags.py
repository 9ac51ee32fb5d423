"""The command line, in Go's flag syntax: ``-flag value``, ``-flag=value``, ``--flag``."""

from __future__ import annotations

from fastdns.corefile.duration import parse_int

__all__ = ["COMMANDS", "USAGE", "FlagError", "Flags", "parse"]

#: What `fastdns.server.commands` runs instead of a server.
COMMANDS = ("check", "diff", "plan", "explain", "init", "migrate", "recorder", "canary", "shadow", "slo", "top")

USAGE = f"""Usage of fastdns:
  -conf string
    \tCorefile to serve; 'stdin' reads it from standard input (default: ./Corefile if it exists, else a built-in one)
  -dns.port string
    \tport of plain DNS for server blocks without one (default "53")
  -p string
    \tshort for -dns.port (default "53")
  -log-format string
    \tlines of the log: 'text' or 'json' (default "text")
  -pidfile string
    \tfile to write the process id to
  -plugins
    \tlist the plugins that are built in or installed
  -quiet
    \tprint neither zones nor version at start
  -version
    \tprint the version
  -workers int
    \tthreads that serve (default: the CPUs that the process may use, at most 8)
Without serving: fastdns {", ".join(COMMANDS)}; each with -help.
"""

TEXTS = ("conf", "dns.port", "log-format", "p", "pidfile")
#: Attributes of `Flags` that are not named as their flags.
ATTRIBUTES = {"p": "port", "dns.port": "port", "log-format": "log_format"}
BOOLEANS = ("plugins", "quiet", "version")
TRUE = ("1", "t", "T", "true", "TRUE", "True")
FALSE = ("0", "f", "F", "false", "FALSE", "False")


class FlagError(Exception):
    """The command line is malformed. The text and the usage go to standard error, the exit status is 2."""


class Flags:
    """The flags of the command line."""

    def __init__(self) -> None:
        self.conf = ""
        self.help = False
        self.log_format = "text"
        self.port = "53"
        self.pidfile = ""
        self.plugins = False
        self.quiet = False
        self.version = False
        #: 0: as many as there are CPUs, at most 8.
        self.workers = 0
        #: Words that are not flags.
        self.rest: list[str] = []


def parse(words: list[str]) -> Flags:
    """Read the command line without the program's name. Raises FlagError."""
    flags = Flags()
    index = 0
    while index < len(words):
        word = words[index]
        if len(word) < 2 or word[0] != "-":
            break
        index += 1
        if word == "--":
            break
        body = word[2:] if word[1] == "-" else word[1:]
        if not body or body[0] in "-=":
            raise FlagError(f"bad flag syntax: {word}")
        name, separator, value = body.partition("=")
        if name in BOOLEANS:
            setattr(flags, name, _boolean(name, value) if separator else True)
            continue
        if name not in TEXTS and name != "workers":
            if name in ("h", "help"):
                flags.help = True
                return flags
            raise FlagError(f"flag provided but not defined: -{name}")
        if not separator:
            if index == len(words):
                raise FlagError(f"flag needs an argument: -{name}")
            value = words[index]
            index += 1
        if name == "workers":
            flags.workers = _workers(value)
        else:
            setattr(flags, ATTRIBUTES.get(name, name), value)
    flags.rest = words[index:]
    return flags


def _boolean(name: str, value: str) -> bool:
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise FlagError(f'invalid boolean value "{value}" for -{name}: parse error')


def _workers(value: str) -> int:
    try:
        number = parse_int(value)
    except ValueError:
        raise FlagError(f'invalid value "{value}" for flag -workers: parse error') from None
    if not 1 <= number <= 64:
        raise FlagError(f'invalid value "{value}" for flag -workers: must be between 1 and 64')
    return number
