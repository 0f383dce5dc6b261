"""SQLite exports of Nsight Systems: events, counters, payloads of ranges."""
