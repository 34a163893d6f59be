"""What `vf-eval companyos-verifiers` imports: verifiers finds a taskset by the name of a module."""

from companyos.integrations.verifiers_env import CompanyTaskset

__all__ = ["CompanyTaskset"]
