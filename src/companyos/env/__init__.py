"""The environment: episodes of tasks, observations and rewards."""

from companyos.env.env import OVER, CompanyEnv, make, par, task_named, work

__all__ = ["OVER", "CompanyEnv", "make", "par", "task_named", "work"]
