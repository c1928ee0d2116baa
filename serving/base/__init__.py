"""Facts that all of serving shares: number formats, errors, signatures, messages, counters."""
