"""Mahavishnu: the dead-letter queue for Python workflow apps.

No failed workflow is ever lost, none is run twice by mistake, and nobody is lied to about it.
"""

__version__ = "0.1.0"
