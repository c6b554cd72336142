"""The report as one page of HTML: read top to bottom, it answers first and proves afterwards; nothing is measured."""
