"""Names of people and firms. The train split draws from the first half of each list, held-out splits from the second."""


def words(text: str) -> list[str]:
    """Return the words of a text. A list that is written as one text needs no quotes and commas."""
    return text.split()


FIRST_NAMES = words("""
    Ada Bela Carla Dana Emil Farid Gita Hugo Ines Jonas Kira Luca Mara Nils Olga Pavel Quinn Rosa Samir Tara Uwe
    Vera Wanda Xenia Yusuf Zoe Amir Birte Cleo Dario Elif Finn Greta Hana Ivo Jana Kofi Lena Milo Nadia Oscar Petra
    Rafi Selma Timo Ulla Viktor Wendy Yara Zeno
""")
LAST_NAMES = words("""
    Abara Brandt Castro Demir Ekman Farkas Grieco Haddad Ibarra Jensen Kovac Lindt Moreau Novak Okafor Petrov Quist
    Reyes Santos Tanaka Ueda Vargas Weiss Xavier Yilmaz Zeller Amsel Bauer Conti Duarte Engel Fischer Gupta Horvat
    Iqbal Jansen Keller Larsen Meyer Nowak Ortega Park Rossi Schmid Torres Unger Vogel Walsh Young Zimmer
""")
FIRM_NAMES = words("""
    Alder Basalt Cobalt Delta Ember Fathom Granite Harbor Indigo Juniper Kestrel Lantern Meridian Nimbus Orchard
    Pillar Quarry Ridge Summit Timber Umber Vertex Willow Yarrow Zephyr Anchor Beacon Cinder Drift Estuary Falcon
    Glacier Heather Iris Jasper Krill Lumen Marble Nectar Opal Prairie Quill River Sable Thistle Upland Vista Wharf
    Yonder Zinc
""")
TRADES = words("""
    Analytics Catering Cloud Couriers Design Facilities Labs Logistics Media Print Security Staffing Systems Travel
""")
LEGAL_FORMS = ("Ltd", "GmbH", "Inc", "SA")
TOWNS = words("Bergen Cork Graz Lille Porto Turku")


def pool(names: list[str], split: str) -> list[str]:
    """Return the half of a list that a split may use."""
    half = len(names) // 2
    return names[:half] if split == "train" else names[half:]
