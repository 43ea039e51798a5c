"""`python -m tunefarm` is the `tunefarm` command."""

from tunefarm.cli.main import main

if __name__ == "__main__":
    main()
