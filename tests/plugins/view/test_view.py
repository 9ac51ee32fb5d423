"""Server blocks that share a zone, chosen by expressions."""

from __future__ import annotations

import dns.flags
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.view import parse
from fastdns.setup import Controller
from tests.plugins.acl.test_tenants import NOBODY, NODE, A, B, prepare
from tests.server import Server
from tests.waiting import until

BLOCK = """{keys} {{
    bind 127.0.0.1
    {view}
    hosts {{
        192.0.2.{number} a.test b.sub.test
    }}
}}
"""


def blocks(*views: str, keys: str = ".:{port}") -> str:
    """A block for each view (an empty text is none), whose address tells its number."""
    return "".join(BLOCK.format(keys=keys, view=view, number=number) for number, view in enumerate(views, 1))


def one(*expressions: str) -> str:
    return "view v {\n" + "".join(f"        expr {expression}\n" for expression in expressions) + "    }"


#: Expression, whether it is true of `a.test A` from 127.0.0.1 over UDP.
TRUTHS = [
    ("name() == 'a.test.'", True),
    ("name() matches '^a\\\\..*'", True),
    ("name() startsWith 'b'", False),
    ("name() endsWith '.test.' and name() contains 'a'", True),
    ("type() in ['A', 'AAAA']", True),
    ("type() not in ['A', 'AAAA']", False),
    ("class() == 'IN' && opcode() == 0", True),
    ("incidr(client_ip(), '127.0.0.0/8')", True),
    ("incidr(client_ip(), '::/0')", False),
    ("not incidr(client_ip(), '10.0.0.0/8')", True),
    ("incidr(client_ip(), 'nonsense')", False),
    ("incidr('nonsense', '10.0.0.0/8') || true", False),
    ("proto() == 'udp'", True),
    ("do()", False),
    ("bufsize() == 512 and size() > 10", True),
    ("id() >= 0 && id() <= 65535", True),
    ("server_ip() == '127.0.0.1'", True),
    ("int(port()) > 0", True),
    ("int(server_port()) == {port}", True),
    ("1", False),
    ("'text'", False),
    ("nil ?? true", True),
    ("1 / 0 > 1", True),
    ("id() % 0 == 1 || true", False),
    ("metadata('view/name') == ''", True),
    ("let n = name(); len(n) > 9 and n[0:1] == 'a'", True),
    ("\"if type() == 'A' { true } else { false }\"", True),
    ("(type() == 'A' ? 1 : 2) == 1", True),
    ("\"any(['x.', 'a.test.'], # == name())\"", True),
    ("\"len(filter(split(name(), '.'), # != '')) == 3\"", True),
    ("name() | upper() == upper('a.test.')", True),
    ("{a: 1}.a == 1 and 3 in 1..5", True),
    ("now().Year() > 2000 and duration('1h') > duration('59m')", True),
    ("0x10 == 16 and 0b11 == 3 and 0o17 == 15 and 1_000 == 1000 and 2 ** 3 == 8", True),
]


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory):
    """A zone for each expression, whose names are below tN.test."""
    corefile = ""
    for number, (expression, _) in enumerate(TRUTHS):
        zone = f"t{number}.test"
        corefile += blocks(one(expression), "", keys=zone + ":{port}").replace("a.test", f"a.{zone}")
    with Server(tmp_path_factory.mktemp("view"), corefile) as server:
        yield server


@pytest.mark.parametrize("number", range(len(TRUTHS)), ids=[text for text, _ in TRUTHS])
def test_truths(truths, number: int) -> None:
    assert truths.answers(f"a.t{number}.test.", "A") == ["192.0.2.1" if TRUTHS[number][1] else "192.0.2.2"]


def test_several_expressions_must_all_hold(serve) -> None:
    server = serve(blocks(one("type() == 'A'", "do()"), one("type() == 'A'"), ""))
    assert server.answers("a.test.", "A") == ["192.0.2.2"]
    assert server.answers("a.test.", "A", want_dnssec=True) == ["192.0.2.1"]


def test_blocks_are_tried_in_order(serve) -> None:
    server = serve(blocks("", one("true")))
    assert server.answers("a.test.", "A") == ["192.0.2.1"]


def test_without_an_expression_a_view_holds(serve) -> None:
    assert serve(blocks("view v", "")).answers("a.test.", "A") == ["192.0.2.1"]


def test_ds_is_the_last_view_that_holds(serve) -> None:
    """As in CoreDNS, where the search for the parent goes on through all blocks of a zone."""
    template = "template IN DS . {{\n  rcode {}\n }}"
    block = ".:{{port}} {{\n bind 127.0.0.1\n {}\n {}\n}}\n"
    codes = (("true", "YXDOMAIN"), ("type() == 'DS'", "YXRRSET"), ("false", "NXRRSET"))
    views = [block.format(f"view v{number} {{\n  expr {text}\n }}", template.format(code)) for number, (text, code) in enumerate(codes)]
    server = serve("".join(views) + "".join(views).replace(".:{port}", "sub.test:{port}"))
    assert server.answers("sub.test.", "DS") == server.answers(".", "DS") == ["YXRRSET"]
    # What is in no other zone goes to the root's blocks from the first one on.
    assert server.answers("other.test.", "DS") == ["YXDOMAIN"]


def test_the_zone_above_is_next(serve) -> None:
    corefile = blocks(one("false"), keys="sub.test:{port}") + blocks(one("proto() == 'tcp'"), keys=".:{port}")
    server = serve(corefile)
    assert server.answers("b.sub.test.", "A", tcp=True) == ["192.0.2.1"]
    assert server.answers("b.sub.test.", "A") == ["REFUSED"]


def test_a_view_reads_its_own_name_where_metadata_is_on(serve) -> None:
    expression = "metadata('view/name') == 'v'"
    server = serve(blocks(one(expression), "metadata\n    " + one(expression), ""))
    assert server.answers("a.test.", "A") == ["192.0.2.2"]


def test_own_namespace(serve) -> None:
    """By name and by address; what is no name of a namespace has no value, and clients that are no pods have no namespace."""
    block = """.:{port} {
    bind 127.0.0.1
    metadata
    VIEW
    kubernetes cluster.local in-addr.arpa {
        manifests {dir}/objects.yaml
        pods verified
    }
}
"""
    server = serve(
        block.replace("VIEW", one("metadata('kubernetes/own-namespace') == 'true'"))
        + ".:{port} {\n bind 127.0.0.1\n metadata\n"
        + one("metadata('kubernetes/own-namespace') == 'false'").replace("view v", "view w")
        + "\n kubernetes cluster.local in-addr.arpa {\n manifests {dir}/objects.yaml\n pods verified\n}\n acl {\n block\n }\n}\n"
        + ".:{port} {\n bind 127.0.0.1\n acl {\n filter\n }\n}\n",
        prepare=prepare,
    )
    own, other, none = "NOERROR aa", "REFUSED", "NOERROR"
    until(lambda: said(server, "db.a.svc.cluster.local.", "A", A) == own)
    for name, rdtype, client, wanted in (
        ("db.a.svc.cluster.local.", "A", B, other),
        ("db.a.svc.cluster.local.", "A", NODE, other),
        ("db.a.svc.cluster.local.", "A", NOBODY, other),
        ("1.0.96.10.in-addr.arpa.", "PTR", A, own),
        ("1.0.96.10.in-addr.arpa.", "PTR", B, other),
        # No pod has the address: it is also of the namespace that names it (plugins/kubernetes/answer/holder).
        ("9.0.1.10.in-addr.arpa.", "PTR", A, own),
        ("cluster.local.", "AXFR", A, other),
        ("svc.cluster.local.", "A", A, none),
        ("77.0.1.10.in-addr.arpa.", "PTR", A, none),
        ("www.elsewhere.test.", "A", A, none),
    ):
        assert said(server, name, rdtype, client) == wanted, (name, client)


def test_aliases_lead_to_the_view_of_their_target(serve) -> None:
    """Also out of a cache: what is behind an alias into another namespace depends on the client."""
    server = serve(
        ".:{port} {\n    bind 127.0.0.1\n    metadata\n"
        + one("metadata('kubernetes/own-namespace') != 'false' or metadata('kubernetes/client-namespace') == 'kube-system'")
        + "\n    cache 30\n    kubernetes cluster.local {\n        manifests {dir}/objects.yaml\n        pods verified\n    }\n}\n"
        + ".:{port} {\n    bind 127.0.0.1\n    acl {\n        block\n    }\n}\n",
        prepare=prepare,
    )
    until(lambda: server.answers("db.a.svc.cluster.local.", "A", source=A) == ["10.96.0.1"])
    for client in (NODE, A, NODE, A):
        found = [record.to_text() for rrset in server.query("theirs.a.svc.cluster.local.", "A", source=client).answer for record in rrset]
        assert found == ["db.b.svc.cluster.local.", "10.96.0.2"][: 2 if client == NODE else 1], client


def said(server: Server, name: str, rdtype: str, client: str) -> str:
    reply = server.query(name, rdtype, source=client, tcp=rdtype == "AXFR")
    return dns.rcode.to_text(reply.rcode()) + (" aa" if reply.flags & dns.flags.AA else "")


def test_metrics_tell_the_view(serve) -> None:
    server = serve(blocks(one("true") + "\n    prometheus 127.0.0.1:{port2}"))
    server.query("a.test.", "A")
    assert 'view="v"' in server.get(int(server.ports["port2"]), "/metrics")


def test_the_pattern_may_come_from_the_client(serve) -> None:
    """Other clients have their answers, whatever it is."""
    view = one("'aab' matches '^' + split(name(), '.')[0] + '$'")
    answer = 'template IN A . {{\n  answer "{{{{ .Name }}}} 60 IN A 192.0.2.{}"\n }}'
    block = ".:{{port}} {{\n bind 127.0.0.1\n {}\n {}\n}}\n"
    server = serve(block.format(view, answer.format(1)) + block.format("", answer.format(2)))
    known = (("a*b", 1), ("aab", 1), ("ab", 2), ("a{2}b", 1), ("[ab]*", 1), ("[ab", 2), ("a**", 2), ("b", 2))
    for name, wanted in known * 3:
        assert server.answers(f"{name}.test.", "A") == [f"192.0.2.{wanted}"], name
    for number in range(300):
        # The backslashes of a name's text are the pattern's, too.
        assert server.answers(f"[^x{number}]{{999}}z{{999}}[^x]{{999}}.test.", "A") == ["192.0.2.2"]
    server.until("a*b.test.", "A", ["192.0.2.1"])


BAD = [
    ("view", "Wrong argument count or unexpected line ending after 'view'"),
    ("view a b", "Wrong argument count or unexpected line ending after 'b'"),
    ("view a\nview b", "this plugin can only be used once per Server Block"),
    ("view a {\n foo\n}", "unknown property 'foo'"),
    ("view a {\n expr foo bar\n}", 'unexpected token Identifier("bar") (1:5)\n | foo bar\n | ....^'),
    ("view a {\n expr foo()\n}", "unknown name foo (1:1)\n | foo()\n | ^"),
    ("view a {\n expr opcode() == 'a'\n}", "invalid operation: == (mismatched types int and string) (1:10)\n | opcode() == 'a'\n | .........^"),
    ("view a {\n expr name() matches '('\n}", "error parsing regexp: missing closing )"),
    ("view a {\n expr name(1)\n}", "too many arguments to call name (1:1)"),
    ("view a {\n expr incidr('a')\n}", "not enough arguments to call incidr (1:1)"),
    ("view a {\n expr incidr(1, 'a')\n}", "cannot use int as argument (type string) to call incidr  (1:8)"),
    ("view a {\n expr 1 +\n}", "unexpected token EOF (1:3)"),
    ("view a {\n expr 'a\n}", "literal not terminated (1:"),
    ("view a {\n expr not 1\n}", "invalid operation: not (mismatched type int) (1:1)"),
    ("view a {\n expr 1 in ['a']\n}", "cannot use int as type string in array (1:3)"),
    ("view a {\n expr all(1, true)\n}", "builtin all takes only array (got int) (1:5)"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text.replace("\n", " ") for text, _ in BAD])
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert message in str(caught.value)


def test_a_corefile_with_a_bad_expression_is_refused(serve) -> None:
    server = serve(blocks(one("foo bar")), wait=False)
    assert server.exit_status() == 1
    assert 'plugin/view: unexpected token Identifier("bar") (1:5)\n | foo bar\n | ....^' in server.log()
