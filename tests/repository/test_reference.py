"""The reference: what docs/reference says is what the code is."""

import pytest

from companyos.cli.main import COMMANDS
from companyos.company import EXTRAS, TOOLBOX, Ticket
from companyos.company.apps import ticketdesk
from companyos.env import make
from tools.reference import FOLDER, PAGES
from tools.sources import refusals, signature


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / f"{name}.md").read_text() == PAGES[name](), "run `make reference`"


def test_there_is_no_other_page() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PAGES)


def test_every_tool_and_every_command_is_in_it() -> None:
    tools, commands = PAGES["tools"](), PAGES["commands"]()
    assert all(f"### {tool.method}\n" in tools for tool in TOOLBOX)
    assert all(f"`{tool.name}`" in tools for tool in EXTRAS)
    assert all(f"## companyos {run.__name__[1:].replace('_', '-')}\n" in commands for run in COMMANDS)


def test_refusals_are_found_in_helpers_and_in_tables_of_them() -> None:
    assert refusals(ticketdesk.resolve_ticket).keys() == {
        "blocked",
        "other_desk",
        "finished",
        "changed_meanwhile",
        "not_found",
    }
    assert {"no_priority", "not_verified", "no_match"} <= refusals(ticketdesk.update_ticket).keys()


def test_what_a_tool_refuses_with_is_among_what_it_is_said_to() -> None:
    env = make("vendor_onboarding", seed=7, chaos=0.5)
    blocked = next(ticket for ticket in env.world.all(Ticket) if ticket.desk != "vendor")
    reply = env.step(
        {
            "app": "ticketdesk",
            "method": "update_ticket",
            "params": {"ticket_id": blocked.id, "field": "status", "value": "open"},
        }
    )
    assert reply.code == "other_desk"
    assert reply.code in refusals(ticketdesk.update_ticket)


def test_a_signature_is_as_it_is_written() -> None:
    assert signature(refusals) == "refusals(function: Callable[..., Any]) -> dict[str, None]"
