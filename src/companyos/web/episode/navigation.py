"""The office's navigation: a menu for each app, and the actions that a record's page offers."""

from functools import lru_cache

import msgspec

from companyos.company import Tool, Toolbox
from companyos.company.apps.tool import reference
from companyos.core.calls import Call
from companyos.core.world import Record
from companyos.env.line_syntax import write_line
from companyos.web.episode.layouts import record_kind
from companyos.web.labels import in_words, tool_title

APPS = {"ticketdesk": "TicketDesk", "datahub": "DataHub", "approvalflow": "ApprovalFlow"}


class MenuItem(msgspec.Struct, frozen=True):
    """An entry of the menu. It makes a call at once (`line`) or opens a tool's form."""

    title: str
    about: str  # the first line of the tool's description
    line: str = ""
    tool: str = ""
    writes: bool = False  # the tool changes records
    has_arguments: bool = False  # the tool also has arguments, which its form asks for


class AppMenu(msgspec.Struct, frozen=True):
    """The menu of an app: tools that need no record (`browse`), and all others (`by_id`)."""

    app: str
    title: str
    browse: tuple[MenuItem, ...]
    by_id: tuple[MenuItem, ...]


@lru_cache(maxsize=256)
def app_menus(toolbox: Toolbox) -> tuple[AppMenu, ...]:
    """Return the menus of all apps. Each tool is in them once."""
    menus = []
    for app in toolbox.apps:
        tools = [tool for tool in toolbox if tool.app == app]
        menus.append(
            AppMenu(
                app,
                APPS.get(app, in_words(app)),
                tuple(_menu_item(tool) for tool in tools if not tool.target and not tool.writes),
                tuple(_menu_item(tool) for tool in tools if tool.target or tool.writes),
            )
        )
    return tuple(menus)


def _menu_item(tool: Tool) -> MenuItem:
    # A tool without required arguments is called at once. The filters of a list can be set on its page.
    at_once = not tool.required and not tool.writes and ("page" in tool.hints or not tool.hints)
    line = write_line(Call(tool.app, tool.method)) if at_once else ""
    return MenuItem(
        title=tool_title(tool),
        about=tool.description.partition("\n")[0],
        line=line,
        tool=tool.name,
        writes=tool.writes,
        has_arguments=bool(tool.hints),
    )


class ReadAction(msgspec.Struct, frozen=True):
    """A call that reads something about the record on the page."""

    title: str
    line: str


def actions_on(toolbox: Toolbox, id: str, shown_tool: str) -> tuple[list[ReadAction], list[Tool]]:
    """Return the reading calls for a record, except the one that is shown now, and the tools that write to it."""
    readers = [tool for tool in _tools_for(toolbox, record_kind(id)) if not tool.writes and tool.required == [tool.target]]
    reads = [
        ReadAction(tool_title(tool), write_line(Call(tool.app, tool.method, {tool.target: id})))
        for tool in readers
        if tool.name != shown_tool
    ]
    return reads, write_tools_for(toolbox, record_kind(id))


def write_tools_for(toolbox: Toolbox, kind: str) -> list[Tool]:
    """Return the tools that write to records of a kind."""
    return [tool for tool in _tools_for(toolbox, kind) if tool.writes]


@lru_cache(maxsize=1024)
def _tools_for(toolbox: Toolbox, kind: str) -> tuple[Tool, ...]:
    """Return the tools whose first argument is the id of a record of a kind."""
    return tuple(tool for tool in toolbox if tool.target and _kind_name(reference(tool.hints[tool.target])) == kind)


def _kind_name(kind: type[Record] | None) -> str:
    return kind.__name__ if kind else ""
