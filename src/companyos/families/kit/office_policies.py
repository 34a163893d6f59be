"""Policies about the daily life of an office. No case depends on them."""

from msgspec import Struct


class OfficePolicy(Struct, frozen=True):
    """A policy and its versions."""

    title: str
    text: str
    numbers: tuple[int, ...]  # what `{n}` in the text stood for over the years, the number in force last


OFFICE_POLICIES = (
    OfficePolicy(
        "Booking of travel",
        "Trips are booked by the travel office, {n} days ahead where possible. Trains go before flights on any way of less "
        "than five hours.",
        (7, 10, 14),
    ),
    OfficePolicy(
        "Visitors",
        "Visitors are announced at the reception {n} hours ahead and wear a badge. Nobody leaves a visitor alone on a floor "
        "with customer data.",
        (48, 24),
    ),
    OfficePolicy(
        "Company devices",
        "Laptops are replaced after {n} years. A lost device is reported to the service desk at once, at any hour. Private "
        "software does not belong on them.",
        (3, 5, 4),
    ),
    OfficePolicy(
        "Meeting rooms",
        "Rooms are booked in the calendar and given back when a meeting is called off. The large hall is for the all-hands "
        "and needs {n} days' notice.",
        (3, 7),
    ),
    OfficePolicy(
        "Retention of records",
        "Invoices are kept for ten years, tickets for {n}. What is under legal hold is kept until the hold ends.",
        (5, 3),
    ),
    OfficePolicy(
        "Fire drills",
        "Every building has {n} fire drills a year. Floor wardens wear the yellow vest and report to the assembly point.",
        (1, 2),
    ),
    OfficePolicy(
        "Parking",
        "A place in the garage is given for {n} months at a time. Bicycles have a room of their own next to gate 2.",
        (12, 6),
    ),
    OfficePolicy(
        "Guest network", "A guest code works for {n} hours. It does not reach printers or file shares.", (72, 48, 24)
    ),
    OfficePolicy(
        "Printers",
        "Print jobs wait at the machine for {n} hours and are then deleted. Colour needs a reason.",
        (8, 12),
    ),
    OfficePolicy(
        "Lost property",
        "What is found goes to the reception. After {n} weeks it is given to charity, except keys and phones.",
        (8, 6, 4),
    ),
    OfficePolicy(
        "Quiet hours",
        "Phone calls are made in the booths. On the library floor nobody talks before {n} o'clock.",
        (10, 11),
    ),
    OfficePolicy(
        "Plants and decoration",
        "Each team may order {n} plants a year. What blocks a sprinkler or a window is removed.",
        (2, 4),
    ),
    OfficePolicy(
        "First aid",
        "There is one first-aider for every {n} people. Kits are checked in January and July.",
        (30, 25, 20),
    ),
    OfficePolicy(
        "Noticeboards",
        "A notice hangs for {n} weeks. It names who put it up and when.",
        (3, 2),
    ),
    OfficePolicy(
        "Canteen",
        "Lunch is served from 11:30. Groups of more than {n} people order a day ahead.",
        (15, 12, 8),
    ),
    OfficePolicy(
        "Language courses",
        "A course has {n} lessons and takes place before nine or after five. Attendance is signed by the teacher.",
        (12, 15),
    ),
    OfficePolicy(
        "Sports groups",
        "A group with {n} members or more may use the hall on Mondays. It cleans up after itself.",
        (10, 6),
    ),
    OfficePolicy(
        "Press enquiries",
        "Journalists are passed on to the press office within {n} hours. Nobody else speaks for the firm.",
        (8, 4, 2),
    ),
    OfficePolicy(
        "Photographs at work",
        "Nobody is photographed without asking. Pictures of events are online for {n} months.",
        (24, 12),
    ),
    OfficePolicy(
        "Secondment",
        "A secondment lasts at most {n} months. Both teams agree on the date of return before it begins.",
        (18, 12),
    ),
)
