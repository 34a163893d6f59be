"""Client: where `openenv push` wants one."""

from companyos.integrations.openenv.client import CompanyOS
from companyos.integrations.openenv.models import CompanyAction, CompanyObservation, CompanyState

__all__ = ["CompanyAction", "CompanyOS", "CompanyObservation", "CompanyState"]
