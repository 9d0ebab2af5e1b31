"""A coordinator's topic as its coordinator sees it, the same for groups and for transactions."""
