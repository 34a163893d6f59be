"""Tests of the distractor tools: they do what they say, and no task needs them."""

from typing import Any

import pytest

from companyos.company import ALL_TOOLS, EXTRAS, TOOLBOX, Approval, Entry, Message, Metric, Ticket, toolbox_of
from companyos.company.apps.clutter import SWITCHED_OFF
from companyos.company.people import CLOSES, OPENS
from companyos.core.calls import UNKNOWN_TOOL, Call
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make
from companyos.families import FAMILIES
from tests.helpers import asked, letters, me, role, say, set_field, staged, ticket, verify


def bystanders(env: CompanyEnv) -> list[str]:
    """Return open tickets of our desk that are not part of the case."""
    mine = ticket(env)
    return [t.id for t in env.world.all(Ticket) if t.desk == mine.desk and t.id != mine.id and t.status == "open"]


def test_an_extra_has_a_name_of_its_own_in_an_app_that_the_company_has() -> None:
    names = [tool.method for tool in ALL_TOOLS]
    assert len(set(names)) == len(names) == len(TOOLBOX.names) + len(EXTRAS)
    assert ALL_TOOLS.apps == TOOLBOX.apps
    assert not any(tool.ends for tool in EXTRAS)  # one act ends an episode


def test_a_toolbox_has_the_extras_it_was_given_among_the_tools_of_their_app() -> None:
    one = EXTRAS[0]
    found = toolbox_of((one.name,))
    assert set(found.names) - set(TOOLBOX.names) == {one.name}
    assert [tool.app for tool in found] == sorted((tool.app for tool in found), key=TOOLBOX.apps.index)
    assert toolbox_of(()) is toolbox_of(("payroll.pay",)) is TOOLBOX


def test_an_extra_that_an_episode_lacks_is_an_unknown_tool_and_is_not_named() -> None:
    env = staged()
    before = len(env.world.journal)
    for tool in EXTRAS:
        obs = env.step(Call(tool.app, tool.method, {}))
        assert obs.code == UNKNOWN_TOOL
        assert not any(extra.method in obs.message.partition("methods:")[2] for extra in EXTRAS)
    assert len(env.world.journal) == before


# -- TicketDesk --------------------------------------------------------------------------------------------------------


def test_the_archive_holds_what_is_finished_and_nothing_else() -> None:
    env = staged()
    rows: list[dict[str, Any]] = []
    for page in range(1, 9999):
        found = say(env, "ticketdesk.search_archive", query="t-", page=page).data
        rows += found["rows"]
        if page == found["pages"]:
            break
    finished = {t.id for t in env.world.all(Ticket) if t.status in ("done", "cancelled")}
    assert {row["id"] for row in rows} == finished != set()


def test_last_nights_copy_lacks_what_was_changed_today_and_has_it_tomorrow() -> None:
    env = staged()
    before = say(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id).data
    assert set_field(env, "status", "in_progress").ok
    assert say(env, "ticketdesk.get_ticket_v1", ticket_id=ticket(env).id).data == before
    env.world.advance(DAY)
    assert say(env, "ticketdesk.get_ticket_v1", ticket_id=ticket(env).id).data["status"] == "in_progress"


def test_a_bulk_update_writes_all_or_nothing_and_is_damage_that_can_be_put_back() -> None:
    env = staged()
    ours, foreign = bystanders(env)[:2], role(env, "blocker")
    assert len(ours) == 2
    before = {ticket_id: env.world.get(Ticket, ticket_id).priority for ticket_id in ours}
    other = next(value for value in ("low", "normal", "high") if value not in before.values())
    refused = say(env, "ticketdesk.bulk_update", ticket_ids=[*ours, foreign], field="priority", value=other)
    assert refused.code == "other_desk"
    assert not env.world.journal
    assert say(env, "ticketdesk.bulk_update", ticket_ids=ours, field="priority", value="soon").code == "bad_value"
    assert say(env, "ticketdesk.bulk_update", ticket_ids=ours * 2, field="priority", value=other).ok
    assert [(harm.record, harm.can_be_put_back) for harm in env._damage()] == [(one, True) for one in ours]
    assert env.lost() is None
    for ticket_id, value in before.items():
        assert set_field(env, "priority", value or "", ticket_id).ok
    assert env._damage() == []


def test_a_callback_is_asked_for_by_a_comment_and_answered_by_one() -> None:
    env = staged()
    made = say(env, "ticketdesk.request_callback", ticket_id=ticket(env).id)
    assert (made.data["to"], made.data["author"]) == (ticket(env).requester, me(env))
    env.world.advance(5 * DAY)
    assert [letter.sender for letter in letters(env, "comment")] == [ticket(env).requester]
    assert env._damage() == []  # on one's own ticket, as any comment
    say(env, "ticketdesk.request_callback", ticket_id=bystanders(env)[0])
    assert env.lost() == "damage"


def test_a_report_counts_the_tickets_of_a_desk() -> None:
    env = staged()
    report = say(env, "ticketdesk.export_report", desk=ticket(env).desk).data
    count = sum(one.desk == ticket(env).desk for one in env.world.all(Ticket))
    assert report["tickets"] == count == sum(report["by_status"].values()) == sum(report["by_priority"].values())
    assert say(env, "ticketdesk.export_report", desk="nowhere").data["tickets"] == 0


# -- DataHub -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_the_previous_system_says_what_it_is_and_has_other_figures_of_the_same_shape(name: str) -> None:
    differing = 0
    for seed in range(5):
        env = make(name, seed=seed)
        for entry in list(env.world.all(Entry)):
            current = say(env, "datahub.get_entry", entry_id=entry.id).data
            legacy = say(env, "datahub.legacy_lookup", entry_id=entry.id).data
            assert SWITCHED_OFF in legacy.pop("from_system")
            assert legacy.keys() == current.keys()
            assert all(legacy[field] == current[field] for field in ("id", "kind", "name", "reference", "status"))
            differing += legacy != current
    assert differing > 5


def test_an_old_figure_is_dated_and_reading_it_counts_for_nothing() -> None:
    env = staged(score_stale=True)
    metric = env.world.get(Metric, role(env, "score"))
    digest = env.digest()
    shown = say(env, "datahub.query_metric_v1", metric_name=metric.id).data
    assert shown["measured_at"] == SWITCHED_OFF
    assert shown == say(env, "datahub.query_metric_v1", metric_name=metric.id).data
    assert env.digest() == digest


def test_dashboards_show_every_metric_once() -> None:
    env = staged()
    found = say(env, "datahub.list_dashboards").data
    assert found["pages"] == 1
    assert sum(row["metrics"] for row in found["rows"]) == env.world.count(Metric)


# -- ApprovalFlow ------------------------------------------------------------------------------------------------------


def test_delegations_stand_on_paper_whether_anybody_is_away_or_not() -> None:
    here, away = staged(), staged(head_away=True)
    assert say(here, "approvalflow.list_delegations").data == say(away, "approvalflow.list_delegations").data


def test_reminders_are_read_wear_people_out_and_speed_up_nothing() -> None:
    def decided_after(reminders: int) -> int:
        env = staged()
        verify(env)
        env.world.advance((7 - env.world.now // DAY % 7) * DAY + OPENS - env.world.now % DAY)
        first = asked(env)
        for _ in range(reminders):
            assert say(env, "approvalflow.remind", approval_id=first).ok
        env.world.advance(CLOSES - OPENS)
        assert say(env, "approvalflow.remind", approval_id=first).code == "not_pending"
        assert env.world.get(Approval, first).status == "approved"
        assert sum(m.topic == "reminder" for m in env.world.all(Message)) == reminders
        env.world.advance(DAY - CLOSES + OPENS)
        start, second = env.world.now, asked(env)
        env.world.advance(5 * DAY)
        return (env.world.get(Approval, second).decided_at or 0) - start

    assert decided_after(0) == decided_after(2) < DAY <= decided_after(3)


def test_statistics_count_requests_by_how_they_stand() -> None:
    env = staged()
    verify(env)
    head = role(env, "head")
    assert say(env, "approvalflow.approval_stats", person_id=head).data["requests"] == 0
    asked(env)
    assert say(env, "approvalflow.approval_stats", person_id=head).data == {"person": head, "requests": 1, "pending": 1}


def test_what_only_reads_writes_nothing() -> None:
    env = staged()
    known = {"query": "a", "ticket_id": ticket(env).id, "entry_id": role(env, "entry"), "metric_name": role(env, "score")}
    known |= {"desk": ticket(env).desk, "person_id": me(env)}
    digest = env.digest()
    for tool in EXTRAS:
        if not tool.writes:
            assert say(env, tool.name, **{name: known[name] for name in tool.required}).ok
    assert env.digest() == digest
