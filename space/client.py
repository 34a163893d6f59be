"""Client: where `openenv push` wants one."""

from companyos.openenv.client import CompanyOS
from companyos.openenv.models import CompanyAction, CompanyObservation, CompanyState

__all__ = ["CompanyAction", "CompanyOS", "CompanyObservation", "CompanyState"]
