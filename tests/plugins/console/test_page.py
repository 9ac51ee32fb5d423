"""The page of the console in a real browser."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator

import pytest

from fastdns.server import control
from tests.browser import Browser, browser
from tests.server import Server

Serve = Callable[..., Server]
TOKEN = "correct-horse-battery-staple"
COREFILE = """# <img src=x onerror="document.title='owned'">
.:{port} {
    console 127.0.0.1:{port2}
    errors
    cache
    whoami
}
example.org:{port} {
    console 127.0.0.1:{port2}
    template ANY ANY {
        rcode NXDOMAIN
    }
}
"""
#: Names as clients may ask them, and other texts of strangers.
HOSTILE = [
    "<script>document.title='owned'</script>.test.",
    "<img/src=x/onerror=document.title='owned'>.test.",
    "\"'><svg/onload=document.title='owned'>.test.",
    "javascript:document.title='owned'",
    "</pre></td>\u202egnp.exe.",
    "${document.title='owned'}{{constructor.constructor('document.title=1')()}}",
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(COREFILE)


def url(server: Server, view: str = "overview") -> str:
    return f"http://127.0.0.1:{server.ports['port2']}/?{view}#{view}"


def show(page: Browser, server: Server, view: str, text: str) -> None:
    page.open(url(server, view))
    page.wait_text(text)


def test_rates_are_there_within_seconds(page: Browser, server: Server) -> None:
    page.open(url(server))
    page.wait_text("Queries a second")
    for _ in range(50):
        server.query("www.example.org.")
    took = page.wait(lambda: "NXDOMAIN 100 %" in page.text(), "the rate", 10)
    assert took < 10
    assert "50 since the start" in page.text()
    zone = page.text("section[aria-label=Zones]")
    assert "example.org." in zone
    assert page.said() == []


def test_every_view_and_key(page: Browser, server: Server) -> None:
    show(page, server, "overview", "Bounds")
    for key, tab, text in (
        ("4", "plan", "caches replies, positive and negative, for their TTL"),
        ("6", "corefile", "the file is the same"),
        ("5", "explain", "Client"),
        ("7", "events", "Events"),
        ("2", "clients", "the Corefile has no top"),
        ("3", "queries", "the Corefile has no recorder"),
        ("1", "overview", "Bounds"),
    ):
        page.run("document.activeElement.blur()")
        page.keys(key)
        page.wait(lambda tab=tab: page.run(f"document.getElementById('tab-{tab}').getAttribute('aria-selected')") == "true", tab)  # type: ignore[misc]
        page.wait_text(text)
    assert page.said() == []


def test_tabs_by_arrows(page: Browser, server: Server) -> None:
    show(page, server, "overview", "Bounds")
    page.run("document.getElementById('tab-overview').focus()")
    page.keys("\ue012")  # left: round to the last
    page.wait(lambda: page.run("document.activeElement.id") == "tab-events", "the last tab has the focus")
    page.keys("\ue014")
    page.wait(lambda: page.run("document.activeElement.id") == "tab-overview", "the first tab has the focus")


def test_explain_form(page: Browser, server: Server) -> None:
    show(page, server, "explain", "Explain")
    page.wait(lambda: page.run("document.querySelectorAll('select option').length > 11"), "the addresses")
    page.type("#view input[type=text]", "www.example.org")
    page.keys("\ue007")
    page.wait_text("www.example.org. A")
    assert "NXDOMAIN" in page.text()
    assert "template" in page.text()
    page.type("#view input[type=text]", HOSTILE[1].removesuffix("."))
    page.keys("\ue007")
    page.wait_text("<img/src=x/onerror=document.title='owned'>.test. A")
    assert page.run("document.querySelectorAll('#view img').length") == 0
    assert "owned" not in page.run("document.title")


def test_the_difference_of_the_corefile(page: Browser, server: Server) -> None:
    server.write(COREFILE.replace("    cache\n", "    cache 30\n"))
    show(page, server, "corefile", "the file has changed since")
    assert page.text("pre .plus") == "+    cache 30"
    assert page.text("pre .minus") == "-    cache"
    assert "# <img src=x onerror=\"document.title='owned'\">" in page.text("pre.numbered")
    assert page.run("document.querySelectorAll('main img').length") == 0


def test_pause_and_theme(page: Browser, server: Server) -> None:
    show(page, server, "overview", "Bounds")
    page.click("#pause")
    page.wait_text("paused at")
    page.click("#pause")
    page.wait_text("live")
    colours = set()
    for _ in range(3):
        page.click("#theme")
        colours.add((page.text("#theme"), page.run("getComputedStyle(document.body).backgroundColor")))
    assert len(colours) == 3
    assert {text for text, _ in colours} == {"Theme: auto", "Theme: light", "Theme: dark"}
    assert len({colour for _, colour in colours}) == 2


def test_the_token_is_asked_for(page: Browser, serve: Serve) -> None:
    server = serve(COREFILE.replace("console 127.0.0.1:{port2}", "console 127.0.0.1:{port2} {\n  token_env T\n }"), env={"T": TOKEN})
    page.open(url(server))
    page.wait_text("This console wants the token")
    assert "Bounds" not in page.text()
    page.type("#token", "not the right token")
    page.keys("\ue007")
    page.wait_text("That is not the token.")
    page.type("#token", TOKEN)
    page.keys("\ue007")
    page.wait_text("Bounds")
    assert TOKEN not in page.run("document.documentElement.outerHTML")
    assert TOKEN not in page.run("document.cookie + localStorage.getItem('fastdns token') + location.href")
    page.said()


def test_slo_canary_and_shadow(page: Browser, serve: Serve) -> None:
    """Each has a card where the Corefile has it, and none where it has not."""
    text = ".:{port} {\n bind 127.0.0.1\n console 127.0.0.1:{port2}\n reload 1h 0s {\n canary 30% 1h\n }\n slo 99.5% 250ms\n shadow 127.0.0.1:1\n whoami\n}\n"
    server = serve(text)
    server.query("a.test")
    show(page, server, "overview", "Bounds")
    page.wait_text("99.5 % in 250 ms")
    assert "100.00 %" in page.text("section[aria-label=SLO]")
    assert "127.0.0.1:1" in page.text("section[aria-label=Shadow]")
    assert page.run("document.querySelectorAll('section[aria-label=Canary]').length") == 0
    server.write(text.replace("whoami", "errors\n whoami"))
    server.signal(signal.SIGUSR1)
    server.wait_log("Canary: 30% of the clients")
    page.wait_text("30 % of the clients")
    assert page.said() == []


# ---- texts of strangers ----


def hostile_report(server: Server) -> dict[str, object]:
    """A report of every section in which each text is one of `HOSTILE`."""
    report = control.ask({"sections": [], "history_after": 0}, server.pid)
    rows = [{"key": {"address": text, "pod": text, "namespace": text, "node": text}, "count": 9, "error": 1} for text in HOSTILE]
    names = [{"key": {"name": text, "type": text}, "count": 9, "error": 0} for text in HOSTILE]
    tables = {table: {"total": 99, "error": 1, "rows": some} for table, some in (("clients", rows), ("names", names), (HOSTILE[0], names))}
    texts = ("name", "type", "client", "transport", "rcode", "upstream")
    rest = {"took": 1e-3, "size": 40}
    queries = [
        {**dict.fromkeys(texts, text), **rest, "time": 1.7e9 + at, "stages": [text, {"handler": text, "at": 0, "took": 0}], "flags": [text], "answer": [text]}
        for at, text in enumerate(HOSTILE)
    ]
    events = [{"number": at + 1, "time": 1.7e9, **dict.fromkeys(("kind", "subject", "cause"), text), "details": {}} for at, text in enumerate(HOSTILE)]
    report |= {"top": {"window": 60, "sampled": 1, "tables": tables}, "recorder": {"queries": queries, "held": 6, "bytes": 600}, "events": {"events": events}}
    numbers = {"share": 0.99, "seconds": 1, "within": 1, "late": 1, "failed": 1}
    report["slo"] = {"objectives": [{**dict.fromkeys(("server", "zone", "view"), text), **numbers} for text in HOSTILE]}
    report["canary"] = {"share": 0.1, "left": 9, "conditions": HOSTILE[0], "replies": {text: {text: 1} for text in HOSTILE}}
    report["shadow"] = {"targets": [{"servers": [text, text], "state": text, "questions": 1, "differences": {text: 1}} for text in HOSTILE]}
    report["server"] = report["server"] | {"host": HOSTILE[0], "version": HOSTILE[1], "listeners": HOSTILE}
    text = json.dumps(report)
    for zone in ("example.org.", "whoami"):
        text = text.replace(zone, json.dumps(HOSTILE[1])[1:-1])
    found: dict[str, object] = json.loads(text)
    return found


@pytest.mark.parametrize("view", ["overview", "clients", "queries", "plan", "explain", "corefile", "events"])
def test_no_text_becomes_html(page: Browser, server: Server, view: str) -> None:
    """Whatever a section holds: there is no element but the page's own, no script has run, and the policy had nothing to refuse."""
    server.query("a.example.org.")
    show(page, server, "overview", "Bounds")
    page.driver.execute_script(
        "const report = arguments[0]; window.fetch = async () => new Response(JSON.stringify(report), {headers: {'Content-Type': 'application/json'}});"
        "location.hash = arguments[1];",
        hostile_report(server),
        "x" if view == "overview" else view,
    )
    if view == "queries":
        page.wait(lambda: page.run("document.querySelectorAll('#view td button').length") == len(HOSTILE), "the queries")
        page.click("#view td button")
        page.wait_text("way")
    if view != "explain":
        wanted = {"plan": HOSTILE[1], "corefile": "onerror=", "overview": HOSTILE[1]}.get(view, HOSTILE[0])
        page.wait(lambda: wanted in page.run("document.querySelector('#view').textContent"), f"the hostile text in {view}")
    foreign = "[...document.querySelectorAll('script, img, iframe, object, embed, link, style, base')].map((one) => one.outerHTML)"
    assert [one for one in page.run(foreign) if 'src="/console.js"' not in one and "<link" not in one] == []
    assert page.run("document.querySelectorAll('[onload], [onerror], [onclick]').length") == 0
    assert page.run("[...document.querySelectorAll('[href]')].filter((one) => one.href.startsWith('javascript')).length") == 0
    assert page.run("document.title") in (f"{HOSTILE[0]} – fastdns", "fastdns")
    assert page.said() == []


def test_the_policy_refuses_what_is_not_ours(page: Browser, server: Server) -> None:
    """The second line: even a text that became HTML could do nothing."""
    show(page, server, "overview", "Bounds")
    assert page.run("(() => { try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch (error) { return error.name; } })()") == "TypeError"
    page.run("(() => { const image = document.createElement('img'); image.src = 'http://127.0.0.1:1/'; document.body.append(image); return 0; })()")
    page.wait(lambda: any("Content Security Policy" in line for line in page.said()), "the refusal of the image")


# ---- whoever looks ----


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_are_legible(page: Browser, server: Server, dark: bool) -> None:
    """A contrast of 4.5 or more (WCAG 2.2, 1.4.3), of each text with what is behind it."""
    for _ in range(5):
        server.query("www.example.org.")
    page.screen(1280, 900, dark=dark)
    for view, text in (("overview", "Bounds"), ("plan", "passes on"), ("corefile", "the file is"), ("explain", "Client"), ("events", "Events")):
        show(page, server, view, text)
        assert page.run(CONTRASTS) == []


def test_fields_and_buttons_have_names(page: Browser, server: Server) -> None:
    for view, text in (("overview", "Bounds"), ("explain", "Client"), ("plan", "passes on")):
        show(page, server, view, text)
        named = "one.ariaLabel || one.labels?.length || one.textContent.trim()"
        nameless = f"[...document.querySelectorAll('button, input, select, svg[role=img], [role=tab]')].filter((one) => !({named}))"
        assert page.run(f"{nameless}.map((one) => one.outerHTML)") == []
        assert page.run("document.documentElement.lang") == "en"


def test_a_phone_scrolls_down_only(page: Browser, server: Server) -> None:
    page.screen(360, 740, phone=True)
    try:
        for view, text in (("overview", "Bounds"), ("plan", "passes on"), ("corefile", "the file is"), ("explain", "Client"), ("events", "Events")):
            show(page, server, view, text)
            assert page.run("document.documentElement.scrollWidth") <= 360, view
    finally:
        page.screen(1280, 900)


#: Texts whose contrast is below 4.5: relative luminance as WCAG defines it.
CONTRASTS = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colours = (...layers) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const layer of layers) { canvas.fillStyle = layer; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility() || element.closest(".skip, option, noscript")) continue;
    const behind = [];
    for (let one = element; one; one = one.parentElement) behind.unshift(getComputedStyle(one).backgroundColor);
    const style = getComputedStyle(element), ink = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [luminance(colours(...behind, ink)), luminance(colours(...behind))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${element.tagName} ${element.className} ${node.textContent.trim().slice(0, 40)}`);
  }
  return found;
})()"""
