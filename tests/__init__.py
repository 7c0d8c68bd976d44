"""The tests mirror src/; what several of them share stands here."""
