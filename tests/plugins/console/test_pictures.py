"""The pictures of the pages: of the console in a browser, of `fastdns top` by rich. `make pictures` puts them into docs/pictures."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import pytest
from rich.console import Console

from fastdns.server import control
from fastdns.top.screen import screen
from fastdns.top.servers import Servers
from fastdns.top.sources import Local
from fastdns.top.state import VIEWS, State
from tests.browser import browser
from tests.server import Server

Serve = Callable[..., Server]

pytestmark = pytest.mark.slow

#: Seconds of queries before the pictures are taken: a sample is taken each ten.
SECONDS = 130.0
UPSTREAM = '.:{port} {\n template ANY A . {\n  answer "{{ .Name }} 60 IN A 192.0.2.7"\n }\n template ANY AAAA . {\n  rcode NXDOMAIN\n }\n}'
COREFILE = """# The cluster's resolver.
.:{{port}} {{
    console 127.0.0.1:{{port2}}
    errors
    top
    cache 30
    forward . 127.0.0.1:{upstream}
}}
example.org:{{port}} {{
    console 127.0.0.1:{{port2}}
    errors
    top
    hosts {{
        192.0.2.1 www.example.org
        fallthrough
    }}
    whoami
}}
broken.example.net:{{port}} {{
    console 127.0.0.1:{{port2}}
    top
    template ANY ANY {{
        rcode SERVFAIL
    }}
}}
"""


def ask(port: int, over: threading.Event) -> None:
    """Queries of several clients, whose number rises and falls."""
    with contextlib.ExitStack() as stack:
        clients = []
        for last in range(2, 8):
            client = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            client.bind((f"127.0.0.{last}", 0))
            client.connect(("127.0.0.1", port))
            client.settimeout(1)
            clients += [client] * last
        number = 0
        while not over.wait(0.1):
            for _ in range(int(40 + 25 * math.sin(time.monotonic() / 20))):
                number += 1
                if number % 60 == 0:
                    name, kind = "x.broken.example.net", "A"
                elif number % 5 == 0:
                    name, kind = "www.example.org", "A"
                else:
                    name, kind = f"{number % 400}.shop.example", "AAAA" if number % 3 == 0 else "A"
                client = clients[number % len(clients)]
                client.send(dns.message.make_query(name, kind).to_wire())
                try:
                    client.recv(4096)
                except TimeoutError:
                    pass


@pytest.fixture
def server(serve: Serve) -> Iterator[Server]:
    upstream = serve(UPSTREAM)
    server = serve(COREFILE.format(upstream=upstream.port))
    over = threading.Event()
    asking = threading.Thread(target=ask, args=(server.port, over))
    asking.start()
    yield server
    over.set()
    asking.join()


def test_pictures(server: Server, tmp_path: Path) -> None:
    folder = Path(os.environ.get("FASTDNS_PICTURES", "") or tmp_path)
    time.sleep(SECONDS)
    url = f"http://127.0.0.1:{server.ports['port2']}/"
    with browser(tmp_path) as page:
        for name, view, text, size, options in (
            ("console.png", "overview", "Bounds", (1240, 820), {}),
            ("console-dark.png", "plan", "passes on", (1240, 560), {"dark": True}),
            ("console-top.png", "clients", "127.0.0.7", (1240, 760), {}),
            ("console-phone.png", "overview", "Bounds", (390, 780), {"dark": True, "phone": True}),
        ):
            page.screen(*size, **options)
            page.open(f"{url}?{name}#{view}")
            page.wait_text(text)
            page.wait(lambda view=view: view != "overview" or "After the next reading" not in page.text(), "rates")  # type: ignore[misc]
            page.picture(folder / name)
            assert page.said() == []
    (folder / "top.svg").write_text(top(server, "overview", "queries&#160;a&#160;second"))
    (folder / "top-names.svg").write_text(top(server, "who asks", "www.example.org."))
    for path in folder.glob("console*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert 5_000 < path.stat().st_size < 250_000, path


def top(server: Server, view: str, shown: str) -> str:
    """A view of `fastdns top` as it is on a terminal of 112 columns; no font is loaded from elsewhere."""
    servers, state = Servers([Local(control.ask, server.pid)]), State(view=VIEWS.index(view))
    for _ in range(20):
        servers.read(state.request())
        state.remember(servers.rates)
        time.sleep(0.5)
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(screen(servers, state, 30))
    text = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="fastdns top"), flags=re.S)
    assert shown in text
    assert "url(http" not in text
    return text
