"""The pages of the web console: a module for each, which reads what it shows with the methods of the queue.

To add one: write a module with a `router` (`Router(tag=…, documented=False)`) and, for the navigation, a `LINK`; write
its template into `templates/`; and name the module here, where it is to stand in the navigation.
"""

from __future__ import annotations

from mahavishnu.access import page as login
from mahavishnu.access import page as provider_login
from mahavishnu.alerts import page as alerts
from mahavishnu.alerts import page as runbooks
from mahavishnu.archive import page as archive
from mahavishnu.archive import page as archived_tasks
from mahavishnu.audit import page as audit
from mahavishnu.bulk import page as run
from mahavishnu.bulk import page as runs
from mahavishnu.bulk import selection
from mahavishnu.console import static
from mahavishnu.groups import page as group
from mahavishnu.groups import page as groups
from mahavishnu.letters import page as letter
from mahavishnu.letters import page as letters
from mahavishnu.letters import page as namespaces
from mahavishnu.monitoring import page as overview
from mahavishnu.queues import page as queues
from mahavishnu.settings import page as plugins
from mahavishnu.settings import page as settings
from mahavishnu.tasks import page as tasks
from mahavishnu.workers import page as workers

_OF_LETTERS = (static, login, provider_login, overview, groups, group, letters, letter, selection, runs, run)
_OF_WORK = (alerts, runbooks, queues, tasks, workers)
_OF_RECORDS = (archived_tasks, archive, audit, plugins, settings)
PAGES = (*_OF_LETTERS, namespaces, *_OF_WORK, *_OF_RECORDS)
LINKS = tuple(
    page.LINK
    for page in (overview, groups, letters, runs, alerts, queues, tasks, workers, archive, audit, plugins, settings)
)

__all__ = ["LINKS", "PAGES"]
