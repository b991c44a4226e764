"""Encryption of stored values: revealing them, and renewing their keys."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, Room, Routes

ROOM = Room(
    services={"encryption": "mahavishnu.encryption.service:EncryptionRenewal"},
    routes=(Routes("dlq", "mahavishnu.encryption.routes:router"),),
    commands=(
        Command("config", "new-key", "mahavishnu.encryption.commands:new_key"),
        Command("dlq", "reveal", "mahavishnu.encryption.commands:reveal"),
        Command("dlq", "encrypt", "mahavishnu.encryption.commands:encrypt"),
    ),
)
