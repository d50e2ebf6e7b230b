"""The error vocabulary as a whole: unique codes, messages that can be written, the trip from an executor."""

import json
import pickle
from collections import Counter
from dataclasses import fields, replace

import pytest

from airflow_provider_dm.engine import errors
from airflow_provider_dm.engine.config.errors import ConfigError
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Reaction, ReportedError, describe
from airflow_provider_dm.engine.relay.errors import PlaceNotFound, UpstreamLacks
from airflow_provider_dm.engine.reported import MARK, reported_in
from tests.reference.errors_page import every_error

KINDS = every_error()  # 0.6 s of work for each session that collects this file


def value_for(name: str, annotation: str) -> object:
    if annotation == "ReportedError":
        return ReportedError.of(errors.InvariantBroken("a", "b"))
    if annotation == "Reaction":
        return Reaction.RETRY
    if "tuple" in annotation:
        return (f"<{name}>",)
    return 1 if "float" in annotation or "int" in annotation else f"<{name}>"


def sample(kind: type[DmError]) -> DmError:
    return kind(**{field.name: value_for(field.name, str(field.type)) for field in fields(kind)})


def test_a_code_names_one_error():
    """One that passes on a child's error has that error's."""
    kinds = every_error()
    passing = [kind for kind in kinds if "reported" in {field.name for field in fields(kind)}]
    codes = Counter(kind.code for kind in kinds if kind not in passing and not kind.__subclasses__())

    assert not {code for code, uses in codes.items() if uses > 1}
    assert {kind.code for kind in passing} == {DmError.code}
    assert {ReportedError.of(sample(kind)).code for kind in passing} == {errors.InvariantBroken.code}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_and_has_a_remedy(kind: type[DmError]) -> None:
    """The remedy is in the message and in the JSON; only an error of other code may have a generic one."""
    error = sample(kind)

    again = pickle.loads(pickle.dumps(error))

    assert str(again) == str(error)
    assert error.message()
    assert type(again) is kind
    workaround = describe(error)["Workaround"]
    assert workaround.strip()
    assert workaround != errors.UNFORESEEN
    assert workaround in error.message() or kind is ConfigError
    assert error.message().count(workaround) <= 1


def test_an_error_of_other_code_has_a_generic_remedy() -> None:
    assert describe(KeyError("x"))["Workaround"] == errors.UNFORESEEN


def test_an_error_has_the_reaction_of_the_child_error_it_passes_on():
    from airflow_provider_dm.launch.errors import SparkAppFailed

    gone = errors.InvariantBroken("a", "b")
    passing = replace(ReportedError.of(gone), reaction=Reaction.RETRY)

    assert gone.reacts() is Reaction.STOP
    assert SparkAppFailed("verify", "1", passing).reacts() is Reaction.RETRY


def test_not_supported_names_feature_place_and_remedy():
    assert str(NotSupportedYet("time travel", "task.yaml", "Wait.")) == (
        "[DM-1900 internal] time travel is not supported yet (task.yaml). Wait."
    )


def test_a_hint_has_the_fields_of_its_error() -> None:
    class Named(DmError):
        table: str
        hint = "Empty {table}."

    assert Named("s.t").workaround() == "Empty s.t."
    assert "`meta: {binlog-name: FILE, binlog-pos: POSITION}`" in PlaceNotFound("0-1-7", "it is gone").workaround()


def test_a_tuple_in_a_message_is_a_comma_separated_list() -> None:
    class Named(DmError):
        names: tuple[str, ...]
        what = "found {names}."

    assert Named(("a",)).message() == "found a."
    assert Named(("a", "b")).message() == "found a, b."


def test_of_what_is_very_long_a_message_has_the_beginning() -> None:
    """Who launched a relay reads its error from the last few kilobytes of its log."""
    gaps = ",".join(f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}" for number in range(1, 6000, 2))
    error = UpstreamLacks(gaps, "0-7")
    line = MARK + json.dumps(describe(error))
    assert len(line) < 5000
    assert reported_in(f"{line}\n") == ReportedError.of(error)
    assert f"the transactions {gaps[:2000]}… ({len(gaps) - 2000} characters more), which" in error.message()
    assert error.details()["missing"] == gaps
