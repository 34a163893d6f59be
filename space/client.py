"""The client, at the path that `openenv push` expects."""

from companyos.integrations.openenv.client import CompanyOS
from companyos.integrations.openenv.models import CompanyAction, CompanyObservation, CompanyState

__all__ = ["CompanyAction", "CompanyOS", "CompanyObservation", "CompanyState"]
