"""Expression filters decide as the servers do: 20,000 decisions of each flavour (`tests.expressions` makes more)."""

from random import Random

from testbed import Server
from tests.conftest import FreshSchema
from tests.expressions import Campaign

ROWS, EXPRESSIONS = 80, 250
SEED = 12


def test_expressions_are_evaluated_as_on_the_server(source: Server, fresh_schema: FreshSchema) -> None:
    dice = Random(SEED)
    campaign = Campaign.on(source, fresh_schema(source), dice, ROWS)
    expressions = campaign.expressions(dice, EXPRESSIONS)

    assert campaign.disagreements(expressions) == []
    assert campaign.refused < EXPRESSIONS
    assert campaign.out_of_range + campaign.stopped // ROWS < EXPRESSIONS // 5
