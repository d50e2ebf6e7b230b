"""A sample of the DDL campaign (`docker/local ddl`) into TiDB, with the remedies of type changes that stop."""

from pathlib import Path

from testbed import Server
from tests.conftest import FreshSchema
from tests.ddl_campaign.campaign import Campaign, campaign_kit
from tests.ddl_campaign.cases import EQUAL, all_cases

SHARE = 60
"""One case in so many is followed here."""


def test_statements_are_followed_or_stop_as_their_table_says(
    source: Server, tidb_target: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    schema = fresh_schema(source, tidb_target)
    ends = source.flavour, tidb_target.flavour
    cases = [case for case in all_cases() if source.flavour in case.flavours][::SHARE]
    with campaign_kit(source, tidb_target, schema, tmp_path) as kit:
        found = Campaign(kit, remedies=True).run(cases)
    assert len(found) == len(cases)
    assert [f"{one.case}: {one.outcome} {one.why}" for one in found if one.outcome != one.case.expected(*ends)] == []
    assert [f"{one.case}: {one.why}" for one in found if one.remedy not in ("", EQUAL)] == []
