"""With a conftest here, pytest knows the folder as ``tests``: packages of tests import from each other by that name."""
