"""What a plugin's set-up reads: spec sections 7 and 8."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.setup import Controller


def test_reading_arguments_and_blocks() -> None:
    controller = Controller.of("cache 30 a.org {\n success 9 5\n nothing\n}\ncache b.org\n")
    seen: list[object] = []
    while controller.next():
        seen.append((controller.val(), controller.line(), controller.remaining_args()))
        while controller.next_block():
            seen.append((controller.val(), controller.remaining_args()))
    assert seen == [("cache", 1, ["30", "a.org"]), ("success", ["9", "5"]), ("nothing", []), ("cache", 5, ["b.org"])]
    assert controller.nesting == 0


def test_inner_blocks() -> None:
    controller = Controller.of("x {\n a {\n  b 1\n  c {\n   d\n  }\n }\n e\n}")
    seen = []
    assert controller.next()
    while controller.next_block():
        seen.append(controller.val())
        depth = controller.nesting
        while controller.next_inner(depth):
            seen.append(" ".join([controller.val(), *controller.remaining_args()]))
            inner = controller.nesting
            while controller.next_inner(inner):
                seen.append(controller.val())
    assert seen == ["a", "b 1", "c", "d", "e"]


def read_all(controller: Controller) -> None:
    while controller.next():
        while controller.next_block():
            controller.remaining_args()


@pytest.mark.parametrize("text", ["x {", "x {\n", "x {\n a", "x {\n a b {\n"])
def test_blocks_without_end(text: str) -> None:
    controller = Controller.of(text)
    with pytest.raises(CorefileError, match="Unexpected EOF"):
        read_all(controller)


def test_empty_block_and_brace_on_the_next_line() -> None:
    controller = Controller.of("x {\n}\nx\n{\n}")
    assert controller.next()
    assert not controller.next_block()
    assert controller.next()
    assert controller.val() == "x"
    assert not controller.next_block()


def test_next_line() -> None:
    controller = Controller.of("a b\nc")
    assert controller.next()
    assert not controller.next_line()
    assert controller.next_arg()
    assert not controller.next_arg()
    assert controller.next_line()
    assert controller.val() == "c"


ERRORS = [
    ("err", "Testfile:1 - Error during parsing: text"),
    ("arg_err", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'x'"),
    ("syntax_err", "Testfile:1 - Syntax error: Unexpected token 'x', expecting 'text'"),
    ("eof_err", "Testfile:1 - Error during parsing: Unexpected EOF"),
]


@pytest.mark.parametrize(("name", "expected"), ERRORS)
def test_error_texts(name: str, expected: str) -> None:
    controller = Controller.of("x")
    assert controller.next()
    make = getattr(controller, name)
    error = make("text") if name in ("err", "syntax_err") else make()
    assert (str(error), error.file, error.line) == (expected, "Testfile", 1)


def test_arg_err_at_a_brace() -> None:
    controller = Controller.of("x {\n}")
    assert controller.next()
    assert controller.next_arg()
    assert str(controller.arg_err()) == "Testfile:1 - Error during parsing: Unexpected token '{', expecting argument"


def test_once() -> None:
    controller = Controller.of("x\nx")
    assert controller.once()
    with pytest.raises(CorefileError, match=r"^this plugin can only be used once per Server Block$"):
        controller.once()


def test_argument_counts() -> None:
    cases = [("x", "one_arg", ()), ("x a b", "one_arg", ()), ("x a", "no_args", ()), ("x", "args", (1,)), ("x", "arg", ())]
    for text, method, arguments in cases:
        controller = Controller.of(text)
        assert controller.next()
        with pytest.raises(CorefileError, match="Wrong argument count"):
            getattr(controller, method)(*arguments)
    controller = Controller.of("x a b")
    assert controller.next()
    assert controller.args(1, 2) == ["a", "b"]


def test_zones_and_keys() -> None:
    controller = Controller.of("x", ["A.org", "10.0.0.0/15:54", "tls://b.org"])
    assert controller.server_block_keys == [
        "dns://a.org.:53",
        "dns://0.10.in-addr.arpa.:54",
        "dns://1.10.in-addr.arpa.:54",
        "tls://b.org.:853",
    ]
    assert controller.key == "dns://a.org.:53"
    assert controller.zones([]) == ["a.org.", "0.10.in-addr.arpa.", "1.10.in-addr.arpa.", "b.org."]
    assert controller.zones(["C.org:53", "x..y", "10.0.0.0/8"]) == ["c.org.", "10.in-addr.arpa."]


def test_fallthrough_and_paths() -> None:
    controller = Controller.of("fallthrough\nfallthrough a.org B.org")
    assert controller.next()
    assert controller.fallthrough() == ["."]
    assert controller.next()
    assert controller.fallthrough() == ["a.org.", "b.org."]
    assert controller.path("db") == "db"
    controller.config.root = "/etc/dns"
    assert controller.path("db") == "/etc/dns/db"
    assert controller.path("/db") == "/db"


def test_values() -> None:
    controller = Controller.of("x")
    assert controller.duration("1500ms") == 1_500_000_000
    assert controller.seconds("1500ms") == 1.5
    assert controller.integer("-3") == -3
    assert controller.unsigned("3", 8) == 3
    assert controller.decimal("0.5") == 0.5
