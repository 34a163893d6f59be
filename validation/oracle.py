"""Oracle: the expert works a server's tasks and reaches the most they are worth. `python validation/oracle.py [URL]`"""

import json
import sys
import urllib.request
from typing import Any

from companyos.core.calls import OK, Reply
from companyos.families import FAMILIES, EpisodeSoFar, ExpertStyle, family


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def score(url: str, name: str) -> float:
    """What the expert's episode of this family is worth. It knows what the server said, and nothing else."""
    begun = post(f"{url}/reset", {"task": name, "seed": 7, "chaos": 0.5, "reward": "score"})
    seen, total = begun["observation"], 0.0
    work = family(name).expert(EpisodeSoFar(seen["task"], seen["now"]), ExpertStyle())
    call = next(work)
    while True:
        action = {"app": call.app, "method": call.method, "params": call.params}
        reply = post(f"{url}/step", {"session_id": begun["session_id"], **action})
        seen, total = reply["observation"], total + reply["reward"]
        if reply["done"]:
            return float(total)
        call = work.send(Reply(seen["code"] == OK, seen["code"], seen["last_result"], seen["message"]))


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    for name in FAMILIES:
        print(name, score(url, name))


if __name__ == "__main__":
    main()
