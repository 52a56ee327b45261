"""Checks the decoders against a folder of recorded answers, or of answers that are known to cause trouble.

From the repository's root::

    python -m tests.conformance DIR                # answers with what they mean
    python -m tests.conformance --bugcases DIR     # faults that were reported against other libraries

Such folders do not belong to the repository; ``docs/conformance.md`` says what is in them.

Nothing here asks the code under test what is right: stop reasons, counts and errors are derived from what
the folder says, by tables of this package.
"""
