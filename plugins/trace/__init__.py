"""trace: tells Zipkin or Datadog of queries, and of the plugins that they come to."""

from __future__ import annotations

from fastdns.plugins.trace._trace import TraceHandler
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Options", "parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

#: Types of endpoints, and where they are by default.
ENDPOINTS = {"zipkin": "localhost:9411", "datadog": "localhost:8126"}
TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")


class Options:
    """What the directive says."""

    def __init__(self) -> None:
        self.kind = "zipkin"
        self.endpoint = ""
        self.every = 1
        self.service = "coredns"
        self.client_server = False
        self.rate = 0.0
        #: 0: the default.
        self.backlog = self.batch = 0
        self.interval = 0.0


def setup(controller: Controller) -> TraceHandler:
    """``trace [TYPE] [ENDPOINT] { … }``"""
    from fastdns.plugins.trace.reporter import Datadog, Reporter, Zipkin

    options = parse(controller)
    handler = TraceHandler(options.every)
    target: Zipkin | Datadog
    if options.kind == "zipkin":
        config = controller.config
        target = Zipkin(options.endpoint, options.service, config.listen_hosts[0] if config.listen_hosts else "", int(config.port or 0), options.client_server)
    else:
        target = Datadog(options.endpoint, options.service, options.rate)
    handler.reporter = Reporter(handler, target, options.backlog or 1000, options.batch or 100, options.interval or 1.0)
    controller.on_started(handler.reporter.start)
    controller.on_final_shutdown(handler.reporter.finish)
    return handler


def parse(controller: Controller) -> Options:
    """Raises CorefileError, ValueError."""
    options = Options()
    while controller.next():
        arguments = controller.args(0, 2)
        options.kind = arguments[0].lower() if len(arguments) == 2 else "zipkin"
        if options.kind not in ENDPOINTS:
            raise ValueError(f"tracing endpoint type '{options.kind}' is not supported")
        options.endpoint = (arguments[-1] if arguments else "") or ENDPOINTS[options.kind]
        if options.kind == "zipkin" and "http" not in options.endpoint:
            options.endpoint = f"http://{options.endpoint}/api/v2/spans"
        while controller.next_block():
            parse_option(controller, options)
    return options


def parse_option(controller: Controller, options: Options) -> None:
    match controller.val():
        case "every":
            options.every = controller.unsigned(controller.one_arg())
        case "service":
            options.service = controller.one_arg()
        case "client_server":
            arguments = controller.args(0, 1)
            options.client_server = boolean(arguments[0]) if arguments else True
        case "datadog_analytics_rate":
            arguments = controller.args(0, 1)
            options.rate = controller.decimal(arguments[0]) if arguments else 0.0
            if not 0 <= options.rate <= 1:
                raise ValueError(f"datadog analytics rate must be between 0 and 1, '{options.rate:f}' is not supported")
        case "zipkin_max_backlog_size":
            options.backlog = controller.integer(controller.one_arg())
        case "zipkin_max_batch_size":
            options.batch = controller.integer(controller.one_arg())
        case "zipkin_max_batch_interval":
            options.interval = controller.seconds(controller.one_arg())
        case unknown:
            raise controller.err(f"unknown property '{unknown}'")


def boolean(text: str) -> bool:
    if text not in TRUE and text not in FALSE:
        raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in TRUE
