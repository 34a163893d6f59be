"""How limits, definitions and signatures are said. `wordings` explains the table."""

from msgspec import Struct

from companyos.rules.grammar import Wording
from companyos.rules.pieces import (
    Computed,
    DayMeant,
    Definition,
    Instead,
    Ladder,
    Level,
    Limit,
    RateTable,
    Scale,
    Second,
    Signer,
    VersionDay,
    WhichFigure,
)
from companyos.rules.wordings import said

NUMBERS: dict[type[Struct], list[Wording]] = {
    Definition: said(
        handbook="in these rules, “{term}” means that {when}",
        memo="where our papers say “{term}”, they mean that {when}",
        mail="when we say “{term}”, we mean that {when}",
        new="we use the term “{term}” if {when}",
    ),
    DayMeant: said(
        handbook="the {name} is {day}",
        memo="by the {name} we mean {day}",
        mail="when we write “the {name}”, that is {day}",
        new="we take {day} as the {name}",
    ),
    Computed: said(
        handbook="how to work out {fact}: {ways|; }",
        memo="for {fact}, please note that {ways| and that }",
        mail="when you work out {fact}, keep in mind that {ways| and that }",
        new="{fact} is worked out as follows: {ways|; }",
    ),
    Limit: said(
        handbook="the {limit} is {number}",
        memo="we have set the {limit} at {number}",
        mail="please use {number} as the {limit}",
        new="the figure for the {limit} is {number}",
    ),
    Instead: said(
        handbook="if {when}, the {limit} is {number} instead",
        handbook_="there is a special figure for the {limit} if {when}: {number}",
        memo="where {when}, we have set the {limit} at {number}",
        mail="please use {number} as the {limit} if {when}",
        new="the figure for the {limit} changes to {number} whenever {when}",
    ),
    WhichFigure: said(
        handbook="if more than one special figure for the {limit} fits, {by} counts",
        memo="where several special figures for the {limit} fit, please go by {by}",
        mail="if you find several special figures for the {limit} that fit, use {by}",
        new="of several special figures for the {limit} that fit, {by} prevails",
    ),
    VersionDay: said(
        handbook="the {limit} is the one that was in force on {day}",
        memo="for the {limit}, please go by the version that was in force on {day}",
        mail="please look up which {limit} was in force on {day}, and use that one",
        new="what counts is the version of the {limit} that was in force on {day}",
    ),
    RateTable: said(
        handbook="the {table} depends on {by}: {rows|, }",
        memo="table of the {table} by {by}: {rows|, }",
        mail="please look up the {table} by {by}, which gives {rows}",
        new="{by} decides what the {table} is: {rows|, }",
    ),
    Scale: said(
        handbook="the {scale} is the first of these whose conditions hold: {levels|, }",
        memo="levels of the {scale}, of which the first one whose conditions hold counts: {levels|, }",
        mail="to find the {scale}, go through {levels} and stop at the first one whose conditions hold",
        new="of the following, the first one whose conditions hold is the {scale}: {levels|, }",
    ),
    Level: [
        *said(
            handbook="the {scale} is {level} if {when}",
            memo="we rate the {scale} as {level} where {when}",
            mail="please take {level} as the {scale} if {when}",
            new="the {scale} counts as {level} whenever {when}",
        ),
        *said(
            handbook="in all other cases, the {scale} is {level}",
            memo="in all other cases, we rate the {scale} as {level}",
            mail="please take {level} as the {scale} in all other cases",
            new="the {scale} counts as {level} in every other case",
        ),
    ],
    Ladder: said(
        handbook="{form} is signed by the first of these offices whose limit covers the amount, and otherwise by nobody: "
        "{offices|, then }",
        memo="for the signature on {form}, please take the first of these whose limit covers the amount: {offices|, then }; "
        "if there is none, nobody signs",
        mail="please send {form} to the first of these whose limit covers the amount, and to nobody else: {offices|, then }",
        new="the amount decides who signs {form}: the first of {offices|, then } with a high enough limit, or nobody",
    ),
    Signer: [
        *said(
            handbook="{form} is signed by {office}",
            memo="the signature on {form} is that of {office}",
            mail="please have {form} signed by {office}",
            new="nobody but {office} signs {form}",
        ),
        *said(
            handbook="{form} is signed by {office} if {when}",
            memo="where {when}, the signature on {form} is that of {office}",
            mail="if {when}, please have {form} signed by {office}",
            new="whenever {when}, nobody but {office} signs {form}",
        ),
    ],
    Second: said(
        handbook="if {when}, {form} also needs the signature of {office}, after the first one",
        memo="where {when}, please have {form} signed a second time, by {office}",
        mail="you need a second signature on {form}, that of {office}, if {when}",
        new="two people sign {form} whenever {when}, and the second one is {office}",
    ),
}
