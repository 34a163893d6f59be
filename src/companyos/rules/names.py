"""The kinds of names in rules.

The second part of each type says what kind of name it is. `Vocabulary` has the phrases of each kind.
"""

import re
from typing import Annotated

FactName = Annotated[str, "fact"]
CheckName = Annotated[str, "check"]
Resolution = Annotated[str, "resolution"]
Reason = Annotated[str, "reason"]
FieldName = Annotated[str, "field"]
Recipient = Annotated[str, "whom"]  # an office, or a role of the case such as the requester
Form = Annotated[str, "form"]
Office = Annotated[str, "office"]
LimitName = Annotated[str, "limit"]
DayName = Annotated[str, "day"]  # a fact that is a day
AgreedDay = Annotated[str, "agreed_day"]
Term = Annotated[str, "term"]
TableName = Annotated[str, "table"]
ScaleName = Annotated[str, "scale"]
LevelName = Annotated[str, "level"]
Way = Annotated[str, "way"]
CitedFact = Annotated[str, "citation"]
Title = Annotated[str, "paper"]
Topic = Annotated[str, "topic"]


def snake_case(name: str) -> str:
    """Return the name of a class in the form that YAML uses, such as `day_meant`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
