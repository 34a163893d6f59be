"""Words: names of the code as people read them."""

from companyos.families import Family


def sentence(text: str) -> str:
    """A text that begins a line."""
    return text[:1].upper() + text[1:]


def in_words(name: str) -> str:
    """`get_ticket` as `Get ticket`."""
    return sentence(name.replace("_", " ").strip())


def asked(family: Family) -> tuple[str, str]:
    """A kind of work by its name, and the question that it asks."""
    name, _, question = family.words.partition("\n")[0].partition(": ")
    return name, sentence(question)
