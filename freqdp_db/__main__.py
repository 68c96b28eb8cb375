"""`python -m freqdp_db` is the command `freqdp`."""

from freqdp_db.cli.main import main

if __name__ == "__main__":
    main()
