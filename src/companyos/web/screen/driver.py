"""Works in the office through its pages, by clicks and filled-in forms. Used by BrowserGym and by tests."""

from typing import Any

import msgspec

from companyos.company import ALL_TOOLS, Tool
from companyos.core.calls import Call
from companyos.env.line_syntax import write_line
from companyos.web.episode.forms import FormArgument, as_typed, form_arguments


class OfficeDriver:
    """Makes calls with a Playwright page: by a button that sends exactly that call, or by the tool's form."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def begin(self, url: str, family: str, seed: int, chaos: float) -> None:
        """Start a task from the front page."""
        self.page.goto(url)
        self.page.get_by_role("link", name="Choose another").click()
        self.page.locator(f'input[name=family][value="{family}"]').check()
        self.page.locator(f'input[name=chaos][value="{chaos}"]').check()
        self.page.get_by_label("The same number always gives").fill(str(seed))
        self.page.get_by_role("button", name="Begin").click()

    def perform(self, call: Call) -> Call:
        """Make a call on the page. Return it as it was sent: ticked facts are in the order of the page."""
        line = write_line(call)
        self._wait_for_page()
        buttons = self.page.locator("button[name=_line]:visible")
        lines = buttons.evaluate_all("elements => elements.map(element => element.value)")
        if line in lines:
            buttons.nth(lines.index(line)).click()
            return call
        tool = ALL_TOOLS.tools[call.app, call.method]
        self.open_form(tool, call)
        changed = self.fill(tool, call)
        self.page.locator("main form.call > button").click()
        return Call(call.app, call.method, call.params | changed)

    def open_form(self, tool: Tool, call: Call) -> None:
        """Open a tool's form from the navigation."""
        link = self.page.locator(f'nav.side a[href$="/form/{tool.name}"]')
        if not link.is_visible():
            link.locator("xpath=ancestor::details/summary").click()
        link.click()
        self._wait_for_page()
        link_of_kind = self.page.locator("nav.kinds a", has_text=str(call.params.get(tool.target)))
        if tool.target and link_of_kind.count():
            link_of_kind.first.click()

    def _wait_for_page(self) -> None:
        """Wait until the page is loaded, because `count` and `is_visible` do not wait."""
        self.page.wait_for_load_state("domcontentloaded")

    def fill(self, tool: Tool, call: Call) -> dict[str, Any]:
        """Fill in the form of a tool. Return the arguments that the page sends in another order than the call."""
        changed = {}
        for argument in form_arguments(tool):
            if argument.name in call.params:
                if argument.kind == "citations":
                    changed[argument.name] = self._cite(argument, call.params[argument.name])
                else:
                    fill_in = getattr(self, f"_{argument.kind}", self._text)  # such as `_choice`
                    fill_in(argument, call.params[argument.name])
        return changed

    def _field(self, name: str) -> Any:
        return self.page.locator(f'main form.call [name="{name}"]')

    def _text(self, argument: FormArgument, value: Any) -> None:
        self._field(argument.name).fill(str(value))

    def _choice(self, argument: FormArgument, value: Any) -> None:
        self._field(argument.name).select_option(value)

    def _check(self, argument: FormArgument, value: Any) -> None:
        self._field(argument.name).set_checked(value)

    def _list(self, argument: FormArgument, value: Any) -> None:
        self._field(argument.name).fill(", ".join(value))

    def _pairs(self, argument: FormArgument, value: dict[str, Any]) -> None:
        unlisted = []  # pairs for which the form has no field of their own
        for name, item in value.items():
            field = self._field(f"{argument.name}.{name}")
            text = item if argument.texts_only else as_typed(item)
            if field.count():
                field.fill(text)
            else:
                unlisted.append((name, text))
        for field in self.page.locator(f'main form.call [name^="{argument.name}."]').all():
            if field.get_attribute("name").partition(".")[2] not in value:
                field.fill("")
        for row, pair in enumerate(unlisted):
            for column, text in zip(("name", "value"), pair, strict=True):
                self._field(f"{argument.name}:{column}").nth(row).fill(text)

    def _cite(self, argument: FormArgument, facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Tick the facts that the page lists and type the others. Return the facts in the order in which they are sent."""
        listed_citations = self._field(argument.name).evaluate_all("elements => elements.map(element => element.value)")
        wanted = {msgspec.json.encode(fact).decode(): fact for fact in facts}
        ticked = [(number, wanted[citation]) for number, citation in enumerate(listed_citations) if citation in wanted]
        for number, _ in ticked:
            box = self._field(argument.name).nth(number)
            if not box.is_visible():
                box.locator("xpath=ancestor::details/summary").click()
            box.check()
        listed = [fact for _, fact in ticked]
        typed = [fact for fact in facts if fact not in listed]
        if typed:
            self.page.get_by_text("Type a fact that is not in the list").click()
        for row, fact in enumerate(typed):
            for column in ("record", "field", "value"):
                text = as_typed(fact[column]) if column == "value" else fact[column]
                self._field(f"{argument.name}:{column}").nth(row).fill(text)
        return listed + typed
