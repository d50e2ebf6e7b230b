"""Conversions between TiDB's TableInfo and a definition keep the meaning, or are refused."""

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import TableDefinition
from airflow_provider_dm.engine.ddl.table_info import definition_of
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import definition_sql
from airflow_provider_dm.engine.ddl.write_table_info import table_info
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.dm_tables import INT, LONG, NOT_NULL_KEY, VARCHAR, column, index
from tests.dm_tables import table_info as as_tidb_writes

NAME = TableName("shop", "Orders")
SERVERS = [Server(Flavour.MYSQL, (9, 7)), Server(Flavour.MYSQL, (5, 7)), Server(Flavour.MARIADB, (10, 11))]

GO = (  # json.Marshal of a model.TableInfo, as TiDB 8.5 writes it
    '{"id":77,"name":{"O":"T","L":"t"},"charset":"utf8mb4","collate":"utf8mb4_bin","cols":[{"id":1,"name":{"O":"Id",'
    '"L":"id"},"offset":0,"origin_default":null,"origin_default_bit":null,"default":null,"default_bit":null,'
    '"default_is_expr":false,"generated_expr_string":"","generated_stored":false,"dependences":null,"type":{"Tp":8,'
    '"Flag":3,"Flen":20,"Decimal":0,"Charset":"binary","Collate":"binary","Elems":null,"ElemsIsBinaryLit":null,'
    '"Array":false},"state":5,"comment":"","hidden":false,"change_state_info":null,"version":2},{"id":2,"name":{"O":'
    '"Name","L":"name"},"offset":1,"origin_default":null,"origin_default_bit":null,"default":null,"default_bit":null,'
    '"default_is_expr":false,"generated_expr_string":"","generated_stored":false,"dependences":null,"type":{"Tp":15,'
    '"Flag":0,"Flen":64,"Decimal":-1,"Charset":"utf8mb4","Collate":"utf8mb4_bin","Elems":null,"ElemsIsBinaryLit":null,'
    '"Array":false},"state":5,"comment":"","hidden":false,"change_state_info":null,"version":2}],"index_info":[{"id":1,'
    '"idx_name":{"O":"idx_name","L":"idx_name"},"tbl_name":{"O":"t","L":"t"},"idx_cols":[{"name":{"O":"Name","L":'
    '"name"},"offset":1,"length":-1}],"state":5,"backfill_state":0,"comment":"","index_type":0,"is_unique":true,'
    '"is_primary":false,"is_invisible":false,"is_global":false,"mv_index":false,"vector_index":null,'
    '"inverted_index":null,"full_text_index":null,"condition_expr_string":""}],"constraint_info":null,"fk_info":null,'
    '"state":5,"pk_is_handle":true,"is_common_handle":false,"common_handle_version":0,"comment":"hi","auto_inc_id":0,'
    '"auto_id_cache":0,"auto_rand_id":0,"max_col_id":2,"max_idx_id":1,"max_fk_id":0,"max_cst_id":0,'
    '"update_timestamp":445566778899,"ShardRowIDBits":0,"max_shard_row_id_bits":0,"auto_random_bits":0,'
    '"auto_random_range_bits":0,"pre_split_regions":0,"partition":null,"compression":"","view":null,"sequence":null,'
    '"Lock":null,"version":5,"tiflash_replica":null,"is_columnar":false,"temp_table_type":0,"cache_table_status":0,'
    '"policy_ref_info":null,"stats_options":null,"exchange_partition_info":null,"ttl_info":null,"revision":0}'
)


def test_table_infos_of_tidb_are_read() -> None:
    assert definition_sql(definition_of(json.loads(GO))) == (
        "( `Id` bigint ( 20 ) NOT NULL , `Name` varchar ( 64 ) CHARACTER SET utf8mb4 COLLATE "
        "utf8mb4_bin NULL , PRIMARY KEY ( `Id` ) , UNIQUE KEY `idx_name` ( `Name` ) ) ENGINE=InnoDB DEFAULT "
        "CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='hi'"
    )


COLUMNS = """
    id bigint unsigned NOT NULL AUTO_INCREMENT
    b tinyint(1) NOT NULL DEFAULT '1'
    z int(6) unsigned zerofill
    s smallint NOT NULL DEFAULT -3
    d decimal(20,6) DEFAULT '1.500000'
    f float
    g double(9,3)
    bits bit(9)
    y year DEFAULT 2020
    day date DEFAULT '2020-02-29'
    clock time(6)
    moment datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)
    stamp timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP
    zero timestamp NOT NULL DEFAULT '2001-01-01 00:00:00'
    v varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL DEFAULT 'it''s \\\\ ü' COMMENT 'a ''b'''
    c char(3) CHARACTER SET ascii COLLATE ascii_bin
    bin binary(16)
    vb varbinary(300)
    t text
    m mediumtext CHARACTER SET latin1
    bl longblob
    e enum('x','y','it''s') CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci DEFAULT 'x'
    st set('a','b') NOT NULL
""".strip().splitlines()
KEYS = "PRIMARY KEY (id), UNIQUE KEY u (v, c), UNIQUE KEY one (s), KEY plain (t(10), day)"
ALL = f"CREATE TABLE Orders ({', '.join(COLUMNS)}, {KEYS}) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci"


@pytest.mark.parametrize("server", SERVERS, ids=str)
def test_a_table_is_the_same_when_it_is_read_again(server: Server) -> None:
    tracker = Tracker.of(server, {NAME: ALL}, {})
    written: dict[str, Any] = json.loads(json.dumps(table_info(NAME, tracker.definition(NAME))))
    again = Tracker.of(server, {NAME: f"CREATE TABLE `Orders` {definition_sql(definition_of(written))}"}, {})
    assert again.table(NAME) == tracker.table(NAME)
    assert said_alike(again.definition(NAME)) == said_alike(tracker.definition(NAME))


def said_alike(definition: TableDefinition) -> TableDefinition:
    """The same with defaults as text: `1` and `'1'` are one."""

    def plainly(code: str | None) -> str | None:
        return None if code is None or code == "NULL" else code.strip("'").replace(" ", "")

    columns = (
        replace(one, default=plainly(one.default), on_update=plainly(one.on_update)) for one in definition.columns
    )
    return replace(definition, columns=tuple(columns))


@pytest.mark.parametrize(
    "definition",
    [
        "a int, b int AS (a + 1)",
        "a int, CHECK (a > 0)",
        "a int, j json DEFAULT (json_object())",
        "a geometry",
        "a text, FULLTEXT KEY (a)",
        "a int, KEY ((a + 1))",
        "a int) PARTITION BY HASH (a) (PARTITION p0",
    ],
)
def test_properties_that_tidb_represents_differently_are_not_written(definition: str) -> None:
    tracker = Tracker.of(SERVERS[0], {NAME: f"CREATE TABLE Orders ({definition})"}, {"shop": "utf8mb4_general_ci"})
    with pytest.raises(CannotTrack):
        table_info(NAME, tracker.definition(NAME))


def plain(**changes: Any) -> dict[str, Any]:
    """A table of two columns, with changes at its top."""
    columns = [column("id", INT, flag=NOT_NULL_KEY), column("v", VARCHAR, length=9, collate="utf8mb4_bin")]
    return {**as_tidb_writes("t", columns, [index("PRIMARY", ("id",), primary=True)]), **changes}


def of_column(**changes: Any) -> dict[str, Any]:
    found = plain()
    found["cols"][1].update(changes)
    return found


def of_type(**changes: Any) -> dict[str, Any]:
    found = plain()
    found["cols"][1]["type"].update(changes)
    return found


def of_index(**changes: Any) -> dict[str, Any]:
    found = plain()
    found["index_info"][0].update(changes)
    return found


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (plain(partition={"type": 1}), "partition"),
        (plain(something_new=1), "something_new"),
        (plain(fk_info=[{}]), "fk_info"),
        (plain(constraint_info=[{}]), "constraint_info"),
        (plain(state=2), "state 2"),
        (plain(cols=None), "no columns"),
        (plain(cols=[{}]), "structure is different"),
        (of_column(hidden=True), "hidden"),
        (of_column(state=1), "state 1"),
        (of_column(default=7), "default of column v is 7"),
        (of_column(change_state_info={"relative_col_offset": 0}), "change_state_info"),
        (of_column(masking="x"), "masking"),
        (of_type(Tp=225), "number 225"),
        (of_type(Tp=255), "number 255"),
        (of_type(Array=True), "Array"),
        (of_type(Tp=247, Elems=["a"], ElemsIsBinaryLit=[True]), "members in bytes"),
        (of_index(index_type=4), "number 4"),
        (of_index(mv_index=True), "mv_index"),
        (of_index(condition_expr_string="`v` > 1"), "condition_expr_string"),
        (of_index(state=4), "state 4"),
    ],
)
def test_an_unknown_part_of_a_table_info_is_refused(info: dict[str, Any], message: str) -> None:
    definition_of(plain())
    with pytest.raises(CannotTrack, match=message):
        definition_of(info)


def test_a_primary_key_that_is_tidbs_handle_has_no_index() -> None:
    info = as_tidb_writes("t", [column("a", LONG, flag=NOT_NULL_KEY), column("b", LONG)])
    assert definition_sql(definition_of(info)).count("PRIMARY KEY ( `a` )") == 1
    info = as_tidb_writes("t", [column("a", LONG, flag=NOT_NULL_KEY), column("b", LONG, flag=NOT_NULL_KEY)])
    with pytest.raises(CannotTrack, match="no index"):
        definition_of(info)
