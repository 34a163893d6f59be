"""Person: somebody who works in the office by clicking and filling in, and knows only what stands on the page."""

from typing import Any

import msgspec

from companyos.company import ALL_TOOLS, Tool
from companyos.core.calls import Call
from companyos.env.line_syntax import write_line
from companyos.web.episode.forms import Slot, as_typed, slots


class Person:
    """Makes calls through the pages: by a button where one says exactly that, else by the tool's form."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def begin(self, url: str, family: str, seed: int, chaos: float) -> None:
        """Two clicks from the front page."""
        self.page.goto(url)
        self.page.get_by_role("link", name="Choose another").click()
        self.page.locator(f'input[name=family][value="{family}"]').check()
        self.page.locator(f'input[name=chaos][value="{chaos}"]').check()
        self.page.get_by_label("The same number").fill(str(seed))
        self.page.get_by_role("button", name="Begin").click()

    def make(self, call: Call) -> Call:
        """Makes a call; gives it as it was made: facts that are ticked stand in the order of the page."""
        line = write_line(call)
        self._arrive()
        buttons = self.page.locator("button[name=_line]:visible")
        lines = buttons.evaluate_all("all => all.map(one => one.value)")
        if line in lines:
            buttons.nth(lines.index(line)).click()
            return call
        tool = ALL_TOOLS.tools[call.app, call.method]
        self.open_form(tool, call)
        said = self.fill(tool, call)
        self.page.locator("main form.call > button").click()
        return Call(call.app, call.method, call.params | said)

    def open_form(self, tool: Tool, call: Call) -> None:
        """By the navigation, in which every tool is."""
        link = self.page.locator(f'nav.side a[href$="/form/{tool.name}"]')
        if not link.is_visible():
            link.locator("xpath=ancestor::details/summary").click()
        link.click()
        self._arrive()
        kind = self.page.locator("nav.kinds a", has_text=str(call.params.get(tool.target)))
        if tool.target and kind.count():
            kind.first.click()

    def _arrive(self) -> None:
        """Waits until the page is there as a whole: what it does not have, one learns by looking once."""
        self.page.wait_for_load_state("domcontentloaded")

    def fill(self, tool: Tool, call: Call) -> dict[str, Any]:
        said = {}
        for slot in slots(tool):
            if slot.name in call.params:
                if slot.kind == "citations":
                    said[slot.name] = self._cite(slot, call.params[slot.name])
                else:
                    getattr(self, f"_{slot.kind}", self._text)(slot, call.params[slot.name])
        return said

    def _field(self, name: str) -> Any:
        return self.page.locator(f'main form.call [name="{name}"]')

    def _text(self, slot: Slot, value: Any) -> None:
        self._field(slot.name).fill(str(value))

    def _choice(self, slot: Slot, value: Any) -> None:
        self._field(slot.name).select_option(value)

    def _check(self, slot: Slot, value: Any) -> None:
        self._field(slot.name).set_checked(value)

    def _list(self, slot: Slot, value: Any) -> None:
        self._field(slot.name).fill(", ".join(value))

    def _pairs(self, slot: Slot, value: dict[str, Any]) -> None:
        rest = []
        for name, item in value.items():
            field = self._field(f"{slot.name}.{name}")
            text = item if slot.texts_only else as_typed(item)
            if field.count():
                field.fill(text)
            else:
                rest.append((name, text))
        for field in self.page.locator(f'main form.call [name^="{slot.name}."]').all():
            if field.get_attribute("name").partition(".")[2] not in value:
                field.fill("")
        for row, pair in enumerate(rest):
            for column, text in zip(("name", "value"), pair, strict=True):
                self._field(f"{slot.name}:{column}").nth(row).fill(text)

    def _cite(self, slot: Slot, facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ticks what was shown; a fact that was not is typed."""
        shown = self._field(slot.name).evaluate_all("all => all.map(one => one.value)")
        places = {msgspec.json.encode(fact).decode(): fact for fact in facts}
        ticked = [(number, places[citation]) for number, citation in enumerate(shown) if citation in places]
        for number, _ in ticked:
            box = self._field(slot.name).nth(number)
            if not box.is_visible():
                box.locator("xpath=ancestor::details/summary").click()
            box.check()
        said = [fact for _, fact in ticked]
        typed = [fact for fact in facts if fact not in said]
        if typed:
            self.page.get_by_text("Type a fact that is not in the list").click()
        for row, fact in enumerate(typed):
            for column in ("record", "field", "value"):
                text = as_typed(fact[column]) if column == "value" else fact[column]
                self._field(f"{slot.name}:{column}").nth(row).fill(text)
        return said + typed
