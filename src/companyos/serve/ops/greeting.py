"""Greeting: what a server says to whoever started it by hand. Where it is, and five lines with which to use it."""

from companyos.serve.ops.settings import Settings

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_WORDS = """
CompanyOS serves at {url}, where a browser can work in it, and explains itself to programs at {url}/docs. Ctrl-C ends it.

In another terminal:

  url={url}
  id=$({curl} $url/reset -d '{{"task": "vendor_onboarding", "seed": 7, "chaos": 0.5}}' | grep -o 'session_id":"[^"]*' | cut -c14-)
  {curl} $url/step?session_id=$id -d '{{"app": "ticketdesk", "method": "list_tickets", "params": {{"desk": "vendor"}}}}'
  {curl} $url/step?session_id=$id -d '{{"app": "datahub", "method": "search_policies", "params": {{"query": "vendor"}}}}'
  {curl} $url/render?session_id=$id
"""  # noqa: E501 - five lines are five lines


def greeting(settings: Settings) -> str:
    """For people; machines read the log."""
    host = _ANYWHERE.get(settings.host, settings.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    curl = 'curl -s -H "Authorization: Bearer $TOKEN"' if settings.tokens else "curl -s"
    return _WORDS.format(url=url, curl=curl)
