"""What approvers check on the form of the second signature."""

from companyos.company.colleagues import RequestCheck, audits
from companyos.company.programs import Row
from companyos.core.calls import Call
from companyos.families.vendor_onboarding.causes import FORM, SECOND_FORM


@audits(SECOND_FORM)
def first_is_signed(data: Row, ticket: Row) -> RequestCheck:
    """Reject the request unless its field `first` names a signed request for the same ticket."""
    reply = yield Call("approvalflow", "check_status", {"approval_id": str(data["first"])})
    request = reply.data if reply.ok else {}
    of_ticket = request.get("type") == FORM and request.get("data", {}).get("ticket_id") == ticket["id"]
    if not of_ticket or request.get("status") != "approved":
        return "not_signed", "first is not a signed vendor_onboarding request for this ticket."
    return None
