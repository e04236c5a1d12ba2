"""The `recfact` command: each module adds the commands of one kind to `app`."""

from recfact.cli import bench, gpu, precision, study, window
from recfact.cli.app import app, main

__all__ = ["app", "bench", "gpu", "main", "precision", "study", "window"]
