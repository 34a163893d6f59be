"""The parts of pages that show an episode: its replies as layouts, its forms, its replay and its verdict."""
