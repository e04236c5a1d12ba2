"""The `recfact` command: each module adds the commands of one kind to `app`."""

from recfact.cli import bench, precision, study
from recfact.cli.app import app, main

__all__ = ["app", "bench", "main", "precision", "study"]
