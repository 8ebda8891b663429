//! Recording and replaying host calls. Pure: bytes in, bytes out. In this version it only records, in memory.
