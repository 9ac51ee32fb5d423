"""fastdns check, plan and explain, as commands."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastdns.setup import registry
from tests.server import Server, command, free_port
from tests.waiting import LIMIT

COREFILES = Path(__file__).with_name("corefiles")
Result = tuple[int, str, str]


def run(*words: str, stdin: str | None = None, cwd: Path | None = None) -> Result:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    done = subprocess.run([*command(), *words], capture_output=True, text=True, timeout=LIMIT, input=stdin, cwd=cwd, env=environment)
    return done.returncode, done.stdout, done.stderr


def check(text: str, *words: str) -> tuple[int, dict[str, Any]]:
    status, out, err = run("check", "-json", *words, "-", stdin=text)
    assert err == ""
    return status, json.loads(out)


# ---- check ----


@pytest.mark.parametrize(("name", "warnings"), [("kubeadm", 1), ("k3s", 4), ("node-local-dns", 0), ("helm", 1)])
def test_corefiles_of_distributions(name: str, warnings: int) -> None:
    status, out, err = run("check", str(COREFILES / name))
    assert (status, err) == (0, "")
    assert f"{COREFILES / name}: OK (0 errors, {warnings} warnings)" in out


def test_a_custom_block_of_aks() -> None:
    """The one of two imported files that has a mistake is named, by its own name and line."""
    path = COREFILES / "aks" / "Corefile"
    status, out, _ = run("check", str(path))
    assert status == 1
    assert f"{path.parent}/custom/mistake.server:4: error: Unknown directive 'foward'\n    hint: did you mean 'forward'?\n" in out
    assert "(1 errors, 1 warnings)" in out


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        (". {\n erors\n whoami\n}", 2, "Unknown directive 'erors'", "did you mean 'errors'?"),
        (". {\n federation\n whoami\n}", 2, "Unknown directive 'federation': gone since CoreDNS 1.7.0", ""),
        (
            ". {\n cache {\n  sucess 5\n }\n whoami\n}",
            3,
            "plugin/cache: Wrong argument count or unexpected line ending after 'sucess'",
            "did you mean 'success'?",
        ),
        (". {\n errors {\n  stacktraces\n }\n whoami\n}", 3, "plugin/errors: Unexpected token 'stacktraces'", "did you mean 'stacktrace'?"),
        (". {\n header\n whoami\n}", 2, "plugin/header: Wrong argument count", "the syntax is: header { query|response set|clear FLAG... }"),
        (". {\n whoami\n}\n. {\n whoami\n}", 4, "cannot serve dns://.:53 - it is already defined", "two server blocks have the same zone and port"),
        (". {\n rewrite type A MX\n rewrite name regex (x y\n whoami\n}", 3, "plugin/rewrite: invalid regex matching pattern: (x", "the syntax is: rewrite"),
        (". {\n whoami\n forward a 192.0.2.1\n forward b /nosuch {\n  max_fails 1\n }\n}", 4, "plugin/forward: not an IP address", "name servers are given as"),
        ("\na.test:99999 {\n whoami\n}", 2, "invalid port", "a block begins with zones"),
        (". {\n whoami", 2, "", ""),
        (". {\n test a.org A expects 1.2.3\n whoami\n}", 2, "bad A rdata '1.2.3'", ""),
        (". {\n test a.org A\n whoami\n}", 2, """plugin/test: not 'test "NAME TYPE [from IP]" expects ANSWER...'""", ""),
        (". {\n test a..org A expects NODATA\n whoami\n}", 2, "plugin/test: ", ""),
    ],
)
def test_errors(text: str, line: int, message: str, hint: str) -> None:
    status, found = check(text)
    assert status == 1
    assert found["ok"] is False
    (problem,) = found["problems"]
    assert problem["severity"] == "error"
    assert problem["line"] == line
    assert message in problem["message"]
    assert hint in problem["hint"]


def test_all_problems_are_told() -> None:
    status, found = check(". {\n erors\n cahe\n acl {\n  deny\n }\n proxy . 192.0.2.1\n}\na.test {\n log x y z {\n }\n errors\n}")
    assert status == 1
    assert [(problem["severity"], problem["line"]) for problem in found["problems"]] == [
        ("error", 2),
        ("error", 3),
        ("error", 5),
        ("warning", 7),
        ("warning", 10),
    ]
    assert "old name of 'forward'" in found["problems"][3]["message"]
    assert found["problems"][4]["message"].startswith("no plugin of the block `a.test` answers queries")


SEVERAL = """. {
 rewrite name regex (.*)\\.a {1}.{2}
 rewrite name regex (.*)\\.b x
 rewrite name regex (x y
 template IN A {
  match a
  nosuch
  rcode WHAT
  answer "{{ .Name }} 60 IN A 1.2.3.4"
 }
 forward . 192.0.2.1 {
  policy nosuch
  max_fails x
 }
 forward b. /nosuch
}
"""


def test_all_errors_of_a_directive_are_told() -> None:
    """In other lines of its block, and where it occurs again."""
    status, found = check(SEVERAL)
    assert status == 1
    assert [(problem["severity"], problem["line"]) for problem in found["problems"]] == [("error", line) for line in (2, 4, 7, 8, 12, 13, 15)]


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ("cache 30s", 2, "plugin/cache: '30s' is taken for a zone: a TTL is a number of seconds, such as `cache 30`"),
        ("cache 30 1h30m", 2, "plugin/cache: '1h30m' is taken for a zone"),
        ("forward . 192.0.2.1\n forward a.test 192.0.2.2", 3, "plugin/forward: never asked: the one of line 2 answers for `.`"),
        ("forward . 192.0.2.1 {\n hedge 20ms\n }", 2, "hedge: there is no second upstream"),
        ("forward a.test 192.0.2.1\n forward . 192.0.2.1\n forward b.a.test 192.0.2.2", 4, "never asked: the one of line 2 answers for `a.test.`"),
        ('log . "{name} {nosuch}"', 2, "plugin/log: there is no placeholder {nosuch}: it stays in each line as it is"),
        ("rewrite name suffix .a.test .{1}.test", 2, "plugin/rewrite: {1} stays as it is: only rules of `regex` have groups"),
        ("rewrite name regex (.*)\\.a {2}.b", 2, "plugin/rewrite: {2} stays as it is: the expression has 1 groups"),
        ('template IN A {\n  answer "{{ .Nope }} 60 IN A 192.0.2.1"\n }', 3, "plugin/template: a template has no field .Nope"),
    ],
)
def test_what_is_probably_a_mistake(lines: str, line: int, message: str) -> None:
    status, found = check(f". {{\n {lines}\n whoami\n}}", "-notests")
    assert status == 0
    (problem,) = found["problems"]
    assert (problem["severity"], problem["line"]) == ("warning", line)
    assert message in problem["message"]


@pytest.mark.parametrize(
    "lines",
    [
        "cache 30 test 30.test",
        "forward a.test 192.0.2.1\n forward . 192.0.2.1",
        "forward . 192.0.2.1 {\n  except a.test\n }\n forward . 192.0.2.2",
        "forward . 192.0.2.1 {\n  next NXDOMAIN\n }\n forward . 192.0.2.2",
        'log . "{common} {/a/b} {>id} {}"',
        "rewrite name regex (.*)\\.a {1}.b answer name (.*)\\.b {1}.a",
        'template IN A {\n  match (?P<a>.*)\n  answer "{{ .Group.a }}{{ range .Match }}{{ .Any }}{{ end }}{{ .Meta `a/b` }} 60 IN A 192.0.2.1"\n }',
    ],
)
def test_what_is_no_mistake(lines: str) -> None:
    status, found = check(f". {{\n {lines}\n whoami\n}}", "-notests")
    assert (status, found["problems"]) == (0, [])


def test_served_without_a_word(serve: Callable[..., Server]) -> None:
    """The log is CoreDNS's."""
    server = serve('.:{port} {\n bind 127.0.0.1\n cache 30s\n log . "{nosuch}"\n whoami\n}')
    assert "placeholder" not in server.log()
    assert "WARNING" not in server.log()


def test_nothing_is_touched(tmp_path: Path) -> None:
    """Addresses may be in use, pages and commands do not run, and no file is written."""
    port = free_port()
    pages = f"health 127.0.0.1:{port}\n prometheus 127.0.0.1:{port}"
    corefile = f".:{port} {{\n on startup /bin/touch {tmp_path}/touched\n {pages}\n whoami\n test a.org A expects NODATA\n}}"
    with socket.create_server(("127.0.0.1", port)):
        status, found = check(corefile)
    assert (status, found["problems"], found["tests"]) == (0, [], 1)
    assert list(tmp_path.iterdir()) == []


HOSTS = """
.:{port} {{
    acl {{
        block net 10.9.0.0/16
        drop net 10.8.0.0/16
    }}
    hosts {{
        192.0.2.1 www.example.org
        192.0.2.2 www.example.org
        2001:db8::1 www.example.org
    }}
    {tests}
}}
"""


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('test "www.example.org A" expects 192.0.2.2 192.0.2.1', ""),
        ("test WWW.example.org. aaaa expects 2001:DB8::1", ""),
        ("test www.example.org A from 10.9.1.1 expects refused", ""),
        ("test www.example.org A from 10.8.1.1 expects DROPPED", ""),
        ("test www.example.org MX expects NODATA", ""),
        ("test 1.2.0.192.in-addr.arpa PTR expects www.example.org", ""),
        ("test nosuch.example.org expects SERVFAIL", ""),
        ("test www.example.org A expects 192.0.2.1", 'test "www.example.org. A": expected 192.0.2.1, got 192.0.2.1 192.0.2.2'),
        ("test www.example.org A from 10.9.1.1 expects NXDOMAIN", 'test "www.example.org. A from 10.9.1.1": expected NXDOMAIN, got REFUSED'),
    ],
)
def test_expectations(line: str, wrong: str) -> None:
    status, found = check(HOSTS.format(port=53, tests=line))
    assert (status, found["tests"]) == (1 if wrong else 0, 1)
    assert [(problem["line"], problem["message"]) for problem in found["problems"]] == ([(12, wrong)] if wrong else [])
    assert check(HOSTS.format(port=53, tests=line), "-notests") == (0, {"file": "/dev/stdin", "ok": True, "tests": 0, "problems": []})


def test_a_reload_is_held_to_them(serve: Callable[..., Server]) -> None:
    corefile = HOSTS.format(port="{port}", tests="test www.example.org A expects 192.0.2.1 192.0.2.2")
    server = serve(corefile)
    before = len(server.log())
    server.write(corefile.replace("192.0.2.2 www", "192.0.2.3 www"))
    server.process.send_signal(10)
    server.wait_log(
        r'Restart failed: plugin/test: \S+Corefile:12 - test "www\.example\.org\. A": expected 192\.0\.2\.1 192\.0\.2\.2, got 192\.0\.2\.1 192\.0\.2\.3$',
        start=before,
    )
    assert server.answers("www.example.org.") == ["192.0.2.1", "192.0.2.2"]
    server.reload(corefile.replace("192.0.2.2", "192.0.2.4"))
    assert server.answers("www.example.org.") == ["192.0.2.1", "192.0.2.4"]


@pytest.mark.parametrize("words", [("check", "-x"), ("check", "a", "b"), ("explain",), ("explain", "-client"), ("plan", "-json", "a", "-conf", "b")])
def test_wrong_command_lines(words: tuple[str, ...]) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert "Usage:\n  fastdns check" in err


def test_a_corefile_that_cannot_be_read(tmp_path: Path) -> None:
    for word in ("check", "plan"):
        status, out, err = run(word, str(tmp_path / "none"))
        assert (status, out) == (1, "")
        assert "no such file or directory" in err
    assert run("check", "-help")[:2] == (0, run("explain", "-h")[1])


# ---- plan ----

PYTHON = "def setup(controller):\n    controller.remaining_args()\n    from fastdns.plugin import Plugin\n    return Plugin()\n"


def test_plan(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PYTHON)
    text = "a.test b.test:1053 {\n reload\n whoami\n log\n plugin mine.py\n proxy . 192.0.2.1\n bind 127.0.0.1\n}\n. {\n errors\n whoami\n}"
    status, out, _ = run("plan", "-json", "-", stdin=text, cwd=tmp_path)
    assert status == 0
    planned = json.loads(out)
    servers = {server["address"]: server["zones"] for server in planned["servers"]}
    chain = [("log", "native"), ("mine", "Python executor"), ("forward", "native"), ("whoami", "native")]
    assert set(servers) == {"dns://127.0.0.1:53", "dns://127.0.0.1:1053", "dns://:53"}
    for address, zone in (("dns://127.0.0.1:53", "a.test."), ("dns://127.0.0.1:1053", "b.test.")):
        (found,) = servers[address]
        assert [(handler["name"], handler["runs"]) for handler in found["chain"]] == chain
        assert found["place"] == "/dev/stdin:1"
        assert (found["zone"], found["block"], found["beside"]) == (zone, 1, ["reload", "bind"])
    status, out, _ = run("plan", "-", stdin=text, cwd=tmp_path)
    assert status == 0
    assert out.endswith("dns://:53\n  .  block 2, /dev/stdin:9\n    errors        native\n    whoami        native\n")
    assert "    mine          Python executor\n" in out
    assert run("plan", "-", stdin=". {\n erors\n}")[0] == 1


# ---- explain ----


def explained(*words: str) -> dict[str, Any]:
    _, out, err = run("explain", "-json", *words)
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def steps(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(step["handler"], step["hook"], step["says"]) for step in found["steps"]]


def test_explain_a_corefile(tmp_path: Path) -> None:
    path = tmp_path / "Corefile"
    path.write_text(HOSTS.format(port=53, tests="cache") + "other.test {\n autopath @erratic\n erratic {\n drop 0\n }\n}\n")
    found = explained("www.example.org", "-conf", str(path))
    assert (found["outcome"], found["zone"], found["answers"]) == ("reply", ".", ["192.0.2.1", "192.0.2.2"])
    assert steps(found) == [("acl", "query", "passed it on"), ("cache", "query", "miss"), ("hosts", "query", "answered"), ("cache", "reply", "saw the reply")]
    assert all(step["took"] >= 0 for step in found["steps"])
    found = explained("www.example.org", "A", "-client", "10.9.0.1", "-conf", str(path))
    assert (found["answers"], steps(found)) == (["REFUSED"], [("acl", "query", "answered")])
    assert explained("www.example.org", "-client=10.8.0.1", "-conf", str(path))["outcome"] == "dropped"
    assert explained("www.other.test", "-conf", str(path))["zone"] == "other.test."


@pytest.mark.parametrize(("name", "zone"), [("x.sub.a.test", "a.test."), ("sub.a.test", "a.test."), ("a.test", "a.test."), ("b.test", "."), (".", ".")])
def test_explain_shows_the_steps_of_a_ds_query(tmp_path: Path, name: str, zone: str) -> None:
    """DS goes to the zone above, by a look-up of its own."""
    path = tmp_path / "Corefile"
    path.write_text("".join(f"{block}:53 {{\n template ANY ANY {{\n  rcode NXDOMAIN\n }}\n}}\n" for block in (".", "a.test", "sub.a.test")))
    found = explained(name, "DS", "-conf", str(path))
    assert (found["outcome"], found["zone"], found["answers"]) == ("reply", zone, ["NXDOMAIN"])
    assert steps(found) == [("template", "query", "answered")]


def test_explain_says_which_rule_renamed(tmp_path: Path) -> None:
    path = tmp_path / "Corefile"
    path.write_text(".:53 {\n rewrite continue name suffix .a.test .b.test answer auto\n rewrite type AAAA A\n hosts {\n  192.0.2.1 x.b.test\n }\n}\n")

    def notes(*question: str) -> list[str]:
        return [step["note"] for step in explained(*question, "-conf", str(path))["steps"] if step["handler"] == "rewrite" and step["hook"] == "query"]

    assert notes("x.a.test") == [f"to x.b.test. A by {path}:2"]
    assert notes("x.a.test", "AAAA") == [f"to x.b.test. A by {path}:3"]
    assert notes("x.b.test", "A") == [""]


def test_explain_says_which_plugins_are_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "Corefile"
    blocks = ". {\n kubernetes cluster.local {\n  endpoint http://127.0.0.1:1\n  startup_timeout 10ms\n }\n}\na.test {\n whoami\n}\n"
    path.write_text(blocks)
    found = explained("a.ns.svc.cluster.local", "-conf", str(path))
    assert (found["answers"], found["not_ready"]) == (["SERVFAIL"], ["kubernetes"])
    assert "\nnot ready: kubernetes\n" in run("explain", "a.ns.svc.cluster.local", "-conf", str(path))[1]
    path.write_text("a.test {\n whoami\n}\n")
    assert explained("a.test", "-conf", str(path))["not_ready"] == []
    assert "not ready" not in run("explain", "a.test", "-conf", str(path))[1]


def test_explain_the_running_server(serve: Callable[..., Server]) -> None:
    from fastdns.testing import Upstream
    from tests.plugins.cache.scripted import Script

    with Upstream(Script()) as upstream:
        server = serve(f"a.test:{{port}} {{\n prometheus 127.0.0.1:{{port2}}\n log\n cache\n forward . {upstream.address}\n}}")
        pid = str(server.process.pid)
        first = explained("x.a.test", "-pid", pid)
        assert first["answers"] == ["192.0.2.1"]
        assert ("cache", "query", "miss") in steps(first)
        assert ("forward", "query", "waits") in steps(first)
        assert {step["upstream"] for step in first["steps"] if step["handler"] == "forward"} == {upstream.address}
        second = explained("x.a.test", "-pid", pid, "-address", f"dns://:{server.port}")
        assert second["answers"] == ["192.0.2.1"]
        assert ("cache", "query", "hit") in steps(second)
        assert explained("x.b.test", "-pid", pid)["outcome"] == "refused"
        assert server.answers("x.a.test.") == ["192.0.2.1"]
        server.wait_log("NOERROR")
        assert server.log().count("NOERROR") == 1, "neither was logged"
        status, _, err = run("explain", "x.a.test", "-pid", pid, "-address", "dns://:1")
        assert (status, err) == (1, f"dns://:1 is not served: dns://:{server.port}\n")
    server.stop()
    status, _, err = run("explain", "x.a.test", "-pid", pid)
    assert (status, err) == (1, f"no server with process id {pid} runs here\n")


def test_explained_while_it_reloads(serve: Callable[..., Server]) -> None:
    """Chains that have ended meanwhile are not asked."""
    from fastdns.server import control
    from fastdns.server.expectations import parse_question

    corefile = "a.test:{port} {\n cache\n hosts {\n  192.0.2.1 x.a.test\n }\n test x.a.test expects 192.0.2.1\n}"
    server = serve(corefile)
    question = parse_question("x.a.test")
    request = {"packet": question.packet().hex(), "client": question.client.hex(), "address": "", "tcp": False, "type": 1}
    found = set()

    def ask() -> None:
        while not done.is_set():
            try:
                found.update(control.ask(request, server.process.pid)["answers"])
            except ValueError as problem:
                found.add(str(problem))

    done = threading.Event()
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for number in range(10):
            server.reload(f"{corefile}\n# {number}")
    finally:
        done.set()
        thread.join()
    assert "192.0.2.1" in found
    assert found <= {"192.0.2.1", "the configuration has changed meanwhile: ask again"}
    assert server.answers("x.a.test.") == ["192.0.2.1"]


def test_readable_words(serve: Callable[..., Server]) -> None:
    server = serve("a.test:{port} {\n whoami\n}")
    status, out, _ = run("explain", "a.test", "TXT", "-pid", str(server.process.pid), "-tcp")
    assert status == 0
    assert out.startswith("a.test. TXT: reply NODATA\nzone a.test., ")
    assert "-> whoami        answered" in out


# ---- plugins from elsewhere ----

ELSEWHERE = """
import pathlib
from fastdns.plugin import Plugin, Traits

{traits}

class Elsewhere(Plugin):
    def serve(self, query):
        pathlib.Path({asked!r}).touch()
        return query.reply("A 192.0.2.9")

def setup(controller):
    controller.next()
    controller.on_first_startup(pathlib.Path({started!r}).touch)
    controller.on_startup(pathlib.Path({started!r}).touch)
    controller.on_shutdown(pathlib.Path({ended!r}).touch)
    return Elsewhere()
"""


def elsewhere(folder: Path, traits: str = "") -> Path:
    paths = {name: str(folder / name) for name in ("asked", "started", "ended")}
    (folder / "elsewhere.py").write_text(ELSEWHERE.format(traits=traits, **paths))
    path = folder / "Corefile"
    path.write_text('.:53 {\n plugin elsewhere.py\n whoami\n test "a.test A" expects 192.0.2.9\n}\n')
    return path


def touched(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} & {"asked", "started", "ended"}


def test_a_plugin_that_declares_nothing_is_set_up_and_not_asked(tmp_path: Path) -> None:
    path = elsewhere(tmp_path)
    status, out, _ = run("check", "-json", str(path), cwd=tmp_path)
    problems = json.loads(out)["problems"]
    assert (status, touched(tmp_path)) == (1, set())
    assert [problem["message"] for problem in problems] == [
        "plugin/elsewhere: it is set up and not asked by `test` lines",
        'test "a.test. A": expected 192.0.2.9, got NODATA',
    ]
    found = json.loads(run("explain", "a.test", "-json", "-conf", str(path), cwd=tmp_path)[1])
    assert [(step["handler"], step["says"], step["note"]) for step in found["steps"]] == [
        ("elsewhere", "passed it on", "not asked: does not declare runs_in_check"),
        ("whoami", "answered", ""),
    ]
    assert touched(tmp_path) == set()


def test_a_plugin_that_runs_in_check(tmp_path: Path) -> None:
    words = '"query parked": "thinks"'
    path = elsewhere(tmp_path, f"TRAITS = Traits(runs_in_check=True, explain={{{words}}})")
    status, out, _ = run("check", "-json", str(path), cwd=tmp_path)
    assert (status, json.loads(out)["problems"], touched(tmp_path)) == (0, [], {"asked", "started", "ended"})
    found = json.loads(run("explain", "a.test", "-json", "-conf", str(path), cwd=tmp_path)[1])
    assert (found["answers"], steps(found)[0]) == (["192.0.2.9"], ("elsewhere", "query", "thinks"))


def test_a_plugin_with_side_effects_is_left_out(tmp_path: Path) -> None:
    path = elsewhere(tmp_path, "TRAITS = Traits(side_effects=True)")
    found = json.loads(run("explain", "a.test", "-json", "-conf", str(path), cwd=tmp_path)[1])
    assert steps(found) == [("whoami", "query", "answered")]
    assert touched(tmp_path) == set()


def test_a_plugin_that_does_not_answer_is_told_so(tmp_path: Path) -> None:
    path = elsewhere(tmp_path, "TRAITS = Traits(answers=False)")
    path.write_text(".:53 {\n plugin elsewhere.py\n}\n")
    _, out, _ = run("check", "-json", str(path), cwd=tmp_path)
    assert [problem["message"] for problem in json.loads(out)["problems"]] == ["no plugin of the block `.:53` answers queries: clients get SERVFAIL"]


@pytest.mark.parametrize("wrong", ["TRAITS = True", "TRAITS = Traits(side_effects=True, runs_in_check=True)"])
def test_wrong_traits(tmp_path: Path, wrong: str) -> None:
    status, out, _ = run("check", str(elsewhere(tmp_path, wrong)), cwd=tmp_path)
    assert status == 1
    assert "TypeError: TRAITS is bool" in out or "ValueError: a plugin with side effects does not run in check" in out


@pytest.mark.parametrize(("traits", "rcode"), [("", "REFUSED"), ("TRAITS = Traits(any_class=True)", "NOERROR")])
def test_a_plugin_that_takes_any_class_gets_chaos(serve: Callable[..., Server], tmp_path: Path, traits: str, rcode: str) -> None:
    import dns.message
    import dns.query
    import dns.rcode

    elsewhere(tmp_path, traits)
    server = serve(f".:{{port}} {{\n plugin {tmp_path}/elsewhere.py\n}}")
    reply = dns.query.udp(dns.message.make_query("version.bind", "TXT", "CH"), "127.0.0.1", port=server.port, timeout=LIMIT)
    assert dns.rcode.to_text(reply.rcode()) == rcode
    assert ("asked" in touched(tmp_path)) == (rcode == "NOERROR")


def test_traits_of_our_plugins() -> None:
    """Each declares its own."""
    import importlib

    declared = {}
    for name, folder in registry.in_tree().items():
        if registry.folder_of(folder):
            declared[name] = importlib.import_module(f"fastdns.plugins.{folder}").TRAITS
            assert declared[name] is registry.traits(name)
    answering = "any auto azure chaos clouddns erratic etcd file forward grpc hosts k8s_external k8s_gateway kubernetes local nomad proxy route53 secondary "
    answering += "template unbound whoami dynupdate"
    aside = "console dnstap errors fqdn_policy health log loop on pprof prometheus ready recorder reload shadow sign slo top trace transfer"
    assert {name for name, traits in declared.items() if traits.answers} == set(answering.split())
    assert {name for name, traits in declared.items() if traits.side_effects} == set(aside.split())
    assert {name for name, traits in declared.items() if traits.any_class} == {"chaos", "forward", "proxy"}
    assert {name for name, traits in declared.items() if traits.takes_updates} == {"dynupdate"}
    clouds = {"azure", "clouddns", "route53"}  # a check asks none
    assert {name for name, traits in declared.items() if not traits.runs_in_check} == set(aside.split()) | clouds
