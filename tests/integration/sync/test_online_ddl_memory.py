"""The state of online DDL is in the target, and changes in the transaction of the checkpoint or not at all."""

import pytest

from airflow_provider_dm.engine.downstream.claim import claim_generation
from airflow_provider_dm.engine.downstream.errors import Fenced
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.online_ddl_memory import load, save
from airflow_provider_dm.engine.downstream.session import close_target, run_transaction, target_connection
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.memory import GhostState, LoggedText, OnlineDdls
from testbed import Server
from tests.conftest import FreshSchema
from tests.jobs import endpoint

T, U = TableName("shop", "t"), TableName("shöp", "ü`'\\")
GHO, NEW, OLD = TableName("shop", "_t_gho"), TableName("shöp", "_ü`'\\_new"), TableName("shop", "_t_old")
ALTER = LoggedText(
    'ALTER TABLE "_t_gho" ADD "ö\N{PILE OF POO}" int COMMENT \'\\\', -- it\n ADD x int', 4 | 1 << 20, "shop"
)


def test_the_online_ddl_state_is_loaded_as_saved(target: Server, fresh_schema: FreshSchema) -> None:
    schema, server = fresh_schema(target), endpoint("target", target)
    ref = SubtaskRef(schema, "test", "one")
    ensure_meta_tables(server, schema)
    claim_generation(server, Fence(ref, 1))
    memory = OnlineDdls({GHO: GhostState((T,), (ALTER, ALTER)), NEW: GhostState((), (), "why")}, {OLD: U})

    def kept(new: OnlineDdls, *, generation: int = 1, dies: bool = False, of: SubtaskRef = ref) -> OnlineDdls:
        def body(connection: Connection) -> None:
            Fence(ref, generation).check(connection)
            save(connection, of, new)
            if dies:
                raise KeyboardInterrupt

        try:
            run_transaction(server, body)
        except KeyboardInterrupt:
            close_target(server)
        return load(target_connection(server), ref)

    try:
        assert load(target_connection(server), ref) == OnlineDdls()
        assert kept(memory) == memory
        target.sql(f"UPDATE {schema}.dm_online_ddl SET updated_at = '2000-01-01'")
        more = memory.with_away(OLD, None).with_ghost(NEW, GhostState((U,), (ALTER,)))
        assert kept(more, dies=True) == memory
        with pytest.raises(Fenced):
            kept(more, generation=0)
        assert load(target_connection(server), ref) == memory
        assert kept(more) == more
        written = target.sql(f"SELECT ghost_table FROM {schema}.dm_online_ddl WHERE updated_at > '2000-01-02'")
        assert written == [(NEW.table,)]
        assert kept(OnlineDdls(), of=ref.of_source("two")) == more
        assert kept(OnlineDdls()) == OnlineDdls()
        assert target.sql(f"SELECT COUNT(*) FROM {schema}.dm_online_ddl") == [(0,)]
    finally:
        close_target(server)
