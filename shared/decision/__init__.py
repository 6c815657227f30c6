"""Whether, where and when: facts in, one decision out, every verdict with its reason. Pure."""
