"""Where bytes live: the only code that touches them."""
