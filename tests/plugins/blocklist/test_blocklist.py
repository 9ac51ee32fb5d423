"""blocklist: lists of each kind, what their names get, files that change, exceptions."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.rdatatype
import pytest

from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

HOSTS = """\
# A hosts file, as lists for ad blockers are.
127.0.0.1 localhost localhost.localdomain
::1 ip6-localhost
0.0.0.0 0.0.0.0
0.0.0.0 ads.test tracker.test # two
:: Six.Test
192.0.2.7 elsewhere.test
0.0.0.0
0.0.0.0 bad..name
"""

DOMAINS = """\
! An ad blocker's list
[Adblock Plus]
# and a comment
plain.test
*.below.test
||adblock.test^
commented.test # why
b\u00fccher.test
||adblock.test^$third-party
example.com##.banner
two words
<html>
"""

RPZ = """\
$TTL 60
$ORIGIN policy.example.
@ SOA ns.policy.example. hostmaster 7 3600 600 86400 30
@ NS ns.policy.example.
nxdomain.test CNAME .
*.nxdomain.test CNAME .
nodata.test CNAME *.
pass.nxdomain.test CNAME rpz-passthru.
self.nxdomain.test CNAME self.nxdomain.test.
drop.test CNAME rpz-drop.
tcp.test CNAME rpz-tcp-only.
local.test A 192.0.2.53
local.test A 192.0.2.54
local.test TXT "walled garden"
*.local.test AAAA 2001:db8::53
alias.test CNAME target.elsewhere.
*.garden.test CNAME *.garden.elsewhere.
unknown.test CNAME rpz-new-action.
32.1.2.0.192.rpz-ip CNAME .
ns.evil.test.rpz-nsdname CNAME .
24.0.2.0.192.rpz-client-ip CNAME .
outside.example. CNAME .
"""

#: Answers what the lists leave.
BELOW = 'template IN A {\n answer "{{ .Name }} 30 IN A 192.0.2.1"\n }\n template IN TXT {\n answer "{{ .Name }} 30 IN TXT below"\n }'
PASSED = ["192.0.2.1"]


def corefile(block: str) -> str:
    return f".:{{port}} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{{port2}}\n errors\n {block}\n {BELOW}\n}}\n"


def put(files: Mapping[str, str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)

    return write


def metric(server: Server, name: str, label: str) -> float:
    return server.metric(server.ports["port2"], f'fastdns_blocklist_{name}{{list="{label}"}}')


def errors_of(reply: dns.message.Message) -> list[int]:
    return [int(option.code) for option in reply.options if isinstance(option, dns.edns.EDEOption)]


def replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_hosts(serve: Serve) -> None:
    server = serve(corefile("blocklist {\n hosts {dir}/hosts\n }"), prepare=put({"hosts": HOSTS}))
    for name in ("ads.test.", "Tracker.TEST.", "six.test."):
        assert server.answers(name) == server.answers(name, "TXT") == ["NXDOMAIN"]
    for name in ("x.ads.test.", "localhost.", "elsewhere.test.", "test.", "0.0.0.0."):
        assert server.answers(name) == PASSED
    label = f"{server.folder}/hosts"
    assert metric(server, "names", label) == 3
    assert metric(server, "ignored_lines", label) == 3
    assert metric(server, "blocked_total", label) == 6
    assert metric(server, "failures_total", label) == 0
    assert time.time() - metric(server, "confirmed_timestamp_seconds", label) < 60
    assert f"3 lines of {label} were left out, the first: '192.0.2.7 elsewhere.test'" in server.log()


def test_domains(serve: Serve) -> None:
    server = serve(corefile("blocklist {dir}/domains"), prepare=put({"domains": DOMAINS}))
    for name in ("plain.test.", "x.plain.test.", "x.y.below.test.", "adblock.test.", "a.adblock.test.", "commented.test.", "xn--bcher-kva.test."):
        assert server.answers(name) == ["NXDOMAIN"], name
    for name in ("below.test.", "two.", "words.", "example.com.", "html.", "test."):
        assert server.answers(name) == PASSED, name
    assert metric(server, "names", f"{server.folder}/domains") == 5
    assert metric(server, "ignored_lines", f"{server.folder}/domains") == 4


def test_policy_zone(serve: Serve) -> None:
    server = serve(corefile("blocklist {\n rpz {dir}/rpz\n answer 198.51.100.1\n }"), prepare=put({"rpz": RPZ}))
    for _ in range(2):
        assert server.answers("nxdomain.test.") == server.answers("x.y.nxdomain.test.", "TXT") == ["NXDOMAIN"]
        assert server.answers("nodata.test.") == server.answers("nodata.test.", "TXT") == []
        assert server.answers("x.nodata.test.") == PASSED
        assert server.answers("pass.nxdomain.test.") == server.answers("self.nxdomain.test.") == PASSED
        assert server.answers("x.pass.nxdomain.test.") == ["NXDOMAIN"]
        assert server.answers("local.test.") == ["192.0.2.53", "192.0.2.54"]
        assert server.answers("local.test.", "TXT") == ['"walled garden"']
        assert server.answers("local.test.", "AAAA") == []
        assert server.answers("x.local.test.", "AAAA") == ["2001:db8::53"]
        assert server.answers("x.local.test.") == []
        assert server.answers("alias.test.") == ["192.0.2.1", "target.elsewhere."]
        assert server.answers("alias.test.", "CNAME") == ["target.elsewhere."]
        assert server.answers("www.garden.test.") == ["192.0.2.1", "www.garden.test.garden.elsewhere."]
        assert server.answers("unknown.test.") == server.answers("outside.example.") == PASSED
        assert server.query("tcp.test.").flags & dns.flags.TC
        assert server.answers("tcp.test.", tcp=True) == PASSED
        with pytest.raises(dns.exception.Timeout):
            server.query("drop.test.", timeout=0.3)
    label = f"{server.folder}/rpz"
    assert metric(server, "names", label) == 11
    assert metric(server, "ignored_lines", label) == 2
    assert metric(server, "blocked_total", label) == 2 * 15
    assert f"{label} has triggers other than by name, which were left out: 1 of rpz-client-ip, 1 of rpz-ip, 1 of rpz-nsdname" in server.log()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("evil.test CNAME .\n", ["evil.test."]),
        ("@ 60 SOA . . 1 2 3 4 5\nevil.test CNAME .\n", ["evil.test."]),
        ("@ 60 IN SOA . . ( 1 2 3\n 4 5 )\n\\*\\.x.test CNAME .\n", ["\\*\\.x.test."]),
        ("Policy.Zone. SOA . . 1 2 3 4 5\nevil.test.policy.ZONE. CNAME .\n", ["evil.test."]),
    ],
)
def test_origins_of_policy_zones(serve: Serve, text: str, names: list[str]) -> None:
    server = serve(corefile("blocklist {\n rpz {dir}/rpz\n }"), prepare=put({"rpz": text}))
    for name in names:
        assert server.answers(name) == ["NXDOMAIN"]
    assert metric(server, "names", f"{server.folder}/rpz") == len(names)


ANSWERS = [
    ("nxdomain", "NXDOMAIN", [], [], [15]),
    ("nodata", "NOERROR", [], [], [15]),
    ("refused", "REFUSED", [], [], [15]),
    ("0.0.0.0 ::", "NOERROR", ["0.0.0.0"], ["::"], [4]),
    ("192.0.2.8 192.0.2.9", "NOERROR", ["192.0.2.8", "192.0.2.9"], [], [4]),
]


@pytest.mark.parametrize(("answer", "rcode", "four", "six", "error"), ANSWERS, ids=lambda value: value if isinstance(value, str) else "")
def test_answers(serve: Serve, answer: str, rcode: str, four: list[str], six: list[str], error: list[int]) -> None:
    server = serve(corefile(f"blocklist {{dir}}/list {{\n answer {answer}\n ttl 77\n }}"), prepare=put({"list": "ads.test"}))
    for name in ("ads.test.", "x.ads.test.", "y.x.ads.test."):
        for kind, wanted in (("A", four), ("AAAA", six), ("HTTPS", [])):
            for plain in (True, False):
                reply = server.query(name, kind, use_edns=-1 if plain else 0)
                assert dns.rcode.to_text(reply.rcode()) == rcode
                assert [rdata.to_text() for rrset in reply.answer for rdata in rrset] == wanted
                assert all(rrset.ttl == 77 for rrset in [*reply.answer, *reply.authority])
                if rcode == "REFUSED" or wanted:
                    assert not reply.authority
                else:  # of a name at or above the one asked, so that resolvers may keep it
                    assert [str(rrset.name) for rrset in reply.authority] == ["ads.test."]
                    assert reply.authority[0][0].minimum == 77
                assert reply.edns == (-1 if plain else 0)
                assert errors_of(reply) == ([] if plain else error if wanted or not (four or six) else [15])


def test_verdicts_are_remembered(serve: Serve) -> None:
    """One for all names below an entry; one for each name where another entry lies below."""
    lists = {"list": "ads.test\nmixed.test", "allow": "good.mixed.test"}
    server = serve(corefile("blocklist {dir}/list {\n allow {dir}/allow\n }"), prepare=put(lists))
    entries = 'fastdns_plugin_remembered_entries{plugin="blocklist"}'
    calls = 'fastdns_plugin_queries_total{plugin="blocklist"}'
    for i in range(20):
        assert server.answers(f"n{i}.ads.test.") == ["NXDOMAIN"]
    assert server.metric(server.ports["port2"], entries) == server.metric(server.ports["port2"], calls) == 1
    for i in range(5):
        assert server.answers(f"n{i}.mixed.test.") == server.answers(f"n{i}.mixed.test.", "AAAA") == ["NXDOMAIN"]
        assert server.answers(f"n{i}.good.mixed.test.") == PASSED
        assert server.answers(f"n{i}.other.test.") == PASSED
    assert server.metric(server.ports["port2"], entries) == server.metric(server.ports["port2"], calls) == 6
    assert metric(server, "blocked_total", f"{server.folder}/list") == 30


def test_exceptions_win(serve: Serve) -> None:
    lists = {"hosts": "0.0.0.0 a.keep.test exact.test only.test", "list": "keep.test\nwide.test\nx.part.test\npart.test\n", "allow": "keep.test\n*.part.test\n"}
    block = "blocklist {\n hosts {dir}/hosts\n domains {dir}/list\n allow {dir}/allow exact.test *.wide.test\n }"
    server = serve(corefile(block), prepare=put(lists))
    for name in ("keep.test.", "a.keep.test.", "b.a.keep.test.", "exact.test.", "x.wide.test.", "x.part.test.", "y.part.test."):
        assert server.answers(name) == PASSED, name
    for name in ("wide.test.", "part.test.", "only.test."):
        assert server.answers(name) == ["NXDOMAIN"], name


def test_the_first_list_says_what_becomes_of_a_name(serve: Serve) -> None:
    """As policy zones are ordered: what an earlier one says of names below a name holds for them, whatever a later one has."""
    lists = {"first": "*.a.test CNAME rpz-passthru.\nb.test CNAME *.\n", "second": "x.a.test CNAME .\na.test CNAME .\nb.test CNAME .\n"}
    server = serve(corefile("blocklist {\n rpz {dir}/first {dir}/second\n }"), prepare=put(lists))
    assert server.answers("x.a.test.") == PASSED
    assert server.answers("a.test.") == ["NXDOMAIN"]
    assert server.answers("b.test.") == []


def test_it_stands_above_the_cache(serve: Serve) -> None:
    """What was cached before a name came to the list is not given out, and neither is a blocked answer once the name has left it."""
    block = "cache 300\n blocklist {dir}/list"
    server = serve(corefile(block), prepare=put({"list": "other.test"}))
    assert server.answers("ads.test.") == PASSED
    replace(server.folder / "list", "ads.test")
    server.until("ads.test.", "A", ["NXDOMAIN"])
    replace(server.folder / "list", "other.test")
    server.until("ads.test.", "A", PASSED)


def test_files_are_watched(serve: Serve) -> None:
    server = serve(corefile("blocklist {dir}/list"), prepare=put({"list": "a.test\nb.test\n"}))
    path = server.folder / "list"
    label = str(path)
    assert server.answers("x.a.test.") == server.answers("b.test.") == ["NXDOMAIN"]
    replace(path, "b.test\nc.test\n")
    server.until("c.test.", "A", ["NXDOMAIN"])
    assert server.answers("x.a.test.") == PASSED
    assert server.answers("b.test.") == ["NXDOMAIN"]
    # What has no names any more, or is gone, leaves the last version.
    replace(path, "# nothing\n")
    server.wait_log(r"is not used: it has no names, and had 2; its last version serves on")
    assert server.answers("c.test.") == ["NXDOMAIN"]
    path.unlink()
    server.wait_log(rf"{label} cannot be read: open {label}: no such file or directory; its last version serves on")
    assert server.answers("c.test.") == ["NXDOMAIN"]
    assert metric(server, "failures_total", label) >= 2
    replace(path, "d.test\n")
    server.until("d.test.", "A", ["NXDOMAIN"])
    assert metric(server, "names", label) == 1


def test_a_policy_zone_is_used_whole_or_not(serve: Serve) -> None:
    lists = {"rpz": "a.test CNAME .\n", "list": "b.test\n"}
    server = serve(corefile("blocklist {dir}/list {\n rpz {dir}/rpz\n }"), prepare=put(lists))
    replace(server.folder / "rpz", "c.test CNAME .\nd.test BROKEN\n")
    server.wait_log(r"rpz is not used: dns: .*BROKEN.* at line: 2:\d+; its last version serves on")
    for text in ("$INCLUDE /etc/hostname\n", "$GENERATE 1-65536 n$ CNAME .\n"):
        replace(server.folder / "rpz", text)
        server.wait_log(rf"is not used: a list may not have {text.split()[0].replace('$', '[$]')}")
    replace(server.folder / "list", "e.test\n")
    server.until("e.test.", "A", ["NXDOMAIN"])
    assert server.answers("a.test.") == ["NXDOMAIN"]
    assert server.answers("b.test.") == server.answers("c.test.") == PASSED


def test_reload_under_load(serve: Serve) -> None:
    """Each version has one half of the names: no query sees neither, or an answer of a former version once a new one was seen."""
    halves = ["".join(f"n{i}.{half}.test\n" for i in range(3000)) + "always.test\n" for half in ("left", "right")]
    server = serve(corefile("blocklist {dir}/list"), prepare=put({"list": halves[0]}))
    stop = threading.Event()
    wrong: list[object] = []
    asked = [0]

    def ask() -> None:
        rng = random.Random()
        while not stop.is_set():
            asked[0] += 1
            if server.answers(f"x{rng.randrange(50)}.always.test.") != ["NXDOMAIN"] or server.answers(f"n{rng.randrange(9)}.never.test.") != PASSED:
                wrong.append("always, never")
            for half in ("left", "right"):
                if server.answers(f"n{rng.randrange(3000)}.{half}.test.") not in (PASSED, ["NXDOMAIN"]):
                    wrong.append(half)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(1, 4):
            replace(server.folder / "list", halves[turn % 2])
            server.until("n7.right.test.", "A", ["NXDOMAIN"] if turn % 2 else PASSED)
            server.until("n7.left.test.", "A", PASSED if turn % 2 else ["NXDOMAIN"])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert asked[0] > 100


def test_a_reload_of_the_corefile(serve: Serve) -> None:
    server = serve(corefile("blocklist {dir}/list"), prepare=put({"list": "a.test\n", "other": "b.test\nc.test\n"}))
    assert server.answers("a.test.") == ["NXDOMAIN"]
    server.reload(corefile("blocklist {dir}/list {\n domains {dir}/other\n answer nodata\n }"))
    assert server.answers("a.test.") == server.answers("b.test.") == []
    assert metric(server, "names", f"{server.folder}/list") == 1
    server.reload(corefile("blocklist {dir}/other"))
    assert server.answers("a.test.") == PASSED
    assert metric(server, "names", f"{server.folder}/other") == 2
    page = server.get(server.ports["port2"], "/metrics")
    assert f'fastdns_blocklist_names{{list="{server.folder}/list"}}' not in page


@pytest.mark.memory
def test_memory_of_a_million_names(serve: Serve) -> None:
    """64 MiB beside what the server takes without, with the packed list, which is kept for the next change; also after another version was read."""
    text = "".join(f"host-{i}.site{i % 50_000}.example.com\n" for i in range(1_000_000))
    empty = serve(corefile("blocklist {dir}/list"), prepare=put({"list": "a.test\n"}))
    assert empty.answers("a.test.") == ["NXDOMAIN"]
    server = serve(corefile("blocklist {dir}/list"), prepare=put({"list": text}))
    assert server.answers("x.host-777.site777.example.com.") == ["NXDOMAIN"]
    grown = server.memory() - empty.memory()
    assert grown < 64 << 20, grown
    replace(server.folder / "list", text + "new.test\n")
    server.until("new.test.", "A", ["NXDOMAIN"], limit=200)
    until(lambda: server.memory() - empty.memory() < 64 << 20)
    assert os.path.getsize(server.folder / "list") > 25_000_000
