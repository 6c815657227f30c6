"""What the user's API refuses: the kinds of every surface, and its own, each once."""

from typing import Final

from shared.web.problem import ProblemKind

UNAUTHENTICATED: Final = ProblemKind("unauthenticated", 401, "No valid token")
NOTIFICATION_NOT_FOUND: Final = ProblemKind("notification_not_found", 404, "There is no such notification")
INVALID_ID: Final = ProblemKind("invalid_id", 422, "The id is not one of this kind")
TOO_MANY_STREAMS: Final = ProblemKind("too_many_streams", 429, "The user has too many streams open")
INVALID_TICKET: Final = ProblemKind("invalid_ticket", 403, "The ticket opens nothing")
