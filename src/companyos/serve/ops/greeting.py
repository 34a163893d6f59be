"""The text that `companyos serve` prints at its start: the address, and five lines of shell to try it."""

from companyos.serve.ops.settings import Settings

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_TEXT = """
CompanyOS is running at {url}: open this address in a browser to work in it. The API is described at {url}/docs.
Press Ctrl-C to stop.

In another terminal:

  url={url}
  id=$({curl} $url/reset -d '{{"task": "vendor_onboarding", "seed": 7, "chaos": 0.5}}' | grep -o 'session_id":"[^"]*' | cut -c14-)
  {curl} $url/step?session_id=$id -d '{{"app": "ticketdesk", "method": "list_tickets", "params": {{"desk": "vendor"}}}}'
  {curl} $url/step?session_id=$id -d '{{"app": "datahub", "method": "search_policies", "params": {{"query": "vendor"}}}}'
  {curl} $url/render?session_id=$id
"""  # noqa: E501 - a command to copy must stay on one line


def greeting(settings: Settings) -> str:
    """Return the text for people; programs read the log."""
    host = _ANYWHERE.get(settings.host, settings.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    curl = 'curl -s -H "Authorization: Bearer $TOKEN"' if settings.tokens else "curl -s"
    return _TEXT.format(url=url, curl=curl)
