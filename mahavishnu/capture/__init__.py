"""How a workflow is run: each adapter takes a task and its repos."""
