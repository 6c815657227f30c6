"""What an operator can act on."""


class OperatorError(Exception):
    """Base of errors whose message is one sentence with the remedy: no trace is needed, and none is shown.

    OperatorError
    +-- PostgresError    shared/postgres/errors.py
    +-- MessagingError   shared/kafka/error.py
    +-- KeyRingError     shared/runtime/keyring.py
    """
