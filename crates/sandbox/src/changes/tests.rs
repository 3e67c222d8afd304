//! Whether layers are read, applied and taken back as they should, with the journal cut at every moment.
