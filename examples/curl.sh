#!/usr/bin/env bash
# Three steps of an episode with curl alone, on a server that runs already: companyos serve
# examples/curl.sh [URL]
set -euo pipefail
url=${1:-http://127.0.0.1:8000}
curl() { command curl --silent --show-error --fail-with-body --write-out '\n' "$@"; }

export id=$(curl -s "$url/reset" -d '{"task": "vendor_onboarding", "seed": 7, "chaos": 0.5}' | grep -o 'session_id":"[^"]*' | cut -c14-)
curl -s "$url/step" -H "X-Session-Id: $id" -d '{"app": "ticketdesk", "method": "get_ticket", "params": {"ticket_id": "T-9262"}}'
curl -s "$url/step" -H "X-Session-Id: $id" -d '{"app": "datahub", "method": "search_policies", "params": {"query": "vendor"}}'
curl -s "$url/step" -H "X-Session-Id: $id" -d '{"app": "ticketdesk", "method": "list_tickets"}'
curl -s "$url/render?session_id=$id&view=text"
