"""trace: tells Zipkin, Datadog or a collector of OpenTelemetry of queries, and of the plugins that they come to."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastdns.corefile import CorefileError
from fastdns.plugins.trace._trace import TraceHandler
from fastdns.setup import Controller
from fastdns.setup.extras import extra_package
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.plugins.trace.reporter import Endpoint

__all__ = ["Options", "parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

#: Types of endpoints, and where they are by default.
ENDPOINTS = {"zipkin": "localhost:9411", "datadog": "localhost:8126", "otlp": "localhost:4318"}
#: Of OTLP over HTTP.
OTLP_PORT, OTLP_PATH = 4318, "/v1/traces"
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
    from fastdns.plugins.trace.reporter import Reporter

    options = parse(controller)
    handler = TraceHandler(options.every, options.kind == "otlp")
    handler.reporter = Reporter(handler, endpoint_of(controller, options), options.backlog or 1000, options.batch or 100, options.interval or 1.0)
    controller.on_started(handler.reporter.start)
    controller.on_final_shutdown(handler.reporter.finish)
    return handler


def endpoint_of(controller: Controller, options: Options) -> Endpoint:
    """Raises ValueError."""
    from fastdns.plugins.trace.endpoints import Datadog, Zipkin

    match options.kind:
        case "zipkin":
            config = controller.config
            host = config.listen_hosts[0] if config.listen_hosts else ""
            return Zipkin(options.endpoint, options.service, host, int(config.port or 0), options.client_server)
        case "datadog":
            return Datadog(options.endpoint, options.service, options.rate)
    from fastdns.plugins.trace.otlp import Otlp

    return Otlp(options.endpoint, options.service)


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
        elif options.kind == "otlp":
            options.endpoint = otlp_url(options.endpoint)
            import_otlp(controller)
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


def import_otlp(controller: Controller) -> None:
    """Raises CorefileError where OpenTelemetry's library is not there."""
    try:
        with extra_package("opentelemetry-exporter-otlp-proto-http", "otlp", "otlp"):
            import_module("fastdns.plugins.trace.otlp")
    except CorefileError as error:
        raise controller.err(str(error)) from None


def otlp_url(endpoint: str) -> str:
    """Of a host with or without a port, or of a URL with or without a path. Raises ValueError."""
    is_url = "://" in endpoint
    try:
        parts = urlsplit(endpoint if is_url else f"http://{endpoint}")
        port = parts.port
    except ValueError:
        raise ValueError(f"tracing endpoint '{endpoint}' is not supported") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"tracing endpoint '{endpoint}' is not supported")
    if not is_url and port is None:
        parts = parts._replace(netloc=f"{parts.netloc.removesuffix(':')}:{OTLP_PORT}")
    if parts.path in ("", "/"):
        parts = parts._replace(path=OTLP_PATH)
    return parts.geturl()


def boolean(text: str) -> bool:
    if text not in TRUE and text not in FALSE:
        raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in TRUE
