"""What administration refuses, beyond what all calls do: every kind once."""

from typing import Final

from shared.web.problem import ProblemKind

NO_SUCH_THING: Final = ProblemKind("not_found", 404, "There is no such resource")
IN_USE: Final = ProblemKind("in_use", 409, "Something else depends on it")
NOT_A_DRAFT: Final = ProblemKind("not_a_draft", 409, "A published version does not change")
NOTHING_TO_ROLL_BACK: Final = ProblemKind("nothing_to_roll_back", 409, "There is no earlier version")
IMPORT_ENDED: Final = ProblemKind("import_ended", 409, "The import has ended")
IMPORT_STREAMING: Final = ProblemKind("import_streaming", 409, "Lines are being sent already")
OTHER_LINE: Final = ProblemKind("import_at_other_line", 409, "The import goes on at another line")
STALE: Final = ProblemKind("precondition_failed", 412, "It has changed since it was read")
MATCH_REQUIRED: Final = ProblemKind("precondition_required", 428, "Say which state is to be changed")
INVALID_CURSOR: Final = ProblemKind("invalid_cursor", 422, "The cursor is none of ours")
INVALID_DEFINITION: Final = ProblemKind("invalid_definition", 422, "The definition cannot be used")
UNPUBLISHABLE: Final = ProblemKind("template_unpublishable", 422, "The template cannot be used as it is")
UNREACHABLE: Final = ProblemKind("unreachable", 422, "This user cannot be reached so")
UNKNOWN_SENDER: Final = ProblemKind("unknown_sender", 422, "The sender profile is unknown")
UNSTORABLE: Final = ProblemKind("unstorable_value", 422, "A value cannot be stored")
UNREADABLE: Final = ProblemKind("address_unreadable", 409, "The address cannot be opened")
INVALID_ADDRESS: Final = ProblemKind("invalid_address", 422, "An address cannot be sent to")
TOO_MANY_IMPORTS: Final = ProblemKind("too_many_imports", 429, "Too many imports at once")
