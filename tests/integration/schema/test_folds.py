"""Text that a server treats as equal has one fold: similar letters, ignored characters, spaces."""

import random

from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.schema.text_folds import read_folds
from testbed import Server
from tests.conftest import FreshSchema

COMMON = "utf8mb4_general_ci utf8mb4_unicode_ci utf8mb4_unicode_520_ci utf8mb3_general_ci latin1_swedish_ci"
OWN = {
    "mysql": "utf8mb4_0900_ai_ci utf8mb4_0900_as_cs latin1_german2_ci",
    "mariadb": "utf8mb4_uca1400_ai_ci utf8mb4_uca1400_nopad_as_ci latin1_german1_ci utf8mb4_general_nopad_ci",
}
ALIKE = "aAáàâäåāªⓐａ𝐚 eEéèë sSßẞšﬀ iIİıíĳĲ oOøØœº lLłŀ· nNñŉ dDđðǆ 0０①¼² 9\t-_'. "
NOTHING = "\u0301\u0308\u030a\u0323\u0338\u0307\u00ad\u200b\u200d\ufeff\u00a0\u3000\u0000\u0001"
OTHERS = "カガか゛ﾊﾞ각가\u1100\u1161\u11a8 иИйе\u0306 ΑαάΣςσ 😀😂𠀀字 ۱ไก"


def words(fits: str, seed: int) -> list[str]:
    """Words of a few letters and what may come between them, of characters that the charset `fits` has."""
    chance, found = random.Random(seed), {""}
    most = {"utf8mb4": 0x110000, "utf8mb3": 0x10000, "latin1": 0x100}[fits]
    characters, core = ([one for one in some if ord(one) < most] for some in (ALIKE + NOTHING + OTHERS, "asSßoøeéi1A"))
    for _ in range(1500):
        word = [chance.choice(core) for _ in range(chance.randint(0, 3))]
        for _ in range(chance.randint(0, 2)):
            word.insert(chance.randint(0, len(word)), chance.choice(characters))
        found.add("".join(word) + " " * chance.choice([0, 0, 1]))
    return sorted(found)


def test_equal_text_of_a_collation_has_one_fold(target: Server, fresh_schema: FreshSchema) -> None:
    collations = f"{COMMON} {OWN[target.flavour]}".split()
    with connected(Endpoint("target", target.host, target.port, target.user)) as connection:
        folds = read_folds(connection, [*collations, "utf8mb4_bin", "utf8mb4_spanish_ci"])
        assert list(folds) == sorted(collations)
    schema = fresh_schema(target)
    for number, (collation, fold) in enumerate(folds.items()):
        form, charset = fold.form("utf8mb4"), collation.partition("_")[0]
        assert form is not None
        texts = words(charset, number)
        with target.connect(database=schema, use_unicode=False) as server, server.cursor() as cursor:
            cursor.execute(
                f"CREATE TABLE w{number} (v VARBINARY(99), s VARCHAR(20) CHARACTER SET {charset} COLLATE {collation})"
            )
            octets = (text.encode().hex() for text in texts)
            rows = ", ".join(f"(X'{one}', CONVERT(X'{one}' USING utf8mb4))" for one in octets)
            cursor.execute(f"INSERT INTO w{number} VALUES {rows}")
            cursor.execute("SET SESSION group_concat_max_len = 1000000")
            cursor.execute(f"SELECT GROUP_CONCAT(HEX(v)) FROM w{number} GROUP BY s HAVING COUNT(*) > 1")
            classes = [[bytes.fromhex(one.decode()) for one in found.split(b",")] for (found,) in cursor.fetchall()]

        assert len(classes) > 10
        for equal in classes:
            assert len({form(one) for one in equal}) == 1, (collation, [one.decode() for one in equal])
        assert len({form(text.encode()) for text in texts}) > 100


def test_a_collation_that_the_server_lacks_has_no_fold(target: Server) -> None:
    other = OWN["mysql" if target.flavour == "mariadb" else "mariadb"].split()[0]
    with connected(Endpoint("target", target.host, target.port, target.user)) as connection:
        assert read_folds(connection, [other]) == {}
