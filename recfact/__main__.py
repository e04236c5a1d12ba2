"""What ``python -m recfact`` runs: the `recfact` command."""

from recfact.cli import main

if __name__ == "__main__":
    main()
