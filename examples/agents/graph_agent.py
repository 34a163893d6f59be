"""An agent that is a graph: any object with `invoke(state)`, such as a compiled LangGraph graph."""


class Graph:  # in your program: graph = StateGraph(State)....compile()
    def invoke(self, state):
        method = "list_tickets" if state["step"] == 0 else "wait"
        return state | {"call": {"app": "ticketdesk", "method": method, "params": {}}}


graph = Graph()


def agent(obs):
    return graph.invoke({"observation": obs.text, "tools": obs.tools, "step": obs.step})["call"]
