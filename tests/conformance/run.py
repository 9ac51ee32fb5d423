"""One run of one case: what it needs is started, its steps are taken, and all of it ends."""

from __future__ import annotations

import functools
import shlex
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.certificates import write_certificates
from tests.conformance.answers import Answer, canonical, compare, mask, signatures
from tests.conformance.cases import Case, Step, as_list
from tests.conformance.errors import Problem, Skip
from tests.conformance.kube_api import KubeAPI
from tests.conformance.placeholders import Placeholders
from tests.conformance.process import Process
from tests.conformance.queries import Query
from tests.conformance.transports import LIBRARY, send
from tests.conformance.upstream import Upstream
from tests.etcd import Etcd
from tests.server import free_port

__all__ = ["Result", "Run"]


class Result(NamedTuple):
    """``status`` is pass, fail, skip or differs; ``step`` 0 stands for the case as a whole."""

    status: str
    step: int
    text: str


class Run:
    """``command`` is the server's, with ``{corefile}``. With ``record`` answers are collected in ``recorded`` instead of compared."""

    def __init__(self, case: Case, command: str, record: bool = False) -> None:
        self.case, self.command, self.record = case, command, record
        self.document = case.document
        self.expected = {} if record else case.expected()
        self.places = Placeholders(self.document.get("upstreams") or {})
        self.results: list[Result] = []
        self.recorded: dict[int, Answer] = {}
        self.upstreams: dict[str, Upstream] = {}
        self.kube: KubeAPI | None = None
        self.etcd: Etcd | None = None
        self.process: Process | None = None
        self.folder = Path()
        #: Queries without a reply one after another, and whether an ``until`` has run out: a broken case must not take minutes.
        self.unanswered = 0
        self.gave_up = False

    def run(self, steps: Mapping[str, Callable[[Run, int, Step], None]], keep: bool = False) -> None:
        """``steps`` has what each kind of step does; with ``keep`` the folder of the run stays."""
        self.folder = Path(tempfile.mkdtemp(prefix="conformance-"))
        try:
            self._check_needs()
            self._set_up()
            self.process = self._launch()
            if "refuse" in self.document:
                self.check(0, self.process.refusal(self.document["refuse"]), "refuse")
                return
            self._wait_listening()
            for number, step in enumerate(self.case.steps, 1):
                kind = next((key for key in step if key in steps), None)
                if kind is None:
                    raise Problem(f"step {number}: unknown kind {list(step)}")
                steps[kind](self, number, step)
        except Skip as reason:
            self.results = [Result("skip", 0, str(reason))] * max(1, self.case.checks)
        except Exception as error:  # a defect of a step must not end the other cases
            text = str(error) if isinstance(error, Problem) else f"{type(error).__name__}: {error}"
            rest = max(1, self.case.checks - len(self.results))
            self.results += [Result("fail", 0, text), *[Result("fail", 0, "not run")] * (rest - 1)]
        finally:
            self._stop()
            if not keep:
                shutil.rmtree(self.folder, ignore_errors=True)

    # ---- surroundings ----

    def _check_needs(self) -> None:
        for name in self.document.get("needs", []):
            if name == "ipv6":
                if not has_ipv6():
                    raise Skip("no IPv6 loopback")
            elif not shutil.which(name):
                raise Skip(f"{name} is not installed")

    def _set_up(self) -> None:
        self.certificates = self.folder / "certs"
        shutil.copytree(certificates(), self.certificates)
        self.places["dir"], self.places["certs"] = str(self.folder), str(self.certificates)
        if "kube" in self.document:
            self._start_kube(self.document["kube"])
        for number, description in (self.document.get("upstreams") or {}).items():
            port = self.places.port(f"upstream_port{number}")
            try:
                self.upstreams[str(number)] = Upstream(port, self.places.fill_all(description), self.certificates)
            except PermissionError:
                raise Skip(f"port {port} may not be used") from None
        if "etcd" in self.document:
            self._start_etcd(self.document["etcd"] or {})
        for name, text in (self.document.get("files") or {}).items():
            self.write(name, text)
        for name in self.document.get("dirs") or []:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.write("Corefile", self.document["corefile"])

    def _start_kube(self, described: Any) -> None:
        options = described if isinstance(described, dict) else {"objects": described}
        tls = (str(self.certificates / "server.pem"), str(self.certificates / "server.key")) if options.get("tls") else None
        client_ca = str(self.certificates / "ca.pem") if options.get("client_cert") else None
        self.kube = KubeAPI(free_port(), options.get("objects", ()), tls, options.get("token"), options.get("down", False), client_ca)
        self.places["apiserver"] = self.kube.url

    def _start_etcd(self, data: dict[str, Any]) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise Skip("etcd is not installed")
        folder = self.folder / "etcd"
        folder.mkdir()
        self.etcd = Etcd(program, folder)
        self.etcd.start()
        self.places["etcd"] = self.etcd.url
        for key, value in data.items():
            self.etcd.put(key, value)

    def write(self, name: str, text: str) -> None:
        """A file of the run's folder, in place of an older one at once."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.tmp~")
        new.write_text(self.places.fill(text), encoding="utf-8")
        new.replace(path)

    def _launch(self) -> Process:
        corefile = str(self.folder / "Corefile")
        words = [word.replace("{corefile}", corefile).replace("{dir}", str(self.folder)) for word in shlex.split(self.command)]
        words += [self.places.fill(word) for word in self.document.get("args", [])]
        environment = {name: self.places.fill(str(value)) for name, value in (self.document.get("env") or {}).items()}
        return Process(words, self.folder, environment)

    def _wait_listening(self) -> None:
        host = self.document.get("wait_host", "127.0.0.1")
        end = time.monotonic() + self.document.get("start_limit", 30)
        for name in self.document.get("wait", ["port"]):
            self.server.wait_listening(host, self.places.port(name.removeprefix("udp ")), name.startswith("udp "), end)

    def _stop(self) -> None:
        if self.process:
            self.process.stop()
        if self.etcd:
            self.etcd.stop()
        for upstream in self.upstreams.values():
            upstream.stop()
        if self.kube:
            self.kube.stop()

    @property
    def server(self) -> Process:
        if self.process is None:
            raise Problem("the server is not started")
        return self.process

    # ---- results ----

    def check(self, number: int, differences: list[str], what: str) -> None:
        """The result of a step: it fails if there are differences."""
        text = f"{what}: {'; '.join(differences)}" if differences else what
        self.results.append(Result("fail" if differences else "pass", number, text))

    def judge(self, number: int, step: Step, what: str, got: Answer) -> None:
        """The result of a step with a recorded answer, or the record of its answer."""
        got = mask(got, step)
        if self.record:
            broken = not step.get("broken_ok") and ("broken" in got or "unparseable" in got)
            kept = {part: value for part, value in got.items() if part in (step.get("only") or got) and part not in step.get("ignore", ())}
            if step.get("count") or step.get("mask"):  # what varies has no size
                kept.pop("size", None)
            self.recorded[number] = {"do": what, **kept}
            self.check(number, ["recorded a broken reply"] if broken else [], what)
        elif number not in self.expected:
            self.check(number, ["nothing recorded"], what)
        elif self.expected[number]["do"] != what:
            self.check(number, [f"recorded for another step: {self.expected[number]['do']!r}"], what)
        else:
            self.check(number, self.differences(number, got, step), what)

    def differences(self, number: int, got: Answer, step: Step) -> list[str]:
        """Between a masked answer and the recorded one."""
        if number not in self.expected:
            return ["nothing recorded"]
        wanted = {part: value for part, value in self.expected[number].items() if part != "do"}
        return compare(wanted, got, step)

    # ---- queries ----

    def query(self, text: str) -> Query:
        return Query(text, self.places.fill, self.places.port("port"))

    def ask(self, text: str, step: Step, timeout: float | None = None) -> Answer:
        """The answer to one query, or ``{"error": …}``; ``timeout`` replaces the query's own."""
        query = self.query(text)
        query.timeout = timeout or query.timeout
        if self.server.status() is not None:
            return {"error": f"the server has exited with {self.server.status()}"}
        if self.unanswered >= 3:
            query.timeout, query.refused_limit = min(query.timeout, 0.5), 0.1
        try:
            data = send(query)
        except Problem as error:
            return {"error": str(error)}
        except Exception as error:
            if query.transport not in LIBRARY:
                raise
            return {"error": type(error).__name__}
        if timeout is None:
            self.unanswered = self.unanswered + 1 if data is None else 0
        answer = canonical(data, query, bool(step.get("ordered")))
        if data is not None:
            answer["size"] = len(data)
            if step.get("verify"):
                answer["signatures"] = signatures(data, as_list(step["verify"]))
            if len(data) > step.get("max_size", len(data)):
                answer["oversize"] = len(data)
        return answer


_made = threading.Lock()


def certificates() -> Path:
    """The folder of a CA, a server's and a client's certificate for this process, made once."""
    with _made:
        return _make_certificates()


@functools.cache
def _make_certificates() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="conformance-certificates-")
    _folders.append(folder)
    return write_certificates(Path(folder.name), "conformance.test")


#: Removed with the interpreter's end.
_folders: list[tempfile.TemporaryDirectory[str]] = []


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
