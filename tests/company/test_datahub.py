"""Tests of the app DataHub: metrics, refreshes, the register, the directory and the policies."""

import inspect
import re
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.company import Entry, Metric, Person, Policy, Source, people
from companyos.company.apps import datahub
from companyos.core.world import DAY, stamp
from companyos.env import CompanyEnv, make
from tests.helpers import letters, role, say, staged, task_id, ticket


def metric(env: CompanyEnv) -> Metric:
    return env.world.get(Metric, role(env, "score"))


def source(env: CompanyEnv) -> Source:
    return env.world.get(Source, role(env, "score"))


def refresh(env: CompanyEnv) -> Any:
    reply = say(env, "datahub.refresh_data", metric_name=role(env, "score"))
    assert reply.ok, reply
    return reply.data


# -- refusals ----------------------------------------------------------------------------------------------------------

REFUSALS = {
    "query_metric": ({"metric_name": "luck.today"}, "not_found"),
    "describe_metric": ({"metric_name": "luck.today"}, "not_found"),
    "refresh_data": ({"metric_name": "luck.today"}, "not_found"),
    "get_approver": ({"role": "Astrologer"}, "unknown_role"),
    "get_person": ({"person_id": "@no.body"}, "not_found"),
    "get_entry": ({"entry_id": "E-1"}, "not_found"),
    "read_policy": ({"policy_id": "P-1"}, "not_found"),
}


@pytest.mark.parametrize("method", REFUSALS)
def test_a_call_about_a_missing_record_is_refused_and_writes_nothing(method: str) -> None:
    env = staged()
    before = (env.digest(), len(env.world.journal))
    params, code = REFUSALS[method]
    reply = say(env, f"datahub.{method}", **params)
    assert (reply.ok, reply.code, reply.data) == (False, code, None)
    assert (env.digest(), len(env.world.journal)) == before


def test_asking_for_a_refresh_that_is_under_way_writes_nothing_more() -> None:
    env = staged(refresh="slow")
    refresh(env)
    before = (env.digest(), len(env.world.journal))
    assert refresh(env)["pipeline"] == "running"
    assert (env.digest(), len(env.world.journal)) == before


def test_every_code_that_datahub_refuses_with_is_tried_above() -> None:
    codes = set(re.findall(r'Refused\(\s*"(\w+)"', inspect.getsource(datahub) + inspect.getsource(people)))
    assert codes == {"unknown_role"}


def test_the_hidden_truth_cannot_be_read() -> None:
    env = staged()
    assert all(not method.startswith("source") for method in (tool.method for tool in datahub.app.tools))
    for tool, name in (("query_metric", "metric_name"), ("describe_metric", "metric_name"), ("get_person", "person_id")):
        shown = say(env, f"datahub.{tool}", **{name: role(env, "score" if name == "metric_name" else "head")}).data
        assert not {"failures", "delay", "pace", "patience", "objection"} & set(shown)


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_metrics_are_listed_by_name_ten_a_page_and_by_prefix() -> None:
    env = staged()
    names = sorted(found.id for found in env.world.all(Metric))
    first = say(env, "datahub.list_metrics").data
    assert (first["total"], first["page"], first["pages"]) == (len(names), 1, -(-len(names) // 10))
    listed = [row["id"] for page in range(1, first["pages"] + 1) for row in page_of(env, page)]
    assert listed == names
    budgets = say(env, "datahub.list_metrics", prefix="budget_left.").data["rows"]
    assert [row["id"] for row in budgets] == [name for name in names if name.startswith("budget_left.")]
    assert say(env, "datahub.list_metrics", prefix="nothing").data["rows"] == []


def page_of(env: CompanyEnv, page: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = say(env, "datahub.list_metrics", page=page).data["rows"]
    assert 0 < len(rows) <= 10
    return rows


def test_a_reading_tells_the_value_on_file_and_how_old_it_is() -> None:
    env = staged(score_stale=True)
    shown = say(env, "datahub.query_metric", metric_name=role(env, "score")).data
    assert shown["value"] == metric(env).value != source(env).value
    assert shown["measured_at"] == stamp(metric(env).measured_at)
    assert shown["age_days"] == (env.world.now - metric(env).measured_at) // DAY > metric(env).max_age_days


def test_a_description_tells_when_a_measurement_is_stale_and_shows_no_value() -> None:
    env = staged()
    shown = say(env, "datahub.describe_metric", metric_name=role(env, "score")).data
    assert shown["max_age_days"] == metric(env).max_age_days
    assert shown["sources"] == list(metric(env).sources)
    assert "value" not in shown


def test_a_quick_refresh_puts_the_true_value_on_file_at_once() -> None:
    env = staged(score_stale=True)
    truth = source(env).value
    shown = refresh(env)
    assert (shown["value"], shown["pipeline"], shown["age_days"]) == (truth, "idle", 0)
    assert (metric(env).value, metric(env).measured_at) == (truth, env.world.now)


def test_a_slow_refresh_leaves_the_old_value_until_it_is_done_and_then_tells() -> None:
    env = staged(score_stale=True, refresh="slow")
    old, start = metric(env), env.world.now
    shown = refresh(env)
    assert (shown["value"], shown["pipeline"]) == (old.value, "running")
    env.world.advance(source(env).delay - 1)
    assert (metric(env).value, metric(env).pipeline) == (old.value, "running")
    assert letters(env, "refresh") == []
    env.world.advance(1)
    assert (metric(env).value, metric(env).pipeline) == (source(env).value, "idle")
    assert metric(env).measured_at == start + source(env).delay
    (letter,) = letters(env, "refresh")
    assert (letter.about, letter.text) == (metric(env).id, f"The refresh of {metric(env).id} is done.")


@pytest.mark.parametrize(("trouble", "failures"), [("fails", 1), ("fails_twice", 2)])
def test_a_refresh_that_fails_leaves_the_value_and_says_so_and_trying_again_works(trouble: str, failures: int) -> None:
    env = staged(score_stale=True, refresh=trouble)
    old = metric(env)
    for attempt in range(1, failures + 1):
        assert refresh(env)["pipeline"] == "running"
        say(env, "ticketdesk.wait", hours=8)
        assert (metric(env).value, metric(env).measured_at) == (old.value, old.measured_at)
        assert metric(env).pipeline == "failed"
        assert len(letters(env, "refresh")) == attempt
        assert "failed" in letters(env, "refresh")[-1].text
    refresh(env)
    say(env, "ticketdesk.wait", hours=8)
    assert (metric(env).value, metric(env).pipeline) == (source(env).value, "idle")
    assert "is done" in letters(env, "refresh")[-1].text


def test_a_refresh_without_delay_can_fail_too() -> None:
    env = staged(score_stale=True)
    old = metric(env).value
    env.world.put_at_start(replace(source(env), failures=1))
    assert (refresh(env)["pipeline"], metric(env).value) == ("running", old)
    say(env, "ticketdesk.wait", hours=8)
    assert (metric(env).pipeline, metric(env).value) == ("failed", old)
    assert (refresh(env)["pipeline"], metric(env).value) == ("idle", source(env).value)


def test_waiting_stops_when_a_refresh_ends() -> None:
    env = staged(score_stale=True, refresh="slow")
    refresh(env)
    end = env.world.now + source(env).delay
    (letter,) = say(env, "ticketdesk.wait", hours=72).data["arrived"]
    assert (letter["topic"], letter["about"]) == ("refresh", metric(env).id)
    assert env.world.now == end


def test_a_refresh_that_somebody_else_asked_for_is_not_reported() -> None:
    env = staged(refresh="slow")
    assert say(env, "datahub.refresh_data", actor=role(env, "cfo"), metric_name=role(env, "score")).ok
    env.world.advance(DAY)
    assert metric(env).pipeline == "idle"
    assert letters(env, "refresh") == []


# -- directory and register --------------------------------------------------------------------------------------------


def test_an_office_is_looked_up_with_limit_presence_and_delegate() -> None:
    env = staged(cfo_away=True)
    shown = say(env, "datahub.get_approver", role="CFO").data
    cfo = env.world.get(Person, role(env, "cfo"))
    assert (shown["id"], shown["limit"], shown["delegate"]) == (cfo.id, cfo.limit, role(env, "controller"))
    assert shown["presence"] == f"away until {stamp(cfo.away_until or 0)}"
    assert say(env, "datahub.get_approver", role="Treasurer").data["presence"] == "in"


def test_somebody_who_is_back_is_shown_as_in() -> None:
    env = staged(cfo_away=True)
    until = env.world.get(Person, role(env, "cfo")).away_until or 0
    env.world.advance(until - env.world.now - 1)
    assert say(env, "datahub.get_person", person_id=role(env, "cfo")).data["presence"] != "in"
    env.world.advance(1)
    assert say(env, "datahub.get_person", person_id=role(env, "cfo")).data["presence"] == "in"


def test_an_unknown_office_is_answered_with_those_that_sign() -> None:
    message = say(staged(), "datahub.get_approver", role="Astrologer").message
    assert "CFO" in message
    assert "Vendor Analyst" not in message


def test_a_person_is_shown_with_manager_department_and_cost_centre() -> None:
    env = staged()
    shown = say(env, "datahub.get_person", person_id=role(env, "requester")).data
    someone = env.world.get(Person, role(env, "requester"))
    assert (shown["manager"], shown["department"], shown["cost_center"]) == (
        someone.manager,
        someone.department,
        someone.cost_center,
    )


@pytest.mark.parametrize("part", ["id", "name", "role", "department"])
def test_people_are_found_by_name_handle_role_or_department(part: str) -> None:
    env = staged()
    cfo = env.world.get(Person, role(env, "cfo"))
    found = say(env, "datahub.search_people", query=getattr(cfo, part).upper()).data
    assert cfo.id in [row["id"] for row in found["rows"]]
    assert say(env, "datahub.search_people", query="zzz").data["total"] == 0


def test_a_long_search_comes_in_pages_of_ten() -> None:
    env = staged()
    first = say(env, "datahub.search_people", query="").data
    assert (len(first["rows"]), first["total"]) == (10, env.world.count(Person))
    second = say(env, "datahub.search_people", query="", page=2).data
    assert not {row["id"] for row in first["rows"]} & {row["id"] for row in second["rows"]}


@pytest.mark.parametrize("part", ["id", "name", "reference"])
def test_the_register_is_searched_by_id_name_and_reference(part: str) -> None:
    env = staged()
    entry = env.world.get(Entry, role(env, "entry"))
    rows = say(env, "datahub.search_register", query=getattr(entry, part)).data["rows"]
    assert entry.id in [row["id"] for row in rows]


def test_the_register_holds_a_namesake_that_only_the_reference_tells_apart() -> None:
    env = staged()
    stem = ticket(env).subject.rsplit(" ", 1)[0]
    rows = say(env, "datahub.search_register", query=stem).data["rows"]
    assert len(rows) == 2
    assert len({row["reference"] for row in rows}) == 2
    assert [row["id"] for row in rows if row["reference"] == ticket(env).reference] == [role(env, "entry")]


def test_an_entry_shows_its_details_as_fields() -> None:
    env = staged()
    shown = say(env, "datahub.get_entry", entry_id=role(env, "entry")).data
    assert shown["score_metric"] == role(env, "score")
    assert "details" not in shown


# -- policies ----------------------------------------------------------------------------------------------------------


def test_policies_are_listed_and_searched_and_tell_whether_they_are_in_force() -> None:
    env = staged()
    everything = say(env, "datahub.search_policies").data
    assert everything["total"] == env.world.count(Policy)
    title = env.world.get(Policy, role(env, "policy")).title
    rows = say(env, "datahub.search_policies", query=title).data["rows"]
    assert sorted(row["status"] for row in rows if row["title"] == title) == ["in force", "superseded"]


def test_a_policy_shows_its_terms_as_fields_and_in_its_text() -> None:
    env = staged()
    policy = env.world.get(Policy, role(env, "policy"))
    shown = say(env, "datahub.read_policy", policy_id=policy.id).data
    assert policy.terms
    for name, value in policy.terms.items():
        assert shown[name] == value
        assert str(value) in re.findall(r"\d+", shown["text"])


def test_no_document_of_any_company_is_longer_than_120_words() -> None:
    for seed in range(50):
        for policy in make(task_id(seed)).world.all(Policy):
            assert len(policy.text.split()) <= 120, (seed, policy.title)


# -- the backdrop ------------------------------------------------------------------------------------------------------


def test_every_company_has_at_least_20_metrics_and_6_policies() -> None:
    for seed in range(50):
        world = make(task_id(seed)).world
        assert world.count(Metric) >= 20
        assert world.count(Policy) >= 6
        assert {found.id for found in world.all(Source)} == {found.id for found in world.all(Metric)}


def test_on_a_calm_morning_every_metric_is_fresh_and_true() -> None:
    for seed in range(20):
        world = make(task_id(seed)).world
        for found in world.all(Metric):
            assert found.value == world.get(Source, found.id).value
            assert world.now - found.measured_at <= found.max_age_days * DAY


def test_an_age_counts_whole_days() -> None:
    env = staged()
    for minutes, days in ((0, 0), (DAY - 1, 0), (DAY, 1), (7 * DAY, 7), (8 * DAY - 1, 7)):
        env.world.put_at_start(replace(metric(env), measured_at=env.world.now - minutes))
        assert say(env, "datahub.query_metric", metric_name=role(env, "score")).data["age_days"] == days
