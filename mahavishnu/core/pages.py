"""The pages of the web console: a module for each, which reads what it shows with the methods of the queue.

To add one: write a module with a `router` (`Router(tag=…, documented=False)`) and, for the navigation, a `LINK`; write
its template into `templates/`; and name the module here, where it is to stand in the navigation.
"""

from __future__ import annotations

from mahavishnu.access import page as access
from mahavishnu.alerts import page as alerts
from mahavishnu.archive import page as archive
from mahavishnu.audit import page as audit
from mahavishnu.bulk import page as bulk
from mahavishnu.bulk import selection
from mahavishnu.console import static
from mahavishnu.groups import page as groups
from mahavishnu.letters import page as letters
from mahavishnu.monitoring import page as monitoring
from mahavishnu.queues import page as queues
from mahavishnu.settings import page as settings
from mahavishnu.tasks import page as tasks
from mahavishnu.workers import page as workers

_OF_LETTERS = (static, access, monitoring, groups, letters, selection, bulk)
PAGES = (*_OF_LETTERS, alerts, queues, tasks, workers, archive, audit, settings)
LINKS = (
    *(page.LINK for page in (monitoring, groups, letters, bulk, alerts, queues, tasks, workers, archive, audit)),
    settings.PLUGINS_LINK,
    settings.LINK,
)

__all__ = ["LINKS", "PAGES"]
