"""``python -m topicstream``: the command ``topics``."""

from topicstream.cli.entry import main

if __name__ == "__main__":
    main()
