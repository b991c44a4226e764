"""Building blocks of services: the context, the store session, the event bus, letters on their way in, rooms."""
