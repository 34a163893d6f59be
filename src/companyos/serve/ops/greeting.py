"""The text that `companyos serve` prints at its start: the address, and five lines of shell to try it."""

from companyos.serve.ops.settings import Settings

# Addresses that mean "all interfaces", each with one that a client can connect to.
_ADDRESSES_TO_OPEN = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_TEXT = """
CompanyOS is running at {url}: open this address in a browser to work in it. The API is described at {url}/docs.
Press Ctrl-C to stop.

In another terminal{token_hint}:

{lines}
"""
# These lines work in bash, zsh and fish: fish has no `name=value`, and zsh and fish expand an unquoted "?".
_LINES = r"""
export url="{url}"
export id=$({curl} "$url/reset" -d '{{"task": "vendor_onboarding", "seed": 7, "chaos": 0.5}}' | grep -o 'session_id":"[^"]*' | cut -c14-)
{curl} "$url/step?session_id=$id" -d '{{"app": "ticketdesk", "method": "list_tickets", "params": {{"desk": "vendor"}}}}'
{curl} "$url/step?session_id=$id" -d '{{"app": "datahub", "method": "search_policies", "params": {{"query": "vendor"}}}}'
{curl} "$url/render?session_id=$id"
"""  # noqa: E501 - a command to copy must stay on one line


def greeting(settings: Settings) -> str:
    """Return the text for people; programs read the log."""
    host = _ADDRESSES_TO_OPEN.get(settings.host, settings.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    token_hint = ", after `export TOKEN=...` with your token" if _needs_token(settings) else ""
    return _TEXT.format(
        url=url, token_hint=token_hint, lines="\n".join(f"  {line}" for line in example_lines(url, settings))
    )


def example_lines(url: str, settings: Settings) -> list[str]:
    """Return five lines of shell that play the beginning of an episode. With tokens, they send the variable TOKEN."""
    curl = 'curl -s -H "Authorization: Bearer $TOKEN"' if _needs_token(settings) else "curl -s"
    return _LINES.format(url=url, curl=curl).strip().splitlines()


def _needs_token(settings: Settings) -> bool:
    return bool(settings.tokens or settings.agent_tokens)
