"""Texts that a collation treats as equal have the same fold; integration/schema/test_folds asks servers which are."""

import pytest

from airflow_provider_dm.engine.schema.text_folds import TextFold, all_pairs, can_fold, fold_of

WEIGHTS = {code: chr(code).upper().encode("utf-16-be") for code in range(0x600) if len(chr(code).upper()) == 1} | {
    ord("ß"): b"\0S\0S",
    ord("á"): b"\0A",
    0x200B: b"",
}


def weight(text: str, weights: dict[int, bytes]) -> bytes:
    return b"".join(weights.get(ord(one), b"") for one in text)


def made(collation: str, **others: bytes) -> TextFold | None:
    weights = WEIGHTS | {ord(character): one for character, one in others.items()}
    return fold_of(collation, weights, weight(all_pairs(), weights))


@pytest.mark.parametrize("collation", ["utf8mb4_unicode_ci", "utf8mb4_general_ci"])
def test_equal_texts_have_one_fold_whatever_they_are_written_with(collation: str) -> None:
    fold = made(collation)
    assert fold is not None
    utf8, latin1 = fold.form("utf8mb4"), fold.form("latin1")
    assert utf8 is not None
    assert latin1 is not None

    for one, other in (("stra\u00dfe", "STRASSE"), ("abc", "\u00e1b\u200bC  "), ("a b", "ab")):
        assert utf8(one.encode()) == utf8(other.encode())
    assert latin1(b"stra\xdfe") == utf8(b"strasse")
    assert utf8(b"abc") != utf8(b"abd")
    assert utf8(b"\xff") == utf8(b"\xf0\x9f\x98\x80") == utf8(b"") == b""


def test_with_contractions_only_ascii_letters_distinguish_texts() -> None:
    by_algorithm, simple = made("utf8mb4_unicode_ci"), made("utf8mb4_general_ci")
    assert by_algorithm is not None
    assert simple is not None

    assert ord("д") not in by_algorithm.letters
    assert simple.letters[ord("д")] == simple.letters[ord("Д")]
    assert by_algorithm != simple


def test_a_question_mark_may_be_anything_that_a_charset_lacks() -> None:
    fold = made("latin1_swedish_ci", д=WEIGHTS[ord("?")])
    assert fold is not None
    assert ord("?") not in fold.letters
    assert ord("д") not in fold.letters


def test_weights_of_another_form_have_no_fold() -> None:
    assert made("utf8mb4_unicode_ci", é=b"\0E\1") is None  # of another length
    assert made("utf8mb4_unicode_ci", z=b"\0Z\0Z") is None  # two units
    assert fold_of("utf8mb4_unicode_ci", {}, b"") is None
    ch = weight(all_pairs(), WEIGHTS).replace(b"\0C\0H", b"\1C")
    assert fold_of("utf8mb4_unicode_ci", WEIGHTS, ch) is None  # 'ch' is a letter


@pytest.mark.parametrize(
    ("collation", "known"),
    [
        ("utf8mb4_0900_ai_ci", True),
        ("utf8mb4_0900_as_cs", True),
        ("utf8mb4_uca1400_nopad_as_ci", True),
        ("latin1_german2_ci", True),
        ("utf8mb4_bin", False),
        ("utf8mb4_0900_bin", False),
        ("utf8mb4_spanish2_ci", False),
        ("utf8mb4_da_0900_ai_ci", False),
        ("utf8mb4_uca1400_danish_ai_ci", False),
        ("latin2_czech_cs", False),
        ("ucs2_general_ci", False),
        ("gb18030_chinese_ci", False),
    ],
)
def test_collations_of_languages_are_not_supported(collation: str, *, known: bool) -> None:
    assert can_fold(collation) is known


def test_charsets_that_are_not_decoded_here_have_no_form() -> None:
    fold = made("utf8mb4_general_ci")
    assert fold is not None
    assert fold.form("ucs2") is None
    assert not fold.supports("sjis")
