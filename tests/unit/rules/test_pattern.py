"""The pattern language, against a plain matcher that shares nothing with it."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_dm.engine.config.errors import InvalidPattern
from airflow_provider_dm.engine.config.pattern import Pattern

LETTERS = "abAB1_.$-^&~|(\\"


def plain_match(parts: list[tuple[str, str]], name: str) -> bool:
    """Wildcards as the documentation describes them, one character after the other, case not regarded."""
    if not parts:
        return name == ""
    (kind, text), *rest = parts
    if kind == "any":
        return True
    if not name:
        return False
    first = name[0].lower()
    match kind:
        case "letter":
            fits = first == text.lower()
        case "one":
            fits = True
        case "in":
            fits = first in text.lower()
        case _:
            fits = first not in text.lower()
    return fits and plain_match(rest, name[1:])


def written(parts: list[tuple[str, str]]) -> str:
    forms = {"letter": "{}", "one": "?", "any": "*", "in": "[{}]", "out": "[!{}]"}
    return "".join(forms[kind].format(text) for kind, text in parts)


middle = st.one_of(
    st.tuples(st.just("letter"), st.sampled_from(LETTERS)),
    st.tuples(st.just("one"), st.just("")),
    st.tuples(st.sampled_from(["in", "out"]), st.sampled_from(["a", "ab", "ab1", "_.$", "^b", "&~|"])),
)
patterns = st.tuples(st.lists(middle, max_size=6), st.sampled_from([[], [("any", "")]])).map(
    lambda two: two[0] + two[1]
)


@given(patterns, st.text(alphabet=LETTERS, max_size=8))
@example([("letter", "a"), ("any", "")], "a")
@example([("any", "")], "")
def test_wildcards_match_what_the_documentation_says(parts: list[tuple[str, str]], name: str) -> None:
    text = written(parts)
    if not text or text.startswith("~"):
        return
    assert Pattern.compile(text, case_sensitive=False).matches(name) == plain_match(parts, name)


@given(st.text(alphabet=string.ascii_letters + string.digits + "_$-. é", min_size=1, max_size=12))
def test_a_name_without_wildcards_matches_only_itself(name: str) -> None:
    pattern = Pattern.compile(name, case_sensitive=True)
    assert pattern.matches(name)
    assert not pattern.matches(name + "x")
    assert not pattern.matches("x" + name)


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("T_*", "t_1", True),
        ("t_[0-9][!a-c]", "t_5d", True),
        ("t_[0-9][!a-c]", "t_5b", False),
        ("t[1", "t[1", True),
        ("[!]", "!", True),
        ("~^test.*", "TEST_1", True),
        ("~est", "a_test_b", True),
        ("~^t_\\d+$", "t_12", True),
        ("~^t_\\D+$", "t_12", False),
        ("a.b", "axb", False),
    ],
)
def test_patterns_that_are_not_case_sensitive(text: str, name: str, matches: bool) -> None:
    assert Pattern.compile(text, case_sensitive=False).matches(name) is matches


def test_patterns_that_are_case_sensitive() -> None:
    assert not Pattern.compile("T*", case_sensitive=True).matches("t1")
    assert not Pattern.compile("~^T", case_sensitive=True).matches("t1")


@pytest.mark.parametrize("text", ["a*b", "**", "*a", "[]", "[z-a]", "~", "~(", "~[[:alpha:]]", "~\\pL", "~a\\z"])
def test_an_ambiguous_pattern_is_refused(text: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern.compile(text, case_sensitive=False)
