"""Web: the company in a browser. Pages that are made of replies, and forms that are made of signatures.

No page needs a program to work, none asks another host for anything, and no text in a record can become a tag.
"""
