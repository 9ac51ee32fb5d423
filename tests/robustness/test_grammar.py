"""Random Corefiles from a grammar: no server ends, no query stays unanswered, and a rule says the same natively and in Python."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import pytest

from fastdns.server import control
from fastdns.setup import registry
from fastdns.testing import Upstream
from tests.plugins.cache.scripted import Script, texts
from tests.server import Server
from tests.waiting import REPLY

RULES = Path(__file__).with_name("rules")

ZONES = ("a.test", "b.a.test", "c.test", ".", "2.0.192.in-addr.arpa")
NAMES = (
    *("www.a.test.", "x.b.a.test.", "a.test.", "WWW.c.test.", "nosuch.c.test.", "localhost.", "other.example.", ".", "a.b.c.d.e.b.a.test."),
    *("1.2.0.192.in-addr.arpa.", "alias.z.test.", "loop.z.test.", "x.wild.z.test.", "x.cut.z.test.", "z.test.", "xn--nxasmq6b.c.test.", "\\000\\255.a.test."),
)
TYPES = ("A", "AAAA", "MX", "TXT", "SRV", "PTR", "SOA", "ANY", "HTTPS", "DS", "CNAME", "TYPE65280")
SOURCES = ("127.0.0.1", "127.0.0.2", "127.0.1.1")
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"use_edns": 0}, {"want_dnssec": True, "payload": 512}, {"use_edns": 0, "payload": 4096})

ZONE = """$ORIGIN z.test.
@ 60 IN SOA ns hostmaster 1 60 60 60 60
@ IN NS ns
ns IN A 192.0.2.53
alias IN CNAME www.a.test.
loop IN CNAME loop2
loop2 IN CNAME loop
*.wild IN TXT "wild"
*.wild IN MX 10 www.c.test.
cut IN NS ns.cut
ns.cut IN A 192.0.2.54
big IN TXT {text}
""".format(text=" ".join(f'"{"x" * 250}"' for _ in range(9)))

PODS = """apiVersion: v1
kind: Pod
metadata: {name: one, namespace: shop, labels: {app: web, tier: front}}
status: {podIP: 127.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: two, namespace: lab, labels: {app: db}}
status: {podIP: 127.0.0.2}
"""

#: How many Corefiles, and queries to each: some always, all of them with the slow tests.
CASES = [(seed, 200) for seed in range(5)] + [pytest.param(seed, 2000, marks=pytest.mark.slow) for seed in range(100)]


class Grammar:
    """Corefiles out of the plugins that are built. None drops queries, so that every query has a reply."""

    def __init__(self, seed: int, upstream: str) -> None:
        self.random = random.Random(seed)
        self.upstream = upstream
        # Each stands in a block at most once, in any order: the chain has an order of its own.
        self.steps: dict[str, Callable[[], str]] = {
            "errors": lambda: "",
            "log": lambda: "",
            "prometheus": lambda: "127.0.0.1:{port9}",
            "cancel": lambda: "5s",
            "bufsize": lambda: str(self.random.randint(512, 4096)),
            "any": lambda: "",
            "minimal": lambda: "",
            "metadata": lambda: "",
            "nsid": lambda: "server",
            "chaos": lambda: "",
            "local": lambda: "",
            "loadbalance": lambda: "",
            "loop": lambda: "",
            "shed": lambda: "",
            "rrl": lambda: "",
            "recorder": lambda: self.pick("1MiB", "1MiB {\n  slow 1ns\n }", "2M {\n  names hash 1\n  clients 24 56\n }"),
            "shadow": lambda: self.pick(self.upstream, f"{self.upstream} 50%", f"{self.upstream} {{\n  rate 10\n  timeout 50ms\n }}"),
            "cookies": lambda: "",
            "debug": lambda: "",
            "acl": lambda: self.acl()[0],
            "blocklist": lambda: "{dir}/ads" + self.random.choice((" {\n  answer refused\n }", " {\n  answer 0.0.0.0 ::\n  allow x.b.a.test\n }", "")),
            "filter_aaaa": lambda: self.pick("", "{\n  family 4\n }", "b.a.test {\n  always\n }", "{\n  always no_lookup\n  break_dnssec\n }"),
            "filter_a": lambda: self.pick("", "{\n  net 127.0.0.2 127.0.1.0/24\n  except a.test\n }"),
            "fqdn_policy": lambda: "{dir}/none" + self.random.choice((" a.test", " {\n  timeout 5ms\n }", "")),
            "cache": self.cache,
            "dns64": lambda: "{\n  allow_ipv4\n" + self.random.choice(("  translate_all\n", "")) + " }",
            "siit": lambda: self.pick("", "{\n  ipv6_prefix 2001:db8::/96\n }", "{\n  eam 192.0.2.9 2001:db8::1\n }"),
            "header": self.header,
            "hosts": lambda: self.hosts()[0],
            "file": lambda: "{dir}/z.test z.test" + self.random.choice((" {\n  fallthrough\n }", "")),
            "rewrite": self.rewrite,
            "template": lambda: self.template()[0],
            "plugin": self.plugin,
        }
        self.steps = {name: make for name, make in self.steps.items() if built(name)}

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    # ---- rules, also as the arguments of one in Python ----

    def acl(self) -> tuple[str, str]:
        zone = self.pick(*ZONES)
        lines, words = [], []
        for _ in range(self.random.randint(1, 4)):
            action, types, networks = self.pick("allow", "block", "filter"), self.pick("", "A MX", "TXT"), self.pick("", "127.0.0.2", "127.0.0.0/24 ::/0")
            lines.append(f"  {action}{' type ' * bool(types)}{types}{' net ' * bool(networks)}{networks}\n")
            words.append(f"{action};{types.replace(' ', ',')};{networks.replace(' ', ',')}")
        return f"{zone} {{\n{''.join(lines)} }}", f"{zone} {' '.join(words)}"

    def hosts(self) -> tuple[str, str]:
        names = ("www.a.test", "x.b.a.test", "www.c.test", "localhost")
        lines = [(name, self.pick("192.0.2.1", "192.0.2.2", "2001:db8::1")) for name in names if self.random.random() < 0.6] or [(names[0], "192.0.2.1")]
        return (
            "/dev/null {\n" + "".join(f"  {address} {name}\n" for name, address in lines) + "  fallthrough\n }",
            " ".join(f"{name}={address}" for name, address in lines),
        )

    def template(self) -> tuple[str, str]:
        qtype, rdata = self.random.choice((("A", "192.0.2.9"), ("TXT", "some"), ("MX", "10 mail.test."), ("ANY", "")))
        zone, pattern = self.pick(*ZONES), self.pick("^x[.]", "www", "[.]b[.]|nosuch")
        answer = f'  answer "{{{{ .Name }}}} 60 IN {qtype} {rdata}"\n' if rdata else ""
        rcode = self.pick("NOERROR", "NXDOMAIN", "REFUSED")
        return (
            f"IN {qtype} {zone} {{\n  match {pattern}\n{answer}  rcode {rcode}\n  fallthrough\n }}",
            f"{qtype} {zone} {pattern} {rcode} {rdata}".rstrip(),
        )

    def rename(self) -> tuple[str, str]:
        source, target = self.random.sample(("www.a.test", "www.c.test", "x.b.a.test", "nosuch.c.test"), 2)
        rule = self.pick(f"name {source} {target}", f"name {source} {target}", "type MX A", "type TXT AAAA")
        return rule.replace("name", "name exact") + " answer auto" * rule.startswith("name"), rule

    # ---- what stands in test_every_query_is_answered only ----

    def acl_of_pods(self) -> str:
        lines = []
        kinds = ("namespace shop", "namespace lab none", "label app=web app=db", "label tier=front", "label none=")
        for _ in range(self.random.randint(1, 4)):
            conditions = [
                *self.random.sample(kinds, self.random.randint(0, 3)),
                *self.random.sample(("type A MX", "net 127.0.0.0/24"), self.random.randint(0, 1)),
            ]
            lines.append(f"  {self.pick('allow', 'block', 'filter')} {' '.join(conditions)}\n")
        return f" acl {self.pick(*ZONES)} {{\n{''.join(lines)} }}\n kubernetes k.test {{\n  manifests {{dir}}/pods.yaml\n  pods verified\n }}"

    def cache(self) -> str:
        return self.pick("", "5", "30 {\n  serve_stale\n }", "{\n  success 1024 5\n  denial 1024 1\n }", "30 {\n  prefetch 1 1m 90%\n }", "30 {\n  keepttl\n }")

    def header(self) -> str:
        return f"{{\n  {self.pick('query', 'response')} {self.pick('set', 'clear')} {self.pick('aa', 'ra rd', 'rd')}\n }}"

    def rewrite(self) -> str:
        return self.pick(
            "name exact www.a.test www.c.test answer auto",
            "name suffix .b.a.test .c.test answer auto",
            "name prefix www x",
            "name substring test example",
            "name regex (.*)\\.b\\.a\\.test {1}.c.test answer auto",
            "name regex ^(.*)$ {1}{1}{1}{1}{1}{1}",
            "type MX A",
            "class IN CH",
            "ttl suffix test 7",
            "rcode suffix test NXDOMAIN NOERROR",
            "continue cname suffix a.test. c.test.",
            "stop name exact x.b.a.test www.a.test",
            "continue edns0 local set 0xffee abcd",
            "continue edns0 subnet set 24 56",
            "continue edns0 nsid set",
        )

    def plugin(self) -> str:
        name, words = self.random.choice((("acl", self.acl()[1]), ("hosts", self.hosts()[1]), ("rewrite", self.rename()[1])))
        return f"{RULES}/{name}_rule.py {words}"

    def view(self) -> str:
        expression = self.pick(
            "type() == 'A'",
            "incidr(client_ip(), '127.0.0.0/24')",
            "name() matches '^www[.]'",
            "do() && bufsize() < 1000 || proto() == 'tcp'",
            "name() in ['www.a.test.', 'a.test.'] or size() > 60",
            "metadata('view/name') != ''",
            "len(name()) / 0 > 1",
        )
        return f" view v{self.random.randint(1, 9)} {{\n  expr {expression}\n }}\n"

    def block(self, zones: str, view: str = "") -> str:
        names = self.random.sample(list(self.steps), self.random.randint(1, min(10, len(self.steps))))
        lines = [f" {name} {self.steps[name]()}".rstrip() for name in names]
        if "rewrite" in names:
            lines += [f" rewrite {self.rewrite()}" for _ in range(self.random.randint(0, 2))]
        if "template" in names:
            lines += [f" template {self.template()[0]}" for _ in range(self.random.randint(0, 2))]
        lines += [f" forward {zone} {self.forward()}" for zone in self.random.choice(((".",), ("a.test", "."), (".", ".")))]
        if built("kubernetes") and self.random.random() < 0.3:
            lines.append(self.acl_of_pods())
        self.random.shuffle(lines)
        lines.append(" " + self.pick("whoami", "erratic {\n  drop 0\n  truncate 3\n }"))
        return f"{zones} {{\n bind 127.0.0.1\n{view}" + "\n".join(lines) + "\n}\n"

    def forward(self) -> str:
        """One upstream, or two of which the second one is away and gets second questions."""
        if self.random.random() < 0.5:
            return self.upstream
        return f"{self.upstream} 127.0.0.1:1 {{\n  policy sequential\n  hedge {self.pick('1ms', 'p50', 'p99 budget 100%', '5ms budget 20%')}\n }}"

    def corefile(self) -> str:
        zones = self.random.sample(ZONES, self.random.randint(1, len(ZONES)))
        blocks = [self.block(f"{zone}:{{port}}") for zone in zones]
        if built("view"):
            blocks = [self.block(f"{self.pick(*zones)}:{{port}}", self.view()) for _ in range(self.random.randint(0, 3))] + blocks
        return "".join(blocks)

    def twins(self) -> str:
        """Two blocks that mean the same: the second one has its rules in Python."""
        rules = {"acl": self.acl, "hosts": self.hosts, "template": self.template, "rewrite": self.rename}
        native, python = [], []
        for name in self.random.sample(list(rules), self.random.randint(1, len(rules))):
            if built(name):
                lines = rules[name]()
                native.append(f" {name} {lines[0]}\n")
                python.append(f" plugin {RULES}/{name}_rule.py {lines[1]}\n")
        common = [f" {name} {self.steps[name]()}\n" for name in self.random.sample(("errors", "any", "minimal", "nsid", "cache", "header"), 3)]
        common.append(f" forward . {self.upstream}\n")
        block = ".:{{port{}}} {{\n bind 127.0.0.1\n{}}}\n"
        return "".join(block.format(place, "".join(lines + common)) for place, lines in (("", native), ("2", python)))


def built(name: str) -> bool:
    return name == "plugin" or bool(registry.folder_of(registry.in_tree()[name]))


def files(folder: Path) -> None:
    (folder / "z.test").write_text(ZONE)
    (folder / "ads").write_text("x.b.a.test\n*.www.c.test\n")
    (folder / "pods.yaml").write_text(PODS)


@contextmanager
def clients() -> Iterator[dict[str, socket.socket]]:
    """A socket for each source address."""
    sockets = {source: socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for source in SOURCES}
    try:
        for source, client in sockets.items():
            client.bind((source, 0))
            client.settimeout(REPLY)
        yield sockets
    finally:
        for client in sockets.values():
            client.close()


def queries(random_: random.Random, count: int) -> Iterator[tuple[str, dns.message.Message]]:
    """Source addresses with queries."""
    for number in range(count):
        query = dns.message.make_query(random_.choice(NAMES), random_.choice(TYPES), id=number % 65536, **random_.choice(OPTIONS))
        yield random_.choice(SOURCES), query


def ask(server: Server, port: int, client: socket.socket, query: dns.message.Message) -> dns.message.Message:
    client.sendto(query.to_wire(), ("127.0.0.1", port))
    try:
        reply = dns.message.from_wire(client.recv(65535), ignore_trailing=False)
    except TimeoutError:
        pytest.fail(f"no reply to {query.question[0]} from {client.getsockname()[0]}\n{server.corefile.read_text()}\n{server.log()[-2000:]}")
    assert reply.id == query.id, server.corefile.read_text()
    assert reply.question == query.question, server.corefile.read_text()
    return reply


def explain(server: Server, source: str, query: dns.message.Message) -> None:
    """What `fastdns explain` asks the server."""
    request = {"packet": query.to_wire().hex(), "client": socket.inet_aton(source).hex(), "address": "", "tcp": False, "type": 1}
    try:
        told = control.ask(request, server.process.pid)
    except (ValueError, OSError) as error:
        pytest.fail(f"{error}: {query.question[0]} from {source}\n{server.corefile.read_text()}\n{server.log()[-2000:]}")
    assert told["outcome"] in ("reply", "refused"), f"{told}\n{server.corefile.read_text()}"
    assert bool(told["steps"]) == (told["outcome"] == "reply"), told


def stop(server: Server) -> None:
    assert server.process.poll() is None, f"{server.corefile.read_text()}\n{server.log()[-2000:]}"
    assert server.stop() == 0, f"{server.corefile.read_text()}\n{server.log()[-2000:]}"


@pytest.mark.parametrize(("seed", "count"), CASES)
def test_every_query_is_answered(serve: Callable[..., Server], seed: int, count: int) -> None:
    with Upstream(Script()) as upstream, clients() as sockets:
        grammar = Grammar(seed, upstream.address)
        server = serve(grammar.corefile(), prepare=files)
        for number, (source, query) in enumerate(queries(grammar.random, count)):
            if number % 20:
                ask(server, server.port, sockets[source], query)
            elif number % 40:
                explain(server, source, query)
            else:
                assert dns.query.tcp(query, "127.0.0.1", port=server.port, source=source, timeout=REPLY).question == query.question
        stop(server)


@pytest.mark.parametrize(("seed", "count"), CASES)
def test_a_rule_says_the_same_natively_and_in_python(serve: Callable[..., Server], seed: int, count: int) -> None:
    with Upstream(Script()) as upstream, clients() as sockets:
        grammar = Grammar(seed, upstream.address)
        server = serve(grammar.twins())
        for source, query in queries(grammar.random, count):
            native, python = (ask(server, server.ports[place], sockets[source], query) for place in ("port", "port2"))
            assert said(native) == said(python), f"{query.question[0]} from {source}\n{native}\n{python}\n{server.corefile.read_text()}\n{server.log()[-2000:]}"
        stop(server)


def said(reply: dns.message.Message) -> tuple[object, ...]:
    """All of a reply but the case of its names, its TTLs, which run in a cache, its OPT, and additional records, which what is cached may lack."""
    sections = [sorted(line.lower().split(None, 2)[::2] for line in texts(section)) for section in (reply.answer, reply.authority)]
    return reply.flags, reply.rcode(), sections
