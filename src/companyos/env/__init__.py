"""The environment: episodes of tasks, observations and rewards."""

from companyos.env.env import OVER, CompanyEnv, make, par, run_expert, task_named

__all__ = ["OVER", "CompanyEnv", "make", "par", "run_expert", "task_named"]
