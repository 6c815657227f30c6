"""The administration part of the internal API: facts, policies and words, changed by people and back offices."""
