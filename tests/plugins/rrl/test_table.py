"""The table of accounts: buckets of tokens, debt, slip, and who gives way in a full bucket."""

from __future__ import annotations

import random
import threading

import pytest

from fastdns.plugins.rrl._table import Accounts

S = 10**9
NOW = 10**15
FULL = 1 << 24


def test_a_second_s_allowance_at_once() -> None:
    accounts = Accounts(FULL)
    assert [accounts.charge(2, 10, NOW) for _ in range(12)] == ["granted"] * 10 + ["exceeded"] * 2


def test_a_steady_client_at_its_rate_is_never_dropped() -> None:
    accounts = Accounts(FULL)
    assert all(accounts.charge(2, 10, NOW + step * S // 10) == "granted" for step in range(1000))


@pytest.mark.parametrize(("window", "wanted"), [(15.0, 0), (1.0, 0), (0.0, 500)])
def test_who_goes_on_above_its_rate(window: float, wanted: int) -> None:
    """Twice the rate for ten seconds: with debt nothing passes, without it the rate does."""
    accounts = Accounts(FULL)
    results = [accounts.charge(2, 100, NOW + step * S // 200, window=window) for step in range(2000)]
    assert abs(results[1000:].count("granted") - wanted) <= 5


@pytest.mark.parametrize("window", [1.0, 15.0])
def test_debt_is_paid_after_the_window(window: float) -> None:
    accounts = Accounts(FULL)
    for _ in range(100000):
        accounts.charge(2, 10, NOW, window=window)
    assert accounts.charge(2, 10, NOW + int((window - 0.2) * S), window=window) == "exceeded"
    assert accounts.charge(2, 10, NOW + int((window + 0.5) * S), window=window) == "granted"


def test_less_than_one_a_second() -> None:
    accounts = Accounts(FULL)
    seconds = (0, 5, 16, 17, 100, 101, 200)
    wanted = ["granted", "exceeded", "exceeded", "exceeded", "granted", "exceeded", "granted"]
    assert [accounts.charge(2, 0.1, NOW + second * S) for second in seconds] == wanted


def test_slip() -> None:
    accounts = Accounts(FULL)
    results = [accounts.charge(2, 1, NOW, slip=3) for _ in range(10)]
    assert results == ["granted", *(["exceeded", "exceeded", "slips"] * 3)]
    assert [accounts.charge(4, 1, NOW, slip=1) for _ in range(3)] == ["granted", "slips", "slips"]


def test_who_has_most_credit_gives_way() -> None:
    """One bucket of four: an account in debt stays whatever comes, and new ones pass unlimited once all four are."""
    accounts = Accounts(4)
    for _ in range(20):
        accounts.charge(3, 10, NOW)
    accounts.charge(5, 10, NOW)
    accounts.charge(7, 10, NOW - S // 2)
    accounts.charge(9, 10, NOW)
    assert accounts.charge(11, 10, NOW) == "granted"
    assert sorted(accounts.keys()) == [3, 5, 9, 11]
    forged = random.Random(1)
    assert all(accounts.charge(forged.getrandbits(64), 10, NOW + step) == "granted" for step in range(10000))
    assert 3 in accounts.keys()  # noqa: SIM118
    assert accounts.charge(3, 10, NOW + S) == "exceeded"
    accounts = Accounts(4)
    for key in (3, 5, 7, 9):
        for _ in range(20):
            accounts.charge(key, 10, NOW)
    assert accounts.charge(11, 10, NOW) == "untracked"
    assert sorted(accounts.keys()) == [3, 5, 7, 9]


@pytest.mark.parametrize("size", [0, 1, 4, 1000, 100000])
def test_never_more_accounts_than_its_size(size: int) -> None:
    accounts = Accounts(size)
    some = random.Random(2)
    for step in range(2 * size + 100):
        accounts.charge(some.getrandbits(64), 10, NOW + step)
    assert len(accounts.keys()) <= max(4, size)


def test_workers_share_an_account() -> None:
    """Four threads charge one account: the tokens are those of one, but for one that each race at its beginning may cost."""
    accounts = Accounts(FULL)
    granted: list[int] = []

    def work() -> None:
        granted.append(sum(accounts.charge(2, 1000, NOW) == "granted" for _ in range(20000)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1000 <= sum(granted) <= 1004
