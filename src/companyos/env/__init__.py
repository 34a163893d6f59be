"""The environment: episodes of tasks, what the agent observes, and what it is rewarded for."""

from companyos.env.env import OVER, CompanyEnv, make, par, task_named, work

__all__ = ["OVER", "CompanyEnv", "make", "par", "task_named", "work"]
