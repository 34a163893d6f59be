"""Parts of pages that show an episode: its story, its verdict, its replies and forms."""
