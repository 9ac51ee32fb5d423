"""Templates and what comes of them: tables recorded from CoreDNS."""

from __future__ import annotations

import re

import dns.rcode
import pytest

from fastdns.plugins.template.language import TemplateError, parse
from tests.server import Server

#: Template, what it writes for n7.z.test. TXT where ``^n(?P<n>[0-9]+)[.]`` matched.
VALUES = [
    ("{{ .Message.CheckingDisabled }} {{ .Message.AuthenticatedData }} {{ .Message.Zero }}", "false false false"),
    ("{{ parseInt `017` 0 64 }} {{ parseInt `1_000` 0 64 }}", "15 1000"),
    ("{{ .Zone }}|{{ .Name }}|{{ .Class }}|{{ .Type }}", "z.test.|n7.z.test.|IN|TXT"),
    ("{{ .Match }}", "[n7. 7]"),
    ("{{ .Remote }}", "127.0.0.1"),
    ("{{ .Question.Name }} {{ .Question.Qtype }} {{ .Question.Qclass }}", "n7.z.test. 16 1"),
    ("{{ (index .Message.Question 0).Name }}", "n7.z.test."),
    (
        "{{ .Message.Opcode }} {{ .Message.Rcode }} {{ .Message.Response }} {{ .Message.RecursionDesired }}",
        "0 0 false true",
    ),
    ("{{ .Message.IsEdns0 }}", "<nil>"),
    ("{{ if .Message.IsEdns0 }}e{{ else }}n{{ end }}", "n"),
    ("{{ with .Message.IsEdns0 }}{{ .Do }} {{ .UDPSize }} {{ .Version }}{{ end }}", ""),
    ("{{ .Message.Answer }} {{ len .Message.Extra }} {{ .Message.Ns }}", "[] 0 []"),
    ("{{ .Var }}", "map[]"),
    ("{{ .Var.x }}", "<no value>"),
    ("{{ .Meta `a/b` }}", ""),
    ("{{ index .Group `n` }} {{ index .Group `1` }} {{ index .Group `zz` }}", "7 7 "),
    ("{{ index .Match 0 }} {{ index .Match 1 }}", "n7. 7"),
    ("{{ index .Match }}", "[n7. 7]"),
    ("{{ slice .Match 0 1 }}", "[n7.]"),
    ("{{ print 1 2 `a` `b` 3 4 }}", "1 2ab3 4"),
    ("{{ print `a` 1 `b` }}", "a1b"),
    ("{{ print }}", ""),
    ("{{ print nil }}", "<nil>"),
    ("{{ print 1.5 true }}", "1.5 true"),
    ("{{ println 1 2 }}", "1 2\n"),
    ("{{ printf `%d` 5 }}", "5"),
    ("{{ printf `%s` 5 }}", "%!s(int=5)"),
    ("{{ printf `%d` `a` }}", "%!d(string=a)"),
    ("{{ printf `%v %v` 1 }}", "1 %!v(MISSING)"),
    ("{{ printf `%v` 1 2 }}", "1%!(EXTRA int=2)"),
    ("{{ printf `%v` 1 `a` }}", "1%!(EXTRA string=a)"),
    ("{{ printf `%5d|%-5d|%05d|%+d` 1 2 3 4 }}", "    1|2    |00003|+4"),
    ("{{ printf `%x %X %o %b %c %U` 255 255 8 5 65 233 }}", "ff FF 10 101 A U+00E9"),
    ("{{ printf `%#x %#o %#b` 255 8 5 }}", "0xff 010 0b101"),
    ("{{ printf `%10s|%-10s|%.2s` `abc` `abc` `abc` }}", "       abc|abc       |ab"),
    ("{{ printf `%x % x %X` `abc` `abc` `abc` }}", "616263 61 62 63 616263"),
    ("{{ printf `%f %.2f %e %g %8.3f` 1.5 2.345 1000.5 0.00001 3.14159 }}", "1.500000 2.35 1.000500e+03 1e-05    3.142"),
    ("{{ printf `%t` true }}", "true"),
    ("{{ printf `%t` 1 }}", "%!t(int=1)"),
    ("{{ printf `%v %v %v` true nil .Match }}", "true <nil> [n7. 7]"),
    ("{{ printf `%T %T %T %T` 1 `a` true 1.5 }}", "int string bool float64"),
    ("{{ printf `%%` }}", "%"),
    ("{{ printf `%` }}", "%!(NOVERB)"),
    ("{{ printf `%z` 1 }}", "%!z(int=1)"),
    ("{{ printf `%!` 1 }}", "%!!(int=1)"),
    ("{{ printf `%s` .Match }}", "[n7. 7]"),
    ("{{ printf `%d` .Match }}", "[%!d(string=n7.) %!d(string=7)]"),
    ("{{ printf `%v` .Var.x }}", "<nil>"),
    ("{{ printf `%d` .Question.Qtype }}", "16"),
    ("{{ printf `%s` true }}", "%!s(bool=true)"),
    ("{{ printf `%d` 1.5 }}", "%!d(float64=1.5)"),
    ("{{ printf `%c` 128512 }}", "😀"),
    ("{{ printf `%q` 65 }}", "'A'"),
    ("{{ printf `%08.3f` -1.5 }}", "-001.500"),
    ("{{ printf `%-08d|` 5 }}", "5       |"),
    ("{{ printf `% d` 5 }}", " 5"),
    ("{{ printf `%6.2f|%-8s|%8s` 1.234 `é` `日` }}", "  1.23|é       |       日"),
    ("{{ urlquery `a b&c=d/é` }}", "a+b%26c%3Dd%2F%C3%A9"),
    ("{{ html 1 true }}", "1 true"),
    ("{{ and 1 0 2 }} {{ or 0 `` 3 }} {{ not 0 }} {{ not `a` }}", "0 3 true false"),
    (
        "{{ eq 1 1 }} {{ eq 1 2 1 }} {{ eq `a` `a` }} {{ ne 1 2 }} {{ lt 1 2 }} {{ le 2 2 }} {{ gt `b` `a` }} {{ ge 1.5 2.5 }}",
        "true true true true true true true false",
    ),
    ("{{ eq true true }}", "true"),
    ("{{ eq nil nil }}", "true"),
    ("{{ eq .Question.Qtype 16 }}", "true"),
    ("{{ lt .Message.Id 70000 }}", "true"),
    (
        "{{ parseInt `10` 10 64 }} {{ parseInt `ff` 16 8 }} {{ parseInt `0x1f` 0 64 }} {{ parseInt `0b11` 0 64 }}",
        "10 255 31 3",
    ),
    ("{{ parseInt `18446744073709551615` 10 64 }}", "18446744073709551615"),
    ("{{ if true }}a{{ end }}{{ if false }}b{{ else }}c{{ end }}", "ac"),
    ("{{ if 0 }}a{{ else if 1 }}b{{ else }}c{{ end }}", "b"),
    ("{{ if and true (not false) }}ok{{ end }}", "ok"),
    ("{{ if .Group.none }}a{{ else }}b{{ end }}", "b"),
    ("{{ range .Match }}<{{ . }}>{{ end }}", "<n7.><7>"),
    ("{{ range $i, $e := .Match }}{{ $i }}{{ end }}", "01"),
    ("{{ range 3 }}{{ . }}{{ end }}", "012"),
    ("{{ range $i := 3 }}{{ $i }}{{ end }}", "012"),
    ("{{ range .Var }}x{{ else }}none{{ end }}", "none"),
    ("{{ range .Match }}{{ if eq . `7` }}{{ continue }}{{ end }}a{{ end }}", "a"),
    ("{{ range .Match }}{{ break }}{{ end }}b", "b"),
    ("{{ with .Name }}{{ . }}{{ end }}", "n7.z.test."),
    ("{{ with .Group.none }}a{{ else }}b{{ end }}", "b"),
    ("{{ with .Group.none }}a{{ else with .Name }}{{ . }}{{ end }}", "n7.z.test."),
    ("{{ with $y := .Name }}{{ $y }}{{ end }}", "n7.z.test."),
    ("{{ $a := 1 }}{{ $a }}{{ $a = 2 }}{{ $a }}", "12"),
    ("{{ $a := 1 }}{{ if true }}{{ $a := 2 }}{{ end }}{{ $a }}", "1"),
    ("{{ $.Name }}", "n7.z.test."),
    ("{{ with .Match }}{{ $.Name }}{{ end }}", "n7.z.test."),
    ("{{ define `t` }}<{{ . }}>{{ end }}{{ template `t` .Name }}", "<n7.z.test.>"),
    ("{{ block `b` 5 }}({{ . }}){{ end }}", "(5)"),
    ("{{- ` a` -}}  x", " ax"),
    ("  a {{- 1 -}} b", "  a1b"),
    ("{{/* c */}}x", "x"),
    ("{{- /* c */ -}} x", "x"),
    ("{{ `raw` }} {{ 'é' }}", "raw 233"),
    ("{{ 1 | }}", "1"),
    ("{{ .1 }}", "0.1"),
    ("{{ if eq .Type `TXT` }}T{{ end }}{{ if eq .Class `IN` }}I{{ end }}", "TI"),
    ("{{ printf `%s.%s` (index .Match 1) .Zone }}", "7.z.test."),
    ("{{ $m := index .Match 1 }}{{ parseInt $m 10 32 }}", "7"),
    ("{{ print .Message.Id | len | lt 0 }}", "true"),
    ("{{ .Message.MsgHdr.Opcode }}", "0"),
    ("{{ .Message.Compress }}", "false"),
    ("{{ .Message.IsTsig }}", "<nil>"),
    ("{{ not .Message.IsEdns0 }}", "true"),
    ("{{ .Zone | html | js | urlquery }}", "z.test."),
    ("{{ and .Name .Zone }}", "z.test."),
    ("{{ or .Group.none .Zone }}", "z.test."),
    ("{{ index .Match 1 | printf `%03s` }}", "007"),
    ("{{ printf `%03d` (parseInt (index .Match 1) 10 64) }}", "007"),
    ("{{ if lt (parseInt .Group.n 10 8) 100 }}small{{ end }}", "small"),
    ("{{ if lt 1 (parseInt .Group.n 10 8) }}s{{ end }}", "s"),
    ("{{ eq (parseInt .Group.n 10 8) 7 }}", "true"),
    ("{{ ge (parseInt .Group.n 10 8) .Question.Qtype }}", "false"),
    ("{{ println `a` `b` }}x", "a b\nx"),
    ("{{ print `a` `b` 1 2 true false nil 1.0 2.5 }}", "ab1 2 true false <nil> 1 2.5"),
    ("{{ printf `%v` 1e6 }} {{ printf `%v` 1e21 }} {{ 100000000.0 }} {{ 1e20 }} {{ 123456789.5 }}", "1e+06 1e+21 1e+08 1e+20 1.234567895e+08"),
    (
        "{{ printf `%g` 1e6 }} {{ printf `%g` 1e-7 }} {{ printf `%e` 0.0 }} {{ printf `%.3g` 1234.5678 }} {{ printf `%G` 1e-10 }} {{ printf `%E` 1.5 }}",
        "1e+06 1e-07 0.000000e+00 1.23e+03 1E-10 1.500000E+00",
    ),
    ("{{ len (printf `%100s` `a`) }}", "100"),
    ("{{ len (printf `%2000s` `a`) }}", "2000"),
    ("{{ printf `%.3d|%8.3d|%-8.3d|` 5 5 5 }}", "005|     005|005     |"),
    ("{{ printf `%o` -8 }} {{ printf `%O` 8 }}", "-10 0o10"),
    ("{{ printf `%p` 1 }}", "%!p(int=1)"),
    ("{{ printf `%s %d` `a` }}", "a %!d(MISSING)"),
    ("{{ printf `%s` nil }} {{ printf `%d` nil }} {{ printf `%v` nil }}", "%!s(<nil>) %!d(<nil>) <nil>"),
    ("{{ printf `%d%%` 50 }}", "50%"),
    ("{{ printf `%-5t|` true }} {{ printf `%5v|` true }}", "true |  true|"),
    ("{{ printf `%+v` .Match }}", "[n7. 7]"),
    ("{{ printf `%v` `%v` }}", "%v"),
]

#: Template, the part that fails when it is executed, and why.
FAILING = [
    ("{{ .Meta }}", ".Meta", "wrong number of args for Meta: want 1 got 0"),
    ("{{ .Meta 1 }}", "1", "expected string; found 1"),
    ("{{ .Meta `a` `b` }}", ".Meta", "wrong number of args for Meta: want 1 got 2"),
    ("{{ .Foo }}", ".Foo", "can't evaluate field Foo in type *template.templateData"),
    ("{{ .foo }}", ".foo", "can't evaluate field foo in type *template.templateData"),
    ("{{ .Name.Foo }}", ".Name.Foo", "can't evaluate field Foo in type string"),
    ("{{ .Group.n }} {{ .Group.none }} {{ .Group.n.x }}", ".Group.n.x", "can't evaluate field x in type string"),
    ("{{ index .Match 7 }}", "index .Match 7", "error calling index: index out of range: 7"),
    ("{{ index .Match -1 }}", "index .Match -1", "error calling index: index out of range: -1"),
    ("{{ index .Match `a` }}", "index .Match `a`", "error calling index: cannot index slice/array with type string"),
    ("{{ index 1 0 }}", "index 1 0", "error calling index: can't index item of type int"),
    ("{{ index nil 0 }}", "index nil 0", "error calling index: index of untyped nil"),
    ("{{ len 3 }}", "len 3", "error calling len: len of type int"),
    ("{{ len nil }}", "len nil", "error calling len: reflect: call of reflect.Value.Type on zero Value"),
    ("{{ slice .Name 5 2 }}", "slice .Name 5 2", "error calling slice: invalid slice index: 5 > 2"),
    ("{{ slice .Name 0 100 }}", "slice .Name 0 100", "error calling slice: index out of range: 100"),
    ("{{ slice 1 2 }}", "slice 1 2", "error calling slice: can't slice item of type int"),
    ("{{ printf 1 }}", "1", "expected string; found 1"),
    ("{{ printf }}", "printf", "wrong number of args for printf: want at least 1 got 0"),
    ("{{ and }}", "and", "wrong number of args for and: want at least 1 got 0"),
    ("{{ not }}", "not", "wrong number of args for not: want 1 got 0"),
    ("{{ not 1 2 }}", "not", "wrong number of args for not: want 1 got 2"),
    ("{{ eq 1 `a` }}", "eq 1 `a`", "error calling eq: incompatible types for comparison: int and string"),
    ("{{ eq 1 1.0 }}", "eq 1 1.0", "error calling eq: incompatible types for comparison: int and float64"),
    ("{{ lt true false }}", "lt true false", "error calling lt: invalid type for comparison"),
    ("{{ eq 1 }}", "eq 1", "error calling eq: missing argument for comparison"),
    ("{{ eq }}", "eq", "wrong number of args for eq: want at least 1 got 0"),
    ("{{ lt 1 }}", "lt", "wrong number of args for lt: want 2 got 1"),
    ("{{ lt 1 2 3 }}", "lt", "wrong number of args for lt: want 2 got 3"),
    ("{{ call nil }}", "call nil", "error calling call: call of nil"),
    ("{{ parseInt `-1` 10 64 }}", "parseInt `-1` 10 64", 'error calling parseInt: strconv.ParseUint: parsing "-1": invalid syntax'),
    ("{{ parseInt `256` 10 8 }}", "parseInt `256` 10 8", 'error calling parseInt: strconv.ParseUint: parsing "256": value out of range'),
    ("{{ parseInt `zz` 10 64 }}", "parseInt `zz` 10 64", 'error calling parseInt: strconv.ParseUint: parsing "zz": invalid syntax'),
    ("{{ parseInt `` 10 64 }}", "parseInt `` 10 64", 'error calling parseInt: strconv.ParseUint: parsing "": invalid syntax'),
    ("{{ parseInt `1` 1 64 }}", "parseInt `1` 1 64", 'error calling parseInt: strconv.ParseUint: parsing "1": invalid base 1'),
    ("{{ parseInt `1` 10 65 }}", "parseInt `1` 10 65", 'error calling parseInt: strconv.ParseUint: parsing "1": invalid bit size 65'),
    ("{{ parseInt `1` }}", "parseInt", "wrong number of args for parseInt: want 3 got 1"),
    ("{{ parseInt 1 10 64 }}", "1", "expected string; found 1"),
    ("{{ range .Name }}x{{ end }}", ".Name", "range can't iterate over n7.z.test."),
    ("{{ range 1.5 }}x{{ end }}", "1.5", "range can't iterate over 1.5"),
    ("{{ range nil }}x{{ else }}e{{ end }}", "nil", "nil is not a command"),
    ("{{ .Name 1 }}", ".Name", "Name has arguments but cannot be invoked as function"),
    ("{{ true }} {{ false }} {{ nil }}", "nil", "nil is not a command"),
    ("{{ nil }}", "nil", "nil is not a command"),
    ("{{ range $i, $c := .Name }}{{ $i }}{{ end }}", ".Name", "range can't iterate over n7.z.test."),
    ("{{ slice .Name 1 2 3 }}", "slice .Name 1 2 3", "error calling slice: cannot 3-index slice a string"),
    ("{{ slice .Name -1 }}", "slice .Name -1", "error calling slice: index out of range: -1"),
    ("{{ slice .Name `a` }}", "slice .Name `a`", "error calling slice: cannot index slice/array with type string"),
    ("{{ .Message.Foo }}", ".Message.Foo", "can't evaluate field Foo in type *dns.Msg"),
    ("{{ .Question.Foo }}", ".Question.Foo", "can't evaluate field Foo in type *dns.Question"),
]

#: Template, what is said of it when it is loaded.
BAD = [
    ("{{ break }}", "{{break}} outside {{range}}"),
    ("{{ $b }}", 'undefined variable "$b"'),
    ("{{ /* c */ }}x", 'unexpected "/" in command'),
    ("{{ 1 | 2 }}", "non executable command in pipeline stage 2"),
    ("{{ .Name | foo }}", 'function "foo" not defined'),
    ("{{ }}", "missing value for command"),
    ("{{ foo }}", 'function "foo" not defined'),
    ("{{ if }}a{{ end }}", "missing value for if"),
    ("{{ if true }}a", "unexpected EOF"),
    ("{{ end }}", "unexpected {{end}}"),
    ("{{ else }}", "unexpected {{else}}"),
    ("{{ if true }}{{ else }}{{ else }}{{ end }}", "expected end; found {{else}}"),
    ("{{ range }}{{ end }}", "missing value for range"),
    ("{{ with }}{{ end }}", "missing value for with"),
    ("{{ template }}", 'unexpected "}}" in template clause'),
    ("{{ define }}{{ end }}", 'unexpected "}}" in define clause'),
    ("{{ define `x` }}", "unexpected EOF"),
    ("{{ block `x` }}{{ end }}", "missing value for block clause"),
    ("{{ ) }}", "unexpected right paren"),
    ("{{ ( }}", "unclosed left paren"),
    ("{{ (1 }}", "unclosed left paren"),
    ("{{ 1 ) }}", "unexpected right paren"),
    ("{{ | }}", 'unexpected "|" in command'),
    ("{{ .Name. }}", "unexpected <.> in operand"),
    ("{{ .. }}", "unexpected <.> in operand"),
    ("{{ 1.a }}", 'bad number syntax: "1.a"'),
    ("{{ @ }}", 'unexpected "@" in command'),
    ("{{ # }}", 'unexpected "#" in command'),
    ("{{ $x := }}", "missing value for command"),
    ("{{ $x, $y := 1 }}", "too many declarations in command"),
    ("{{ range $x, $y, $z := .Match }}{{ end }}", "too many declarations in range"),
    ("{{ := }}", 'unexpected ":=" in command'),
    ("{{ = }}", 'unexpected "=" in command'),
    ("{{ , }}", 'unexpected "," in command'),
    ("{{ `a }}", "unterminated raw quoted string"),
    ("{{ 'ab' }}", "malformed character constant: 'ab'"),
    ("{{ 99999999999999999999 }}", 'integer overflow: "99999999999999999999"'),
    ("{{ 1e999 }}", 'illegal number syntax: "1e999"'),
]

TEMPLATE = r"""
    template IN TXT t%d.z.test {
        match ^n(?P<n>[0-9]+)[.]
        answer "{{ .Name }} 1 TXT \"%s\""
    }"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    """A zone for each template."""
    texts = [text for text, *_ in (*VALUES, *FAILING)]
    corefile = ".:{port} {\n    bind 127.0.0.1\n    errors" + "".join(TEMPLATE % (number, text) for number, text in enumerate(texts)) + "\n}\n"
    with Server(tmp_path_factory.mktemp("language"), corefile) as running:
        yield running


@pytest.mark.parametrize("number", range(len(VALUES)), ids=[text for text, _ in VALUES])
def test_values(server, number: int) -> None:
    reply = server.query(f"n7.t{number}.z.test.", "TXT")
    assert reply.answer[0][0].strings[0].decode() == VALUES[number][1].replace("z.test.", f"t{number}.z.test.")


@pytest.mark.parametrize("number", range(len(FAILING)), ids=[text for text, *_ in FAILING])
def test_what_fails(server, number: int) -> None:
    _, part, reason = FAILING[number]
    name = f"n7.t{len(VALUES) + number}.z.test."
    assert server.query(name, "TXT").rcode() == dns.rcode.SERVFAIL
    wanted = reason.replace("n7.z.test.", name)
    server.wait_log(rf'2 {re.escape(name)} TXT: template: answer:1:\d+: executing "answer" at <{re.escape(part)}>: {re.escape(wanted)}$')


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text for text, _ in BAD])
def test_errors(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse("answer", text)
    assert str(caught.value) == f"template: answer:1: {message}"
