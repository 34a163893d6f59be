"""An agent that asks a language model behind any OpenAI-compatible endpoint, with the package `openai`."""

import json
import os

from openai import OpenAI


class Agent:
    def __init__(self):
        self.client = OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ.get("API_KEY", "none"))
        self.messages = []

    def act(self, obs):
        self.messages.append({"role": "user", "content": obs.text})
        answer = self.client.chat.completions.create(model=os.environ["MODEL"], messages=self.messages, tools=obs.tools)
        function = answer.choices[0].message.tool_calls[0].function
        self.messages.append({"role": "assistant", "content": f"{function.name} {function.arguments}"})
        app, _, method = function.name.partition("_")
        return {"app": app, "method": method, "params": json.loads(function.arguments)}
