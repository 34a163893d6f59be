"""Words: names of the code as people read them."""

from companyos.families import Family


def in_words(name: str) -> str:
    """`get_ticket` as `Get ticket`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def asked(family: Family) -> tuple[str, str]:
    """A kind of work by its name, and the question that it asks."""
    name, _, question = family.words.partition("\n")[0].partition(": ")
    return name, in_words(question)
