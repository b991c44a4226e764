"""Failed logins are slowed down, for each address, in bounded memory."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

FREE_FAILURES = 5  # that cost nothing: people mistype
FIRST_WAIT, LONGEST_WAIT = 2.0, 300.0  # seconds; each further failure doubles the wait
FORGET_SECONDS = 900.0
MOST_ADDRESSES = 10_000


class LoginThrottle:
    """Counts the failed logins of addresses; the times are seconds of a clock that only goes on.

    >>> throttle = LoginThrottle()
    >>> for second in range(6):
    ...     throttle.add_failure("192.0.2.1", second)
    >>> throttle.seconds_to_wait("192.0.2.1", 6), throttle.seconds_to_wait("192.0.2.2", 6)
    (1.0, 0.0)
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last one was

    def seconds_to_wait(self, address: str, now: float) -> float:
        """Return how long this address has to wait until its next login is looked at."""
        count, last = self._failures.get(_network(address), (0, now))
        if count <= FREE_FAILURES:
            return 0.0
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(count - FREE_FAILURES - 1, 20))
        return max(0.0, last + wait - now)

    def add_failure(self, address: str, now: float) -> None:
        """Note a login that failed; the oldest note may be forgotten for it."""
        network = _network(address)
        count, last = self._failures.pop(network, (0, now))
        self._failures[network] = (count + 1 if now - last < FORGET_SECONDS else 1, now)
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)

    def forget(self, address: str) -> None:
        """Begin anew after a login that worked."""
        self._failures.pop(_network(address), None)


def _network(address: str) -> str:
    """Return what counts as one sender: of IPv6 the network, in which a sender has billions of addresses.

    >>> _network("2001:db8:1:2:3::4"), _network("192.0.2.7"), _network("a name")
    ('2001:db8:1:2::/64', '192.0.2.7', 'a name')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
