"""Tables of the calls that make sense next, for agents that choose a call instead of writing one."""
