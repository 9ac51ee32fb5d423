"""Prefetch and stale answers in all their modes: through the sockets of a server with a scripted upstream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import dns.flags
import dns.message

from tests.plugins.cache.scripted import SOA, UPSTREAM_PATIENCE, asked, running, texts, ttls
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

#: Entries that end after a second; {} is the line about what follows then.
SHORT = "cache {{\n success 1024 3600 1\n denial 1024 1800 1\n {}\n }}"
OLD, NEW = "192.0.2.1", "192.0.2.9"
#: Seconds: an entry to be fetched again with 80 % of its time left, of which whole seconds count; that is when a second is over, long before its end.
TTL = 8
EARLY, DUE = 0.9, 1.2


def answer(name: str, address: str, ttl: int = 1) -> list[str]:
    return [f"{name} {ttl} IN A {address}"]


def addresses(reply: dns.message.Message) -> list[str]:
    return [line.split()[-1] for line in texts(reply.answer)]


# ---- prefetch ----


def test_prefetch(serve: Serve) -> None:
    with running(serve, "cache {\n success 1024 3600 1\n prefetch 2 1m 80%\n }") as (server, upstream, script):
        script.say("a.test.", answer("a.test.", OLD, TTL))
        script.say("b.test.", answer("b.test.", OLD, TTL))
        big = [f"big.test. {TTL} IN TXT {'x' * 200}{number}" for number in range(100)]
        script.say("big.test.", big)
        start = time.monotonic()
        for name, qtype in [("a.test.", "A"), ("a.test.", "A"), ("a.test.", "A"), ("b.test.", "A")] + [("big.test.", "TXT")] * 3:
            server.query(name, qtype, tcp=qtype == "TXT")
        assert (asked(upstream, "a.test."), asked(upstream, "b.test.")) == (1, 1) or time.monotonic() - start > EARLY
        fetched = asked(upstream, "big.test.")
        time.sleep(DUE)
        script.say("a.test.", answer("a.test.", NEW, TTL))
        assert addresses(server.query("a.test.")) == [OLD]  # before it ends, and at once
        server.query("b.test.")
        server.query("big.test.", "TXT")
        start = time.monotonic()
        until(lambda: addresses(server.query("a.test.")) == [NEW])
        count = asked(upstream, "a.test.")
        assert count == 2 or time.monotonic() - start > EARLY
        assert asked(upstream, "b.test.") == 1
        until(lambda: asked(upstream, "big.test.") > fetched)
        assert len(texts(server.query("big.test.", "TXT", tcp=True).answer)) == 100
        # The count of hits goes on with the new entry.
        time.sleep(DUE)
        server.query("a.test.")
        until(lambda: asked(upstream, "a.test.") > count)


def test_a_prefetch_that_fails_leaves_the_entry(serve: Serve) -> None:
    with running(serve, "cache {\n success 1024 3600 1\n prefetch 1 1m 80%\n }") as (server, upstream, script):
        script.say("a.test.", answer("a.test.", OLD, TTL))
        server.query("a.test.")
        script.say("a.test.", rcode="SERVFAIL")
        time.sleep(DUE)
        # It is tried again with each hit, once the last try has ended.
        for count in range(2, 4):
            until(lambda count=count: addresses(server.query("a.test.")) == [OLD] and asked(upstream, "a.test.") >= count)  # type: ignore[misc]


# ---- immediate ----


IMMEDIATE = {"plain.": ("1h", 0), "ttl.": ("1h immediate 30s", 30), "keep.": ("1h\n keepttl", 1), "both.": ("1h immediate 30s\n keepttl", 30)}


def test_immediate(serve: Serve) -> None:
    caches = {zone: SHORT.format("serve_stale " + more) for zone, (more, _) in IMMEDIATE.items()}
    with running(serve, caches) as (server, upstream, script):
        for zone in IMMEDIATE:
            script.say("a." + zone, answer("a." + zone, OLD))
            script.say("none." + zone, rcode="NXDOMAIN", authority=[SOA.replace(" 60 ", " 1 ")])
            server.query("a." + zone)
            server.query("none." + zone)
        time.sleep(1.05)
        for zone, (_, ttl) in IMMEDIATE.items():
            name = "a." + zone
            script.say(name, rcode="SERVFAIL")
            script.say("none." + zone, rcode="SERVFAIL")

            def stale(name: str = name, zone: str = zone, ttl: int = ttl) -> int:
                reply = server.query(name)
                assert (addresses(reply), ttls(reply)) == ([OLD], {ttl})
                assert server.query("none." + zone).rcode() == 3
                return asked(upstream, name)

            # One refresh after the other, none of which is good enough to be kept.
            for count in range(2, 5):
                until(lambda count=count, stale=stale: stale() >= count)  # type: ignore[misc]
            script.say(name, answer(name, NEW, 500))
            until(lambda name=name: addresses(server.query(name)) == [NEW])  # type: ignore[misc]
            assert 400 < min(ttls(server.query(name))) <= 500


def test_immediate_refreshes_once_at_a_time(serve: Serve) -> None:
    with running(serve, SHORT.format("serve_stale 1h")) as (server, upstream, script):
        script.say("a.test.", answer("a.test.", OLD))
        server.query("a.test.")
        time.sleep(1.05)
        script.going.clear()
        for _ in range(20):
            assert addresses(server.query("a.test.")) == [OLD]
        until(lambda: asked(upstream, "a.test.") == 2)
        for _ in range(20):
            assert addresses(server.query("a.test.")) == [OLD]
        assert asked(upstream, "a.test.") == 2


def test_recheck_keeps_quiet_after_a_failure(serve: Serve) -> None:
    caches = {"long.": SHORT.format("serve_stale 1h immediate 30s 5m"), "short.": SHORT.format("serve_stale 1h immediate 30s 500ms")}
    with running(serve, caches) as (server, upstream, script):
        for zone in caches:
            script.say("a." + zone, answer("a." + zone, OLD))
            server.query("a." + zone)
            script.say("a." + zone, rcode="SERVFAIL")
        time.sleep(1.05)
        until(lambda: addresses(server.query("a.long.")) == [OLD] and asked(upstream, "a.long.") == 2)
        start = time.monotonic()
        for count in range(2, 5):
            until(lambda count=count: addresses(server.query("a.short.")) == [OLD] and asked(upstream, "a.short.") >= count)  # type: ignore[misc]
        assert time.monotonic() - start > 0.9
        for _ in range(5):
            server.query("a.long.")
        assert asked(upstream, "a.long.") == 2


def test_expired_for_too_long(serve: Serve) -> None:
    modes = {"immediate.": "immediate", "timed.": "verify 300ms", "verify.": "verify"}
    with running(serve, {zone: SHORT.format(f"serve_stale 1s {mode}") for zone, mode in modes.items()}) as (server, _, script):
        for zone in modes:
            script.say("a." + zone, answer("a." + zone, OLD))
            server.query("a." + zone)
            script.say("a." + zone, rcode="SERVFAIL")
        time.sleep(2.1)
        for zone in modes:
            assert server.query("a." + zone).rcode() == 2, zone


# ---- verify ----


def test_verify(serve: Serve) -> None:
    zones = {"plain.": "", "timed.": "5m"}
    with running(serve, {zone: SHORT.format(f"serve_stale 1h verify {timeout}") for zone, timeout in zones.items()}) as (server, upstream, script):
        for zone in zones:
            script.say("a." + zone, answer("a." + zone, OLD), flags="RA AD")
            server.query("a." + zone)
        time.sleep(1.05)
        for zone, timeout in zones.items():
            name = "a." + zone
            for said in ({"rcode": "SERVFAIL"}, {"rcode": "REFUSED"}, {"flags": "RA TC", "answer": answer(name, NEW)}):
                script.say(name, **said)  # type: ignore[arg-type]
                reply = server.query(name)
                assert (addresses(reply), ttls(reply)) == ([OLD], {0})
                assert reply.flags & dns.flags.AA
            script.say(name, answer(name, NEW, 50), flags="RA AD")
            count = asked(upstream, name)
            reply = server.query(name)
            assert addresses(reply) == [NEW]
            assert not reply.flags & dns.flags.AD
            # What waited for a refresh comes from the cache; without a time limit it is the upstream's reply itself.
            assert bool(reply.flags & dns.flags.AA) is bool(timeout)
            for _ in range(3):
                assert addresses(server.query(name)) == [NEW]
            assert asked(upstream, name) == count + 1


def test_verify_gives_up_waiting_and_goes_on_asking(serve: Serve) -> None:
    # One worker: questions are merged within one, and what is asked here while the refresh is under way must not be asked again.
    with running(serve, SHORT.format("serve_stale 1h verify 200ms 30s"), "-workers", "1") as (server, upstream, script):
        script.say("a.test.", answer("a.test.", OLD))
        server.query("a.test.")
        time.sleep(1.05)
        script.say("a.test.", answer("a.test.", NEW, 500))
        script.going.clear()
        start = time.monotonic()
        reply = server.query("a.test.")
        assert (addresses(reply), ttls(reply)) == ([OLD], {30})
        assert 0.15 < time.monotonic() - start < UPSTREAM_PATIENCE - 1
        assert asked(upstream, "a.test.") == 2
        script.going.set()
        until(lambda: addresses(server.query("a.test.")) == [NEW])
        assert asked(upstream, "a.test.") == 2, "it went on asking"


def test_verify_of_many_at_once(serve: Serve) -> None:
    with running(serve, SHORT.format("serve_stale 1h verify 5m 30s 5m"), "-workers", "1") as (server, upstream, script):
        script.say("a.test.", answer("a.test.", OLD))
        server.query("a.test.")
        time.sleep(1.05)
        script.say("a.test.", answer("a.test.", NEW, 500))
        script.going.clear()
        found: list[list[str]] = []
        threads = [threading.Thread(target=lambda: found.append(addresses(server.query("a.test.", timeout=LIMIT)))) for _ in range(10)]
        for thread in threads:
            thread.start()
        # One waits for the refresh; while it is under way the others get what is there (spec: RECHECK).
        until(lambda: len(found) == 9)
        script.going.set()
        for thread in threads:
            thread.join()
        assert found == [[OLD]] * 9 + [[NEW]]
        assert asked(upstream, "a.test.") == 2


def test_verify_without_any_reply(serve: Serve) -> None:
    zones = {"plain.": "0", "timed.": "300ms"}
    limits = {"plain.": "500ms", "timed.": "1h"}
    caches = {zone: f"cancel {limits[zone]}\n {SHORT.format(f'serve_stale 1h verify {timeout}')}" for zone, timeout in zones.items()}
    with running(serve, caches) as (server, _, script):
        for zone in zones:
            script.say("a." + zone, answer("a." + zone, OLD))
            server.query("a." + zone)
            script.said["a." + zone] = None
        time.sleep(1.05)
        for zone, wanted in (("plain.", 0.5), ("timed.", 0.3)):
            start = time.monotonic()
            assert addresses(server.query("a." + zone)) == [OLD]
            assert wanted - 0.05 < time.monotonic() - start < UPSTREAM_PATIENCE - 1
        server.process.kill()  # which does not wait for what forward still waits for


# ---- prefer_positive ----


def test_prefer_positive(serve: Serve) -> None:
    caches = {
        "positive.": SHORT.format("serve_stale 1h verify\n serve_stale_policy prefer_positive"),
        "plain.": SHORT.format("serve_stale 1h verify"),
    }
    with running(serve, caches) as (server, _, script):
        name = "a.positive."
        script.say(name, answer(name, OLD))
        server.query(name)
        script.say("a.plain.", answer("a.plain.", OLD))
        server.query("a.plain.")
        time.sleep(1.05)
        # Denials and answers without the address do not replace the answer that was good.
        for said in (
            {"rcode": "NXDOMAIN", "authority": [SOA]},
            {"authority": [SOA]},
            {"answer": [name + " 60 IN CNAME b.test."], "authority": [SOA]},
            {},
        ):
            script.say(name, **said)  # type: ignore[arg-type]
            assert addresses(server.query(name)) == [OLD]
        script.say(name, answer(name, NEW, 50))
        assert addresses(server.query(name)) == [NEW]
        assert addresses(server.query(name)) == [NEW]
        # Without the policy they do.
        script.say("a.plain.", rcode="NXDOMAIN", authority=[SOA])
        assert [server.query("a.plain.").rcode() for _ in range(2)] == [3, 3]


def test_a_failure_does_not_hide_an_answer(serve: Serve) -> None:
    """Without serve_stale a SERVFAIL is kept beside an answer only by prefetch; the answer wins as long as it lives."""
    with running(serve, SHORT.format("prefetch 1 1m 90%\n servfail 5m")) as (server, upstream, script):
        script.say("a.test.", answer("a.test.", OLD, 3))
        start = time.monotonic()
        server.query("a.test.")
        script.say("a.test.", rcode="SERVFAIL")
        time.sleep(1.05)
        server.query("a.test.")
        until(lambda: asked(upstream, "a.test.") == 2)
        while True:
            reply = server.query("a.test.")
            if time.monotonic() - start > 2.95:
                break
            assert addresses(reply) == [OLD]
            time.sleep(0.05)
        until(lambda: server.query("a.test.").rcode() == 2, "the end of the answer", 10)
