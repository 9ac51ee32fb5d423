"""Label selectors: what they match, how they are written again, what is no selector."""

from __future__ import annotations

import pytest

from fastdns.plugins.kubernetes.watch.selectors import Selector, SelectorError

LABELS = {"app": "web", "tier": "front", "example.org/size": "12", "empty": ""}

MATCHES = [
    ("", True, ""),
    ("app", True, "app"),
    ("!app", False, "!app"),
    ("!other", True, "!other"),
    ("app=web", True, "app=web"),
    ("app == web", True, "app=web"),
    ("app!=web", False, "app!=web"),
    ("other!=web", True, "other!=web"),
    ("app in (api, web)", True, "app in (api,web)"),
    ("app in (web)", True, "app=web"),
    ("app notin (api,web)", False, "app notin (api,web)"),
    ("other notin (x)", True, "other!=x"),
    ("empty=", True, "empty="),
    ("empty in (,x)", True, "empty in (,x)"),
    ("tier=front,app=web", True, "app=web,tier=front"),
    ("tier=front,app=api", False, "app=api,tier=front"),
    ("example.org/size>11", True, "example.org/size>11"),
    ("example.org/size<12", False, "example.org/size<12"),
    ("app>3", False, "app>3"),
]


@pytest.mark.parametrize(("text", "matches", "again"), MATCHES)
def test_selectors(text: str, matches: bool, again: str) -> None:
    selector = Selector.parse(text)
    assert selector.matches(LABELS) is matches
    assert str(selector) == again
    assert Selector.parse(again) == selector


BAD = {
    "a=b,": "found '', expected: identifier after ','",
    ",a": "unable to parse requirement: found ',', expected: identifier",
    "a b": "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    "a=b c": "found 'c', expected: ',' or 'end of string'",
    "a in b": "unable to parse requirement: found 'b' expected: '('",
    "a in (b": "unable to parse requirement: found '', expected: ',', or ')'",
    "a=(": "unable to parse requirement: found '(', expected: identifier",
    "-a=b": 'Invalid value: "-a"',
    "a=b_": 'Invalid value: "b_"',
    "UPPER/a": 'Invalid value: "UPPER/a"',
    f"a={'b' * 64}": "a valid label must be",
    "a>b": "the value must be an integer",
}


@pytest.mark.parametrize(("text", "said"), BAD.items())
def test_what_is_no_selector(text: str, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        Selector.parse(text)
    assert said in str(caught.value)
