"""The `recfact` command: each module adds the commands of one kind to `app`."""

from recfact.cli import bench, gpu, precision, solve, study, window
from recfact.cli.app import app, main

__all__ = ["app", "bench", "gpu", "main", "precision", "solve", "study", "window"]
