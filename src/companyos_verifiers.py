"""The module that `vf-eval companyos-verifiers` imports: verifiers finds a taskset by its module name."""

from companyos.integrations.verifiers_env import CompanyTaskset

__all__ = ["CompanyTaskset"]
