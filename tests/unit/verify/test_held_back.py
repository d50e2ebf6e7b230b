"""The result for a table that differs while rows of it are held back."""

from airflow_provider_dm.engine.verify.verification import HeldBack, with_lock


def test_a_lock_does_not_hide_what_else_keeps_a_table_from_being_compared() -> None:
    held = {"s.o": HeldBack("t-`s`.`o`", ("a:s.o_1",), ("ADD c int",))}
    table = {"target": "s.o", "equal": False, "why": "the target has no table s.o", "differing": []}
    why = with_lock(table, held)["why"]
    assert why == "rows of a:s.o_1 are held back by DDL lock t-`s`.`o`; and the target has no table s.o"
    assert with_lock({**table, "why": ""}, held)["why"].endswith("lock t-`s`.`o`")
